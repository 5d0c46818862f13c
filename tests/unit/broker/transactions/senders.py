"""Brokers that are sent requests, and answer when the test says so."""

from typing import Any, NamedTuple

from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.transactions.markers import Ending, Markers
from quorate.errors import ErrorCode, NetworkError
from quorate.model import TopicPartition
from quorate.promise import Promise
from quorate.protocol.messages.transactions import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from quorate.quorum.metadata.image import MetadataImage

NONE = ErrorCode.NONE


class Asked(NamedTuple):
    broker_id: int
    request: Any
    promise: Promise[Any]

    def markers(self) -> dict[int, list[str]]:
        """Return what is to be marked, by producer."""
        request: WriteTxnMarkersRequest = self.request
        return {
            marker.producer_id: [
                f"{topic.name}-{index}"
                for topic in marker.topics
                for index in topic.partition_indexes
            ]
            for marker in request.markers
        }

    def answer(self, code: ErrorCode = NONE, **others: ErrorCode) -> None:
        """Answer with a code for all partitions but others, which are named ``topic_index``."""
        request: WriteTxnMarkersRequest = self.request
        self.promise.resolve(
            WriteTxnMarkersResponse(
                markers=[
                    WritableTxnMarkerResult(
                        producer_id=marker.producer_id,
                        topics=[
                            WritableTxnMarkerTopicResult(
                                name=topic.name,
                                partitions=[
                                    WritableTxnMarkerPartitionResult(
                                        partition_index=index,
                                        error_code=int(others.get(f"{topic.name}_{index}", code)),
                                    )
                                    for index in topic.partition_indexes
                                ],
                            )
                            for topic in marker.topics
                        ],
                    )
                    for marker in request.markers
                ]
            )
        )

    def fail(self) -> None:
        self.promise.resolve(NetworkError("gone"))


class Brokers:
    """All brokers there are, as who asks them sees them."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def ask(self, broker_id: int, _api_key: int, request: Any) -> Promise[Any]:
        asked = Asked(broker_id, request, Promise())
        self.asked.append(asked)
        return asked.promise

    def take(self) -> list[Asked]:
        """Return what was asked since the last time."""
        asked, self.asked = self.asked, []
        return asked

    def one(self) -> Asked:
        (asked,) = self.take()
        return asked


class Sender:
    """Markers, the brokers they are sent to, and which transactions have come to their end."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.brokers = Brokers()
        self.deadlines = Deadlines()
        self.markers = Markers(self.deadlines, lambda: self.image, self.brokers.ask)
        self.ended: list[int] = []

    def end(self, producer_id: int, *partitions: TopicPartition, commit: bool = True) -> Ending:
        ending = Ending(
            transactional_id=f"id-{producer_id}",
            producer_id=producer_id,
            producer_epoch=3,
            commit=commit,
            coordinator_epoch=8,
            version=2,
            remaining=set(partitions),
            done=lambda: self.ended.append(producer_id),
        )
        self.markers.send(ending)
        return ending

    def wait(self, wait_ms: int) -> None:
        self.deadlines.now_ms += wait_ms
        self.deadlines.fire()

    def change(self, image: MetadataImage) -> None:
        self.image = image
        self.markers.metadata_changed()
