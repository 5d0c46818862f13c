"""The cyclic garbage collector of a process that must not pause."""

import gc
from typing import Final

YOUNG_OBJECTS_MAX: Final = 5_000
"""Allocations between two collections of the youngest objects: a pause of about a millisecond."""

OLD_COLLECTIONS: Final = 1000
"""Collections of the middle generation between two that visit everything."""


def calm_collector() -> None:
    """Have the collector visit what is new only: what lives now lives on.

    Visiting everything takes 0.3 s with the metadata of 200,000 partitions, which make no cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, 5, OLD_COLLECTIONS)
