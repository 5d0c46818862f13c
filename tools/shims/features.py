"""``kafka-features``: the levels of features, shown and changed (KIP-584)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from quorate.client.admin import Admin
from quorate.client.admin_results import FeatureChange, FeatureUpgrade
from quorate.errors import QuorateError
from quorate.tools.shims.arguments import Given, ShimError, options
from quorate.tools.shims.asking import client, message_of

FEATURES: Final = options("dry-run unsafe", "feature metadata release-version", positional=True)
COMMANDS: Final = ("describe", "upgrade", "downgrade", "disable")


async def features(given: Given, environment: Mapping[str, str]) -> Iterable[str]:
    """Carry out ``kafka-features``; return the lines to print.

    Raises:
        ShimError: it failed.
    """
    if not given.words:
        raise ShimError("kafka-features: error: too few arguments")
    command, *rest = given.words
    if command not in COMMANDS or rest:
        known = ", ".join(f"'{name}'" for name in COMMANDS)
        raise ShimError(
            f"kafka-features: error: invalid choice: '{[command, *rest][-1]}' (choose from {known})"
        )
    changes = [] if command == "describe" else _changes(command, given)
    async with client(given, environment).admin() as admin:
        if command == "describe":
            return await _describe(admin)
        return await _change(admin, command, changes, dry_run="dry-run" in given)


async def _describe(admin: Admin) -> list[str]:
    told = await admin.describe_versions()
    epoch = "-" if told.features_epoch < 0 else str(told.features_epoch)
    return [
        f"Feature: {name:<42}SupportedMinVersion: {known.first:<17}"
        f"SupportedMaxVersion: {known.last:<17}"
        f"FinalizedVersionLevel: {told.finalized_features.get(name, 0):<17}Epoch: {epoch}"
        for name, known in sorted(told.supported_features.items())
    ]


def _changes(command: str, given: Given) -> list[FeatureChange]:
    """Return what is asked for.

    Raises:
        ShimError: it makes no sense, or names a release of Kafka.
    """
    way = FeatureUpgrade.UPGRADE
    if command != "upgrade":
        is_unsafe = "unsafe" in given
        way = FeatureUpgrade.UNSAFE_DOWNGRADE if is_unsafe else FeatureUpgrade.SAFE_DOWNGRADE
    for name in ("release-version", "metadata"):
        if name in given:
            raise ShimError(
                f"--{name} names a release of Kafka, which this cluster is not;"
                " use --feature, as with quorate.metadata.version=3"
            )
    if "feature" not in given:
        raise ShimError(f"You must specify at least one feature to {command}")
    if command == "disable":
        return [FeatureChange(name, 0, way) for name in sorted(given.all("feature"))]
    levels = dict(_parse(text) for text in given.all("feature"))
    return [FeatureChange(name, level, way) for name, level in sorted(levels.items())]


def _parse(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    complaint = f"Can't parse feature=level string {text}: "
    if not equals:
        raise ShimError(f"{complaint}equals sign not found.")
    try:
        return name.strip(), int(level)
    except ValueError:
        raise ShimError(f"{complaint}unable to parse {level.strip()} as a short.") from None


async def _change(
    admin: Admin, command: str, changes: list[FeatureChange], *, dry_run: bool
) -> Iterable[str]:
    """Change all, or none; return the lines to print, which end with an error if it was refused."""
    done = f"{command}d" if command != "upgrade" else "upgraded"
    try:
        await admin.update_features(changes, validate_only=dry_run)
    except QuorateError as error:
        why = message_of(error).removeprefix("features: ")
        return _refused("Can not" if dry_run else "Could not", command, changes, why)
    verb = "can be" if dry_run else "was"
    return [f"{c.name} {verb} {done}{_level(command, c)}." for c in changes]


def _refused(could_not: str, command: str, changes: list[FeatureChange], why: str) -> Iterator[str]:
    for change in changes:
        yield f"{could_not} {command} {change.name}{_level(command, change)}. {why}"
    raise ShimError(f"{len(changes)} out of {len(changes)} operation(s) failed.")


def _level(command: str, change: FeatureChange) -> str:
    return "" if command == "disable" else f" to {change.level}"
