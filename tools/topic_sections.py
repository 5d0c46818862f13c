"""``quorate topics describe -s -c -p``: a topic in sections, with its offsets, as rpk has them."""

from collections.abc import Mapping, Sequence
from enum import Flag
from typing import Any, Final

from quorate.client.admin import Admin, raise_first
from quorate.client.admin_results import ConfigEntry, ConfigResource, OffsetSpec, TopicDescription
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import TopicPartition
from quorate.tools.arguments import GlobalOptions
from quorate.tools.configs import SOURCES
from quorate.tools.output import Column, Table, render
from quorate.tools.topics import Client, Described, topics_told, uuid_text


class Section(Flag):
    """What to show of a topic."""

    NONE = 0
    SUMMARY = 1
    CONFIGS = 2
    PARTITIONS = 4
    ALL = 7


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where the log of a partition starts, and where its committed part ends; None: not known."""

    log_start: int | None = None
    high_watermark: int | None = None


NO_OFFSETS: Final = Offsets()


@dataclass(frozen=True, slots=True)
class Topic:
    """What is shown of a topic; ``offsets`` by partition, empty if nobody wants them."""

    described: Described
    offsets: Mapping[int, Offsets]

    def tables(self, sections: Section) -> dict[Section, Table]:
        """Return a table for each section that is wanted."""
        make = {
            Section.SUMMARY: self._summary,
            Section.CONFIGS: self._configs,
            Section.PARTITIONS: self._partitions,
        }
        return {section: make[section]() for section in make if section in sections}

    def _summary(self) -> Table:
        topic = self.described.topic
        replicas = len(topic.partitions[0].replicas) if topic.partitions else 0
        columns = ("name", "topic_id", "internal", "partitions", "replicas", "durability")
        row = (
            topic.name, uuid_text(topic.topic_id), topic.is_internal, len(topic.partitions),
            replicas, self.described.durability,
        )  # fmt: skip
        return Table("summary", tuple(map(Column, columns)), (row,))

    def _configs(self) -> Table:
        rows = tuple(
            (
                name,
                "(hidden)" if entry.is_sensitive else entry.value,
                SOURCES.get(entry.source, str(entry.source)),
            )
            for name, entry in sorted(self.described.configs.items())
        )
        return Table("configs", (Column("key"), Column("value"), Column("source")), rows)

    def _partitions(self) -> Table:
        columns = (
            Column("partition"), Column("leader"), Column("epoch"), Column("replicas"),
            Column("isr"), Column("offline"), Column("log_start_offset"), Column("high_watermark"),
        )  # fmt: skip
        rows: list[tuple[Any, ...]] = []
        for p in self.described.topic.partitions:
            offsets = self.offsets.get(p.partition, NO_OFFSETS)
            leader = None if p.leader_id < 0 else p.leader_id
            row = (
                p.partition, leader, p.leader_epoch, list(p.replicas), list(p.isr),
                list(p.offline), offsets.log_start, offsets.high_watermark,
            )  # fmt: skip
            rows.append(row)
        return Table("partitions", columns, tuple(rows))


def text_of(topics: Sequence[Topic], sections: Section, style: str) -> str:
    """Return the sections of each topic below their headings; one alone needs none."""
    parts: list[str] = []
    for topic in topics:
        tables = topic.tables(sections)
        for section, table in tables.items():
            heading = str(section.name)
            if len(topics) > 1:
                heading = f"{heading} of {topic.described.topic.name}"
            head = f"{heading}\n{'=' * len(heading)}\n" if len(topics) * len(tables) > 1 else ""
            parts.append(head + render(table, style))
    return "\n".join(parts)


def document_of(topics: Sequence[Topic], sections: Section) -> Table:
    """Return a row for each topic, with the rows of its sections; None where one is not wanted."""
    wanted = (Section.SUMMARY, Section.CONFIGS, Section.PARTITIONS)
    columns = (Column("name"), *(Column(str(section.name).lower()) for section in wanted))
    rows: list[tuple[Any, ...]] = []
    for topic in topics:
        tables = topic.tables(sections)
        items = (tables[s].items() if s in tables else None for s in wanted)
        rows.append((topic.described.topic.name, *items))
    return Table("topic_sections", columns, tuple(rows))


async def describe_sections(
    options: GlobalOptions, client: Client, names: Sequence[str], sections: Section
) -> str:
    """Return the sections of topics as text; all topics, if none is named.

    Raises:
        QuorateError: a topic does not exist.
    """
    async with client.admin() as admin:
        wanted = list(names) or [topic.name for topic in await admin.list_topics()]
        told, elr_is_known = await topics_told(admin, wanted) if wanted else ({}, True)
        raise_first(told)
        topics = [topic for topic in told.values() if isinstance(topic, TopicDescription)]
        resources = [ConfigResource.topic(name) for name in wanted]
        configs = await admin.describe_configs(resources) if wanted else {}
        offsets = await _offsets(admin, topics) if Section.PARTITIONS in sections else {}
    found: list[Topic] = []
    for topic in topics:
        entries = configs.get(ConfigResource.topic(topic.name))
        known: Mapping[str, ConfigEntry] = {}
        if entries is not None and not isinstance(entries, QuorateError):
            known = entries
        mine = {p.partition: at for p, at in offsets.items() if p.topic == topic.name}
        found.append(Topic(Described(topic, known, elr_is_known), mine))
    if options.format in {"table", "wide"}:
        return text_of(found, sections, options.format)
    return render(document_of(found, sections), options.format)


async def _offsets(
    admin: Admin, topics: Sequence[TopicDescription]
) -> dict[TopicPartition, Offsets]:
    """Return the offsets of partitions; one that has no leader now has none."""
    parts = [
        TopicPartition(t.name, p.partition)
        for t in topics
        for p in t.partitions
        if p.leader_id >= 0
    ]
    first, end = [
        await admin.list_offsets(dict.fromkeys(parts, spec)) if parts else {}
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
    ]

    def known(found: Mapping[TopicPartition, Any], part: TopicPartition) -> int | None:
        at = found.get(part)
        return None if at is None or isinstance(at, QuorateError) else int(at.offset)

    return {part: Offsets(known(first, part), known(end, part)) for part in parts}
