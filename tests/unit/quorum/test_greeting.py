"""Which version of the protocol a controller speaks with others."""

import pytest

from quorate.control import messages as m
from quorate.errors import UnsupportedVersionError
from quorate.quorum.control.greeting import common_version

NEWEST = m.PROTOCOL_VERSION_MAX
OLDEST = m.PROTOCOL_VERSION_MIN


@pytest.mark.parametrize(
    ("version_min", "version_max", "spoken"),
    [
        (OLDEST, NEWEST, NEWEST),
        (OLDEST, OLDEST, OLDEST),
        (OLDEST, NEWEST + 7, NEWEST),
        (0, NEWEST, NEWEST),
    ],
)
def test_the_newest_version_that_both_sides_know_is_spoken(
    version_min: int, version_max: int, spoken: int
) -> None:
    hello = m.Hello("c", 7, version_min=version_min, version_max=version_max)
    assert common_version(hello) == spoken


@pytest.mark.parametrize(("version_min", "version_max"), [(0, OLDEST - 1), (NEWEST + 1, 99)])
def test_sides_without_a_common_version_do_not_speak(version_min: int, version_max: int) -> None:
    hello = m.Hello("c", 7, version_min=version_min, version_max=version_max)
    with pytest.raises(UnsupportedVersionError, match=f"you {version_min} to {version_max}"):
        common_version(hello)
