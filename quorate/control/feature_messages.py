"""What is said about the levels that a cluster works at."""

from enum import IntEnum
from typing import Annotated

from quorate.control.codec import Key
from quorate.control.messages import Answer, Request
from quorate.dataclass import dataclass


class Upgrade(IntEnum):
    """Which way a level may go; the numbers are those of Kafka's UpdateFeatures."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A feature shall work at a level; 0 switches it off."""

    name: Annotated[str, Key(1)]
    level: Annotated[int, Key(2)]
    upgrade: Annotated[Upgrade, Key(3)] = Upgrade.UPGRADE


@dataclass(frozen=True, slots=True)
class UpdateFeaturesAnswer(Answer):
    """All of the features work at their new levels, or could (``validate_only``)."""


@dataclass(frozen=True, slots=True)
class UpdateFeatures(Request[UpdateFeaturesAnswer]):
    """Change levels, all of them or none."""

    updates: Annotated[tuple[FeatureUpdate, ...], Key(1)]
    validate_only: Annotated[bool, Key(2)] = False
    principal: Annotated[str, Key(3)] = ""
