"""A log of metadata: a topic is made, a broker dies, its partition is led by another one."""

from quorate.model import Endpoint
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.image import EMPTY_IMAGE
from quorate.tools.metadata.decided import Batch
from quorate.tools.metadata.timeline import Timeline, timeline_of
from tests.unit.tools.tui.clusters import NOW_MS

TOPIC_ID = b"t" * 16
START_MS = NOW_MS - 60_000


def _joined(broker_id: int, at_ms: int) -> r.BrokerRegistered:
    listeners = {"PLAINTEXT": Endpoint("127.0.0.1", 9090 + broker_id)}
    return r.BrokerRegistered(
        f"broker {broker_id} started", at_ms, broker_id, broker_id, bytes([broker_id]) * 16,
        b"", listeners, None, True,
    )  # fmt: skip


def batches() -> list[Batch]:
    """Six batches, ten seconds apart."""
    times = [START_MS + 10_000 * n for n in range(6)]
    return [
        Batch(1, 1, (r.ClusterFormatted("formatted", times[0], "the-cluster"),)),
        Batch(
            2, 1,
            tuple(
                record
                for b in (1, 2)
                for record in (_joined(b, times[1]), r.BrokerUnfenced("heard", times[1], b, b))
            ),
        ),
        Batch(
            3, 1,
            (
                r.TopicCreated("CreateTopics by User:ann", times[2], "orders", TOPIC_ID),
                r.PartitionCreated("placed", times[2], TOPIC_ID, 0, (1, 2), (1, 2), 1),
                r.PartitionCreated("placed", times[2], TOPIC_ID, 1, (2, 1), (2, 1), 2),
            ),
        ),
        Batch(
            4, 2,
            (r.ConfigSet("AlterConfigs by User:ann", times[3], "topic", "orders",
                         "min.insync.replicas", "2"),),
        ),
        Batch(5, 2, (r.BrokerFenced("silent for 9 s", times[4], 1, 1),)),
        Batch(
            6, 2,
            (r.PartitionChanged("broker 1 was fenced", times[5], TOPIC_ID, 0, 2, 1, (2,)),),
        ),
    ]  # fmt: skip


def timeline() -> Timeline:
    """The timeline of these batches."""
    return timeline_of(batches())


def after_snapshot() -> Timeline:
    """The same, of which the first three are in a snapshot."""
    image = EMPTY_IMAGE
    made = batches()
    for batch in made[:3]:
        image = batch.applied_to(image)
    return timeline_of([Batch(3, None, image=image), *made[3:]])
