"""The cluster as it was after one of the controllers' decisions, and what that one changed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from quorate.broker.shards.topics import INTERNAL_TOPICS
from quorate.client.admin_results import (
    BrokerDescription,
    ConfigEntry,
    PartitionDescription,
    TopicDescription,
)
from quorate.dataclass import dataclass
from quorate.model import Endpoint
from quorate.quorum.metadata.image import (
    BROKER,
    CLUSTER_DEFAULT,
    TOPIC,
    BrokerImage,
    ConfigResource,
    MetadataImage,
    TopicImage,
)
from quorate.tools.metadata.timeline import Timeline
from quorate.tools.positions import time_text
from quorate.tools.tui.views import places
from quorate.tools.tui.views.cells import UNKNOWN, Frame, Line, Part, Row, Tone
from quorate.tools.tui.views.cluster import brokers_part, health_parts
from quorate.tools.tui.views.frames import frame_of
from quorate.tools.tui.views.places import Place
from quorate.tools.tui.views.shapes import duration_text
from quorate.tools.tui.views.snapshot import Snapshot
from quorate.tools.tui.views.streams import about

TOLD: Final = frozenset(
    {places.TOPICS, places.PARTITIONS, places.BROKERS, places.CONFIGS, places.EVENTS}
)
"""What the log of metadata tells of; groups, transactions and messages are elsewhere."""

UNTOLD: Final = frozenset(
    {"records", "rate/s", "size", "log_end", "log", "open", "log_start", "high_watermark", "lags"}
)
"""Columns of what only the brokers know: how long logs were."""

EVENTS_MAX: Final = 1_000
SOURCES: Final = {TOPIC: 1, BROKER: 2}
DEFAULT_SOURCE: Final = 3
MIN_ISR: Final = "min.insync.replicas"
NOWHERE: Final = Endpoint("-", 0)


@dataclass(frozen=True, slots=True)
class Travel:
    """Where somebody stands in the log of metadata: after batch ``at``."""

    timeline: Timeline
    at: int

    def stepped(self, by: int) -> "Travel":
        """Return the travel some decisions on, or back; it ends where the log does."""
        return replace(self, at=max(0, min(self.timeline.last, self.at + by)))


def past_snapshot(travel: Travel, now: Snapshot) -> Snapshot:
    """Return the cluster as the metadata had it; of what they do not tell there is nothing."""
    timeline, at = travel.timeline, travel.at
    image = timeline.image(at)
    time_ms = timeline.time_ms(at)
    decided = timeline.until(at)[-EVENTS_MAX:]
    return Snapshot(
        now_ms=now.now_ms if time_ms is None else time_ms,
        cluster_id=image.cluster_id or now.cluster_id,
        bootstrap=now.bootstrap,
        brokers=tuple(_broker(image.brokers[each]) for each in sorted(image.brokers)),
        topics=tuple(_topic(topic, image) for topic in image.topics.values()),
        min_isr={name: _min_isr(image, name) for name in image.topics},
        configs=_configs(image),
        events=tuple(decided),
        answered_ms=now.now_ms,
    )


def _broker(broker: BrokerImage) -> BrokerDescription:
    endpoint = next(iter(broker.endpoints.values()), NOWHERE)
    return BrokerDescription(
        broker.broker_id, endpoint, broker.rack, broker.fenced,
        is_shutting_down=broker.shutting_down, is_draining=broker.draining,
        cannot_write=broker.cannot_write,
    )  # fmt: skip


def _topic(topic: TopicImage, image: MetadataImage) -> TopicDescription:
    dead = {broker_id for broker_id, broker in image.brokers.items() if broker.fenced}
    partitions = tuple(
        PartitionDescription(
            number, state.leader_id, state.leader_epoch, state.replicas, state.isr,
            tuple(each for each in state.replicas if each in dead), state.elr,
        )
        for number, state in enumerate(topic.partitions)
    )  # fmt: skip
    return TopicDescription(topic.name, topic.topic_id, topic.name in INTERNAL_TOPICS, partitions)


def _min_isr(image: MetadataImage, topic: str) -> int:
    for resource in (ConfigResource(TOPIC, topic), ConfigResource(BROKER, CLUSTER_DEFAULT)):
        text = image.configs.get(resource, {}).get(MIN_ISR, "")
        if text.isdecimal():
            return int(text)
    return 1


def _configs(image: MetadataImage) -> dict[str, Mapping[str, ConfigEntry]]:
    """Return what was set on each resource; defaults are not in the log."""
    return {
        f"{resource.type}/{resource.name or 'default'}": {
            name: ConfigEntry(
                name, value, SOURCES.get(resource.type, 8) if resource.name else DEFAULT_SOURCE,
                is_read_only=False, is_sensitive=False, documentation=None,
            )
            for name, value in values.items()
        }
        for resource, values in image.configs.items()
    }  # fmt: skip


def past_frame(place: Place, snapshot: Snapshot) -> Frame:
    """Return the table of a place in the past, or one that says why there is none."""
    if place.view not in TOLD:
        remark = f"the log of metadata does not tell of {place.view}; esc comes back to now"
        return Frame(f"{place.title}, back then", frame_of(place, Snapshot(0)).columns, (), remark)
    frame = frame_of(place, snapshot)
    remark = "nothing was set then" if place.view == places.CONFIGS else "there was none then"
    at = [i for i, column in enumerate(frame.columns) if column.name not in UNTOLD]
    return Frame(
        f"{frame.title}, back then",
        tuple(frame.columns[i] for i in at),
        tuple(Row(r.key, tuple(r.cells[i] for i in at), r.subject) for r in frame.rows),
        remark,
        frame.newest_first,
    )


def changed_keys(place: Place, travel: Travel, now: Snapshot) -> frozenset[str]:
    """Return the rows that the last decision made or changed."""
    if place.view not in TOLD or travel.at == 0:
        return frozenset()
    before = past_frame(place, past_snapshot(travel.stepped(-1), now))
    after = past_frame(place, past_snapshot(travel, now))
    old = {row.key: row.cells for row in before.rows}
    return frozenset(row.key for row in after.rows if old.get(row.key) != row.cells)


def past_header(travel: Travel, past: Snapshot, now_ms: int) -> tuple[Line, ...]:
    """Return the lines at the top: which moment, how the cluster was, what was just decided."""
    timeline, at = travel.timeline, travel.at
    time_ms = timeline.time_ms(at)
    when = "at a time that is not known"
    if time_ms is not None:
        at_time = f"{time_text(time_ms)[:19].replace('T', ' ')}Z"
        when = f"{at_time}, {duration_text(max(0, now_ms - time_ms))} ago"
    term = timeline.batches[at].term
    who: Line = (
        Part(" quorate ", Tone.WARN_BLOCK),
        Part(f" {past.cluster_id or UNKNOWN}  "),
        Part(when, Tone.STRONG),
        Part(f"  term {UNKNOWN if term is None else term}", Tone.DIM),
    )
    how: Line = (Part(" "), brokers_part(past), Part("  "), *health_parts(past)[1:])
    offset = timeline.batches[at].offset
    place = Part(f" metadata@{offset} ({at + 1:,} of {timeline.last + 1:,}) ", Tone.WARN_BLOCK)
    return who, how, (place, Part(f" {decision_text(travel)}"))


def decision_text(travel: Travel) -> str:
    """Return what was decided last, and why."""
    batch = travel.timeline.batches[travel.at]
    decided = travel.timeline.decided[travel.at]
    if batch.image is not None:
        return "a snapshot: what was decided before is not known one by one any more"
    if not decided:
        return "nothing that can be seen"
    told = next((each for each in decided if each.topic is not None), decided[0])
    more = f" and {len(decided) - 1} more" if len(decided) > 1 else ""
    cause = told.record.cause
    return f"{cause}{': ' if cause else ''}{told.type} {about(told)}{more}"
