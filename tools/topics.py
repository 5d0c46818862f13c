"""Topics: made, listed, described, changed, deleted, trimmed."""

import base64
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quorate.client.admin import Admin, raise_first
from quorate.client.admin_results import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    NewTopic,
    TopicDescription,
)
from quorate.dataclass import dataclass
from quorate.errors import (
    ErrorCode,
    KafkaError,
    QuorateError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from quorate.model import TopicPartition
from quorate.setting_values import unknown_setting
from quorate.tools.arguments import GlobalOptions
from quorate.tools.output import Column, Table, topic_config_text
from quorate.tools.problems import UsageError
from quorate.tools.session import note, print_table, say

if TYPE_CHECKING:
    from quorate.client.consumer import Consumer
    from quorate.tools.positions import Mark

TOPIC_SOURCE = 1
"""The protocol's number for "somebody set this for the topic"."""

DURABILITY_PROPERTIES = ("flush.messages", "flush.ms")
NEVER = str(2**63 - 1)


@dataclass(frozen=True, slots=True)
class Client:
    """How to make a client: addresses and connection options."""

    bootstrap: str
    options: Any

    def admin(self) -> Admin:
        """Return an admin client, not connected yet."""
        return Admin(self.bootstrap, **self.options)

    def consumer(self, **more: Any) -> "Consumer":
        """Return a consumer, not connected yet."""
        from quorate.client.consumer import Consumer

        return Consumer(self.bootstrap, **self.options, **more)


def uuid_text(uuid: bytes) -> str:
    """Return an id as Kafka's tools print it."""
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


async def create(
    options: GlobalOptions,
    client: Client,
    topics: Sequence[NewTopic],
    *,
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics, and say so for each.

    Raises:
        QuorateError: one could not be created; the others were all the same.
    """
    async with client.admin() as admin:
        results = dict(await admin.create_topics(topics, validate_only=dry_run))
        for name, error in list(results.items()):
            exists = isinstance(error, KafkaError) and error.code == ErrorCode.TOPIC_ALREADY_EXISTS
            if exists and if_not_exists:
                del results[name]
                say(options, f"Topic {name} exists already.")
        created = [name for name, error in results.items() if error is None]
        for name in created:
            say(options, f"{'Would create' if dry_run else 'Created'} topic {name}.")
        _raise_errors(options, results)


async def list_topics(client: Client, pattern: str | None, *, internal: bool) -> Table:
    """Return the topics there are, by name."""
    async with client.admin() as admin:
        listed = await admin.list_topics(include_internal=internal)
    wanted = re.compile(pattern or "")
    columns = (
        Column("name"), Column("partitions"), Column("topic_id"), Column("internal"),
    )  # fmt: skip
    rows = tuple(
        (topic.name, topic.partition_count, uuid_text(topic.topic_id), topic.is_internal)
        for topic in listed
        if wanted.search(topic.name)
    )
    return Table("topics", columns, rows)


@dataclass(frozen=True, slots=True)
class Described:
    """A topic and what was set for it; old brokers tell of no eligible leader replicas."""

    topic: TopicDescription
    configs: Mapping[str, ConfigEntry]
    elr_is_known: bool = True

    @property
    def overrides(self) -> list[tuple[str, str]]:
        """The settings that somebody made for this topic, by name."""
        return sorted(
            (name, entry.value or "")
            for name, entry in self.configs.items()
            if entry.source == TOPIC_SOURCE
        )

    @property
    def durability(self) -> str:
        """When a record counts as safe: see docs/guarantees.md."""
        messages, ms = (
            entry.value if (entry := self.configs.get(name)) else NEVER
            for name in DURABILITY_PROPERTIES
        )
        if messages == "1":
            return "fsync"
        return "replicated" if (messages, ms) == (NEVER, NEVER) else "timed"

    def lines(self, *, wide: bool) -> list[str]:
        """Return the lines that Kafka's tools print; wide ones say more."""
        topic = self.topic
        replicas = len(topic.partitions[0].replicas) if topic.partitions else 0
        head = (
            f"Topic: {topic.name}\tTopicId: {uuid_text(topic.topic_id)}"
            f"\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: {replicas}"
            f"\tConfigs: {topic_config_text(self.overrides)}"
        )
        lines = [head + (f"\tDurability: {self.durability}" if wide else "")]
        for p in topic.partitions:
            leader = "none" if p.leader_id < 0 else str(p.leader_id)
            elr, last_known = p.elr, p.last_known_elr
            lines.append(
                f"\tTopic: {topic.name}\tPartition: {p.partition}\tLeader: {leader}"
                f"\tReplicas: {_ids(p.replicas)}\tIsr: {_ids(p.isr)}"
                f"\tElr: {_ids(elr) if self.elr_is_known else 'N/A'}"
                f"\tLastKnownElr: {_ids(last_known) if self.elr_is_known else 'N/A'}"
                + (f"\tLeaderEpoch: {p.leader_epoch}" if wide else "")
            )
        return lines

    def row(self) -> tuple[Any, ...]:
        """Return the topic as a row of :data:`DESCRIBE_COLUMNS`."""
        partitions = [
            {
                "partition": p.partition,
                "leader": p.leader_id,
                "leader_epoch": p.leader_epoch,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                "offline": list(p.offline),
                "elr": list(p.elr) if self.elr_is_known else None,
                "last_known_elr": list(p.last_known_elr) if self.elr_is_known else None,
            }
            for p in self.topic.partitions
        ]
        topic_id = uuid_text(self.topic.topic_id)
        return (
            self.topic.name, topic_id, self.durability, dict(self.overrides), partitions,
        )  # fmt: skip


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


DESCRIBE_COLUMNS = (
    Column("name"), Column("topic_id"), Column("durability"), Column("configs"),
    Column("partitions"),
)  # fmt: skip


async def topics_told(
    admin: Admin, names: Sequence[str]
) -> tuple[dict[str, TopicDescription | QuorateError], bool]:
    """Return topics, and whether brokers told of eligible leader replicas (KIP-966)."""
    try:
        return await admin.describe_topic_partitions(names), True
    except UnsupportedVersionError:
        return await admin.describe_topics(names), False


async def describe(options: GlobalOptions, client: Client, names: Sequence[str]) -> None:
    """Print topics with their partitions; all topics, if none is named.

    Raises:
        QuorateError: a topic does not exist.
    """
    async with client.admin() as admin:
        wanted = list(names) or [topic.name for topic in await admin.list_topics()]
        topics, elr_is_known = await topics_told(admin, wanted) if wanted else ({}, True)
        resources = [ConfigResource.topic(name) for name in wanted]
        configs = await admin.describe_configs(resources) if wanted else {}
    found: list[Described] = []
    for name, topic in topics.items():
        if isinstance(topic, QuorateError):
            continue
        entries = configs.get(ConfigResource.topic(name))
        known = {} if entries is None or isinstance(entries, QuorateError) else entries
        found.append(Described(topic, known, elr_is_known))
    if options.format in {"table", "wide"}:
        for described in found:
            for line in described.lines(wide=options.format == "wide"):
                sys.stdout.write(line + "\n")
    else:
        print_table(options, Table("topics", DESCRIBE_COLUMNS, tuple(t.row() for t in found)))
    raise_first(topics)


@dataclass(frozen=True, slots=True)
class Alteration:
    """What to change about a topic."""

    name: str
    partitions: int | None
    set_configs: Mapping[str, str]
    delete_configs: tuple[str, ...]


async def alter(
    options: GlobalOptions, client: Client, change: Alteration, *, dry_run: bool
) -> None:
    """Change a topic's number of partitions and its settings.

    Raises:
        QuorateError: it could not be changed.
    """
    from quorate.settings import TOPIC_SETTINGS

    would = "Would change" if dry_run else "Changed"
    resource = ConfigResource.topic(change.name)
    async with client.admin() as admin:
        await refuse_unknown(admin, resource, change.delete_configs, TOPIC_SETTINGS)
        if change.partitions is not None:
            counts = {change.name: change.partitions}
            raise_first(await admin.create_partitions(counts, validate_only=dry_run))
            say(options, f"{would} topic {change.name}: {change.partitions} partitions.")
            note(
                options,
                "note: records with keys go to other partitions from now on; those already"
                " written stay where they are",
            )
        changes = [ConfigChange(name, value) for name, value in change.set_configs.items()]
        changes += [
            ConfigChange(name, None, ConfigOperation.DELETE) for name in change.delete_configs
        ]
        if changes:
            raise_first(await admin.alter_configs({resource: changes}, validate_only=dry_run))
            say(options, f"{would} topic {change.name}: {len(changes)} configuration(s).")


async def refuse_unknown(
    admin: Admin, resource: ConfigResource, names: Iterable[str], ours: Collection[str]
) -> None:
    """See that settings to be taken back are known to us or to the cluster: it takes any name.

    Raises:
        QuorateError: one is unknown, or the cluster does not say.
    """
    strange = [name for name in names if name not in ours]
    if not strange:
        return
    told = (await admin.describe_configs([resource]))[resource]
    if isinstance(told, QuorateError):
        raise told
    for name in strange:
        if name not in told:
            raise unknown_setting([*ours, *told], name)


async def matching(client: Client, names: Sequence[str], *, regex: bool) -> list[str]:
    """Return the names given, or those of all topics that match one of the expressions whole.

    Raises:
        UsageError: one is no expression.
        UnknownTopicOrPartitionError: none matches.
    """
    if not regex:
        return list(names)
    for name in names:
        try:
            re.compile(name)
        except re.error as error:
            raise UsageError(
                f"{name!r} is no regular expression", why=str(error), hint="'app.*'"
            ) from None
    async with client.admin() as admin:
        listed = await admin.list_topics()
    found = [t.name for t in listed if any(re.fullmatch(name, t.name) for name in names)]
    if not found:
        raise UnknownTopicOrPartitionError(f"no topic matches {' or '.join(names)}")
    return found


async def existing(client: Client, names: Sequence[str], *, if_exists: bool) -> list[str]:
    """Return those of the names that topics have.

    Raises:
        UnknownTopicOrPartitionError: one is none, and nobody said that this is allowed.
    """
    async with client.admin() as admin:
        there = {topic.name for topic in await admin.list_topics(include_internal=True)}
    missing = [name for name in names if name not in there]
    if missing and not if_exists:
        raise UnknownTopicOrPartitionError(f"there is no topic {missing[0]!r}")
    return [name for name in names if name in there]


async def delete(
    options: GlobalOptions, client: Client, names: Sequence[str], *, if_exists: bool
) -> None:
    """Delete topics with all their records.

    Raises:
        QuorateError: one could not be deleted; the others were all the same.
    """
    async with client.admin() as admin:
        results = dict(await admin.delete_topics(names))
        for name, error in list(results.items()):
            unknown = (
                isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            if unknown and if_exists:
                del results[name]
            elif error is None:
                say(options, f"Deleted topic {name}.")
        _raise_errors(options, results)


async def plan_trim(
    client: Client, topic: str, partitions: Sequence[int] | None, before: "Mark"
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first offset of each partition now, and what it would be after the trim."""
    from quorate.tools.consuming import find_bounds

    async with client.consumer() as consumer:
        numbers = await consumer.partitions_of(topic)
        chosen = [TopicPartition(topic, n) for n in (partitions or numbers)]
        bounds = await find_bounds(consumer, chosen, [before])
    return {
        p: (known.first_offset, max(known.first_offset, known.offset_of(before)))
        for p, known in bounds.items()
    }


def trim_table(plan: Mapping[TopicPartition, tuple[int, int]]) -> Table:
    """Return what a trim deletes."""
    columns = (
        Column("topic"), Column("partition"), Column("first_offset"), Column("new_first_offset"),
        Column("deletes"),
    )  # fmt: skip
    rows = tuple((*p, first, new, new - first) for p, (first, new) in plan.items())
    return Table("trims", columns, rows)


async def trim(client: Client, plan: Mapping[TopicPartition, tuple[int, int]]) -> None:
    """Delete the records before the new first offsets.

    Raises:
        QuorateError: a partition could not be trimmed.
    """
    async with client.admin() as admin:
        raise_first(await admin.delete_records({p: new for p, (_, new) in plan.items()}))


def _raise_errors(options: GlobalOptions, results: Mapping[str, QuorateError | None]) -> None:
    """Raise the first error, after telling about the others."""
    errors = [error for error in results.values() if error is not None]
    for error in errors[1:]:
        note(options, f"error: {error}")
    if errors:
        raise errors[0]
