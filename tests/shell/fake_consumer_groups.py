"""A coordinator in memory that assigns (KIP-848), for one member of ours; others are only names."""

from dataclasses import dataclass, field

from quorate.errors import ErrorCode
from quorate.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from tests.shell.fake_cluster import FakeCluster, topic_id_of
from tests.shell.fake_groups import FakeGroup

INTERVAL_MS = 1_000

Place = tuple[str, int]


@dataclass
class FakeConsumerGroup:
    """A consumer group: what tests put into ``target`` its member is to read.

    Offsets are kept by a classic group's coordinator, which fences by the same numbers.
    """

    cluster: FakeCluster
    target: set[Place] = field(default_factory=set[Place])
    books: FakeGroup = field(init=False)
    heartbeats: list[ConsumerGroupHeartbeatRequest] = field(
        default_factory=list[ConsumerGroupHeartbeatRequest]
    )
    owned: set[Place] = field(default_factory=set[Place])
    told: set[Place] | None = None

    def __post_init__(self) -> None:
        self.books = FakeGroup(self.cluster)
        self.cluster.handlers[ConsumerGroupHeartbeatRequest] = self.heartbeat

    @property
    def member(self) -> str:
        return self.books.member

    @property
    def committed(self) -> dict[Place, tuple[int, int]]:
        return self.books.committed

    def forget_member(self) -> None:
        """Its session ends."""
        self.books.member = ""

    def heartbeat(
        self, broker_id: int, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        self.heartbeats.append(request)
        if broker_id != self.books.broker_id:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
        if request.member_epoch == 0:
            assert request.topic_partitions == []
            assert request.rebalance_timeout_ms > 0
            self.books.member, self.told, self.owned = request.member_id, None, set()
            self.books.generation += 1
        elif self.books.member != request.member_id:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        elif request.member_epoch < 0:
            self.books.member = ""
            return ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
        elif request.member_epoch != self.books.generation - self._missed_an_answer(request):
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
        return self._stay(request)

    def _missed_an_answer(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Whether somebody says everything at the epoch before: the last answer was lost."""
        return (
            request.topic_partitions is not None
            and request.subscribed_topic_names is not None
            and request.member_epoch == self.books.generation - 1
        )

    def _stay(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        names = {topic_id_of(name): name for name in self.cluster.topics}
        if request.topic_partitions is not None:
            self.owned = {
                (names[each.topic_id], number)
                for each in request.topic_partitions
                for number in each.partitions
            }
            if self.owned == self.told and self.told != set():
                self.books.generation += 1
        response = ConsumerGroupHeartbeatResponse(
            member_epoch=self.books.generation, heartbeat_interval_ms=INTERVAL_MS
        )
        if self.told != self.target:
            self.told = set(self.target)
            response.assignment = ConsumerGroupHeartbeatAssignment(
                topic_partitions=[
                    ConsumerGroupHeartbeatTopicPartitions(
                        topic_id=topic_id_of(topic), partitions=[number]
                    )
                    for topic, number in sorted(self.target)
                ]
            )
        return response
