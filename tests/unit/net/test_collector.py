"""The collector leaves alone what was there before."""

import gc

from quorate.net.collector import OLD_COLLECTIONS, YOUNG_OBJECTS_MAX, calm_collector


def test_what_lives_is_not_visited_again() -> None:
    thresholds = gc.get_threshold()
    try:
        calm_collector()
        assert gc.get_threshold() == (YOUNG_OBJECTS_MAX, 5, OLD_COLLECTIONS)
        assert gc.get_freeze_count() > 1000
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
