"""``quorate features``: the levels that a cluster works at, and those that its brokers could."""

from collections.abc import Iterable, Mapping, Sequence

from quorate.client.admin import Admin
from quorate.client.admin_results import BrokerVersions, FeatureChange, FeatureUpgrade
from quorate.dataclass import dataclass
from quorate.tools.output import Column, Table
from quorate.tools.problems import UsageError
from quorate.tools.topics import Client


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of a cluster.

    Attributes:
        level_min: with ``level_max``, what all brokers support; if ``level_max`` is less, nothing.
        finalized: what the cluster works at; 0 is off.
        epoch: grows with whatever is finalized, -1 if nobody knows.
        held_back_by: the brokers that do not support what another one does.
    """

    name: str
    level_min: int
    level_max: int
    finalized: int
    epoch: int
    held_back_by: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A level that shall be another."""

    name: str
    before: int
    after: int


def features_of(brokers: Mapping[int, BrokerVersions]) -> list[Feature]:
    """Return what brokers, at least one, say of features, by name."""
    newest = max(brokers.values(), key=lambda told: told.features_epoch)
    names = {name for told in brokers.values() for name in told.supported_features}
    return [
        _feature(name, brokers, newest) for name in sorted(names | {*newest.finalized_features})
    ]


def _feature(name: str, brokers: Mapping[int, BrokerVersions], newest: BrokerVersions) -> Feature:
    ranges = {b: told.supported_features.get(name) for b, told in brokers.items()}
    lows = [0 if known is None else known.first for known in ranges.values()]
    highs = {b: 0 if known is None else known.last for b, known in ranges.items()}
    return Feature(
        name,
        max(lows),
        min(highs.values()),
        newest.finalized_features.get(name, 0),
        newest.features_epoch,
        tuple(sorted(b for b, high in highs.items() if high < max(highs.values()))),
    )


def features_table(features: Iterable[Feature]) -> Table:
    """Return a row for each feature."""
    columns = ("feature", "min", "max", "finalized", "epoch", "held_back_by")
    rows = tuple(
        (f.name, f.level_min, f.level_max, f.finalized, f.epoch, list(f.held_back_by))
        for f in features
    )
    return Table("features", tuple(map(Column, columns)), rows)


def plan_changes(features: Sequence[Feature], wanted: Sequence[str]) -> list[LevelChange]:
    """Return what ``NAME=LEVEL`` asks for; without any, all that every broker supports.

    Whether it can be is for the controller to say. What is so already is left out.

    Raises:
        UsageError: a text has another form, or there is no such feature.
    """
    known = {feature.name: feature for feature in features}
    levels = {f.name: max(f.level_max, f.finalized) for f in features}
    if wanted:
        levels = dict(_parse_level(text, known) for text in wanted)
    changes = [LevelChange(name, known[name].finalized, level) for name, level in levels.items()]
    return [change for change in changes if change.before != change.after]


def _parse_level(text: str, known: Mapping[str, Feature]) -> tuple[str, int]:
    name, _, level = text.partition("=")
    if not level.isdecimal():
        raise UsageError(
            f"{text!r} names no level",
            why="a level is written as NAME=NUMBER",
            hint="quorate features upgrade transaction.version=2",
        )
    if name not in known:
        raise UsageError(
            f"there is no feature {name}",
            why=f"brokers know {', '.join(known)}",
            hint="quorate features describe",
        )
    return name, int(level)


def changes_table(changes: Iterable[LevelChange]) -> Table:
    """Return a row for each change."""
    columns = (Column("feature"), Column("from"), Column("to"))
    return Table("feature_changes", columns, tuple((c.name, c.before, c.after) for c in changes))


async def look(client: Client) -> list[Feature]:
    """Ask every broker that is in service."""
    async with client.admin() as admin:
        return await _look(admin)


async def _look(admin: Admin) -> list[Feature]:
    brokers = (await admin.describe_cluster()).brokers
    return features_of({b.broker_id: await admin.describe_versions(b.broker_id) for b in brokers})


async def change(
    client: Client, changes: Iterable[LevelChange], way: FeatureUpgrade, *, validate_only: bool
) -> None:
    """Have the controller change levels, or only say whether it would.

    Raises:
        KafkaError: it will not; the message says why.
    """
    wanted = [FeatureChange(change.name, change.after, way) for change in changes]
    async with client.admin() as admin:
        await admin.update_features(wanted, validate_only=validate_only)
