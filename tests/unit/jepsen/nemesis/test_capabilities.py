"""What of the faults there is on a machine."""

import pytest

from quorate.jepsen.nemesis.capabilities import (
    COMPILER,
    NAMESPACES,
    Extent,
    found,
    network_kind,
    table,
)
from quorate.jepsen.nemesis.faults import FAULTS

EVERYTHING = {COMPILER: "", NAMESPACES: ""}
NO_ROOT = {COMPILER: "", NAMESPACES: "this is not root"}
NOTHING = {COMPILER: "there is no compiler", NAMESPACES: "this is not root"}
OF_PROCESSES = {"kill", "pause", "restart"}


def extents(have: dict[str, str], network: str) -> dict[str, Extent]:
    families = [family for name, family in FAULTS.items() if name != "directed"]
    return {row.family.name: row.extent for row in table(families, network, have)}


def test_as_root_with_nftables_everything_is_whole() -> None:
    assert set(extents(EVERYTHING, NAMESPACES).values()) == {Extent.WHOLE}


def test_without_root_faults_of_the_network_are_reduced_and_say_so() -> None:
    reduced = [n for n, extent in extents(NO_ROOT, "proxy").items() if extent is Extent.REDUCED]
    assert reduced == ["partition", "delay", "membership"]
    rows = table([FAULTS[name] for name in reduced], "proxy", NO_ROOT)
    assert all("proxy" in row.why and "not root" in row.why for row in rows)


def test_without_a_compiler_only_processes_are_hurt() -> None:
    found = extents(NOTHING, "proxy")
    assert {name for name, extent in found.items() if extent is Extent.WHOLE} == OF_PROCESSES
    assert {found[name] for name in found.keys() - OF_PROCESSES} == {Extent.MISSING}
    (row,) = table([FAULTS["power"]], "proxy", NOTHING)
    assert "compiler" in row.why


@pytest.mark.parametrize(
    ("wanted", "have", "kind"),
    [
        ("auto", EVERYTHING, "namespaces"),
        ("auto", NO_ROOT, "proxy"),
        ("proxy", EVERYTHING, "proxy"),
        ("namespaces", NO_ROOT, "namespaces"),
    ],
)
def test_a_network_is_one_of_namespaces_where_there_are_some(
    wanted: str, have: dict[str, str], kind: str
) -> None:
    assert network_kind(wanted, have) == kind


def test_this_machine_says_what_it_lacks() -> None:
    assert found().keys() == {COMPILER, NAMESPACES}
