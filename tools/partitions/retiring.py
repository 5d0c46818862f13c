"""What brokers have, and what keeps one from leading nothing, or from going."""

from collections.abc import Iterable, Mapping, Sequence

from quorate.client.admin_results import BrokerDescription, LogDirReplica
from quorate.dataclass import dataclass
from quorate.model import TopicPartition
from quorate.tools.clusters.health import BrokerLoad
from quorate.tools.clusters.picture import broker_state
from quorate.tools.output import Column, Table
from quorate.tools.partitions.listing import Found

Sizes = Mapping[int, Mapping[TopicPartition, LogDirReplica]]


def brokers_table(
    brokers: Sequence[BrokerDescription],
    loads: Mapping[int, BrokerLoad],
    sizes: Sizes,
    cluster_id: str,
) -> Table:
    """Return a row for each broker."""
    columns = (
        Column("id"), Column("address"), Column("rack"), Column("state"), Column("leads"),
        Column("replicas"), Column("behind"), Column("size_bytes"),
        Column("fenced", wide_only=True), Column("cluster_id", wide_only=True),
    )  # fmt: skip
    rows: list[tuple[object, ...]] = []
    for broker in brokers:
        load = loads.get(broker.broker_id, BrokerLoad())
        known = sizes.get(broker.broker_id)
        rows.append(
            (
                broker.broker_id, str(broker.endpoint), broker.rack or None, broker_state(broker),
                load.leaders, load.replicas, load.out_of_sync,
                None if known is None else sum(each.size_bytes for each in known.values()),
                broker.is_fenced, cluster_id,
            )
        )  # fmt: skip
    return Table("brokers", columns, tuple(rows))


@dataclass(frozen=True, slots=True)
class Led:
    """What a broker leads: what others could lead, and what nobody else can."""

    movable: tuple[TopicPartition, ...]
    alone: tuple[TopicPartition, ...]


def led_by(broker_id: int, partitions: Iterable[Found], in_service: Iterable[int]) -> Led:
    """Return what a broker leads; another in-sync replica that is in service can take over."""
    others = set(in_service) - {broker_id}
    mine = [each for each in partitions if each.leader_id == broker_id]
    movable = [each.topic_partition for each in mine if others & set(each.told.isr)]
    alone = [each.topic_partition for each in mine if not others & set(each.told.isr)]
    return Led(tuple(movable), tuple(alone))


def able_to_lead(brokers: Iterable[BrokerDescription]) -> list[int]:
    """Return the brokers that are to lead what others give up."""
    return [
        broker.broker_id
        for broker in brokers
        if not (broker.is_fenced or broker.is_shutting_down or broker.is_spared)
    ]


def replicas_of(broker_id: int, partitions: Iterable[Found]) -> list[TopicPartition]:
    """Return the partitions that a broker has a replica of, or is to get one of."""
    return [each.topic_partition for each in partitions if broker_id in each.told.replicas]


def some(partitions: Sequence[TopicPartition]) -> str:
    """Return names of partitions, not too many."""
    names = ", ".join(map(str, partitions[:5]))
    return f"{names} and {len(partitions) - 5} more" if len(partitions) > 5 else names
