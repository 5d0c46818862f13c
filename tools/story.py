"""The story of a cluster in a node's log: who leads, who went, what that did to partitions."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quorate.model import NO_LEADER
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.codec import decode_those
from quorate.quorum.metadata.delta import MetadataDelta
from quorate.quorum.metadata.image import MetadataImage
from quorate.tools.log_format import tell

if TYPE_CHECKING:
    from quorate.broker.handlers.context import Broker
    from quorate.quorum.controller import Controller
    from quorate.quorum.raft_node import Standing

TOLD: Final = (r.BrokerFenced, r.BrokerUnfenced, r.BrokerRegistered, r.PartitionChanged)
"""The records whose decisions are told."""


class Event(NamedTuple):
    """Something that happened, and what belongs to it."""

    name: str
    fields: dict[str, Any]


def standing_events(before: "Standing | None", now: "Standing") -> Iterator[Event]:
    """Yield what changed in the quorum."""
    leader_id = "none" if now.leader is None else now.leader.node_id
    if before is None or (before.leader, before.term) != (now.leader, now.term):
        was = before.leader if before is not None else None
        yield Event(
            "quorum-leader",
            {
                "leader": leader_id,
                "term": now.term,
                "was": "none" if was is None else was.node_id,
                "metadata": now.version,
            },
        )
    voters = sorted(voter.key.node_id for voter in now.voters.voters)
    if before is not None and before.voters != now.voters:
        yield Event("quorum-voters", {"voters": voters})


def broker_events(delta: MetadataDelta) -> Iterator[Event]:
    """Yield which brokers came and went."""
    for broker_id in sorted(delta.touched.brokers):
        old = delta.before.brokers.get(broker_id)
        new = delta.after.brokers.get(broker_id)
        was_in = old is not None and not old.fenced
        is_in = new is not None and not new.fenced
        if was_in != is_in:
            name = "broker-in-service" if is_in else "broker-out-of-service"
            yield Event(name, {"broker": broker_id, "metadata": delta.after.version})


def leading_events(delta: MetadataDelta, own_id: int) -> Iterator[Event]:
    """Yield how many partitions a broker leads more, and less, and whose ISR changed."""
    took, lost, shrunk, grown = 0, 0, list[str](), list[str]()
    for name in delta.touched.topics:
        before, after = delta.before.topics.get(name), delta.after.topics.get(name)
        olds = before.partitions if before is not None else ()
        news = after.partitions if after is not None else ()
        for number in range(max(len(olds), len(news))):
            old = olds[number] if number < len(olds) else None
            new = news[number] if number < len(news) else None
            led = old is not None and old.leader_id == own_id
            leads = new is not None and new.leader_id == own_id
            took += leads and not led
            lost += led and not leads
            if old is not None and new is not None and led and leads:
                if not set(old.isr) <= set(new.isr):
                    shrunk.append(f"{name}-{number}")
                if not set(new.isr) <= set(old.isr):
                    grown.append(f"{name}-{number}")
    version = delta.after.version
    if took or lost:
        yield Event("leading", {"took": took, "lost": lost, "metadata": version})
    for what, partitions in (("isr-shrunk", shrunk), ("isr-grown", grown)):
        if partitions:
            fields = {"partitions": len(partitions), "first": partitions[0], "metadata": version}
            yield Event(what, fields)


def may_be_told(before: MetadataImage, after: MetadataImage) -> bool:
    """Return whether anything was decided in between that :func:`decision_events` tells of.

    A leader asks this after each command, and most commands are about something else.
    """
    return before.brokers is not after.brokers or before.topics is not after.topics


def decision_events(records: Iterable[r.MetadataRecord], offset: int) -> Iterator[Event]:
    """Yield what a batch of records decided, with its cause."""
    changed, offline, causes = 0, 0, dict[str, None]()
    for record in records:
        match record:
            case r.BrokerFenced() | r.BrokerUnfenced() | r.BrokerRegistered():
                name = {
                    r.BrokerFenced: "broker-fenced",
                    r.BrokerUnfenced: "broker-unfenced",
                    r.BrokerRegistered: "broker-registered",
                }[type(record)]
                fields = {"broker": record.broker_id, "cause": record.cause, "metadata": offset}
                yield Event(name, fields)
            case r.PartitionChanged():
                changed += 1
                offline += record.leader_id == NO_LEADER
                causes[record.cause] = None
            case _:
                pass
    if changed:
        yield Event(
            "partitions-changed",
            {"partitions": changed, "offline": offline, "cause": "; ".join(causes),
             "metadata": offset},
        )  # fmt: skip


def tell_all(events: Iterable[Event]) -> None:
    """Log events."""
    for event in events:
        tell(event.name, **event.fields)


def follow_broker(broker: "Broker") -> None:
    """Tell what the metadata mean to a broker from now on."""
    own_id = broker.config.node_id

    def followed(delta: MetadataDelta) -> None:
        tell_all(broker_events(delta))
        tell_all(leading_events(delta, own_id))

    broker.replicas.on_followed.append(followed)


def _differs(before: "Standing | None", now: "Standing") -> bool:
    return now != before


async def follow_controller(controller: "Controller") -> None:
    """Tell how the quorum changes, and what this controller decides while it leads; for ever."""
    before: Standing | None = None
    machine = controller.raft.machine
    told = machine.image
    while True:
        now = await controller.raft.wait_until(partial(_differs, before))
        tell_all(standing_events(before, now))
        image = machine.image
        if now.is_leader and may_be_told(told, image) and not machine.needs_snapshot(told.version):
            for batch in machine.since(told.version).batches:
                tell_all(decision_events(decode_those(batch.records, TOLD), batch.version))
        told = image
        before = now
