"""What of the faults can be had on this machine, and what is done instead where it cannot."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from quorate.dataclass import dataclass
from quorate.jepsen.lab import namespaces
from quorate.jepsen.lab.native import compiler
from quorate.jepsen.nemesis.fault import Family

COMPILER: Final = "cc"
NAMESPACES: Final = "namespaces"


class Extent(StrEnum):
    """How much of a family there is."""

    WHOLE = "whole"
    REDUCED = "reduced"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Row:
    """A family on this machine.

    Attributes:
        why: What is reduced, or what must be installed; empty if it is whole.
    """

    family: Family
    extent: Extent
    why: str


def found() -> dict[str, str]:
    """Return why each capability is not there; empty for those that are."""
    no_compiler = "there is no C compiler (Debian: apt-get install gcc libc6-dev)"
    return {
        COMPILER: "" if compiler() else no_compiler,
        NAMESPACES: namespaces.missing(),
    }


def table(families: Iterable[Family], network: str, have: dict[str, str]) -> list[Row]:
    """Return what there is of families, with a network of a kind; ``have`` is as in found()."""
    return [_row(family, network, have) for family in families]


def _row(family: Family, network: str, have: dict[str, str]) -> Row:
    missing = [have[need] for need in family.needs if have[need]]
    if NAMESPACES in family.needs and network != NAMESPACES and not missing:
        missing = [f"the network is asked to be of kind {network}"]
    if not missing:
        return Row(family, Extent.WHOLE, "")
    if family.reduced and not have[COMPILER]:
        return Row(family, Extent.REDUCED, f"{family.reduced}; {missing[0]}")
    return Row(family, Extent.MISSING, have[COMPILER] or missing[0])


def network_kind(wanted: str, have: dict[str, str]) -> str:
    """Return the kind of network for what is wanted: ``auto`` is namespaces where they work."""
    if wanted != "auto":
        return wanted
    return "proxy" if have[NAMESPACES] else NAMESPACES
