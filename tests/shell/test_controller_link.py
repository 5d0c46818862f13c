"""The link keeps a broker registered and its metadata current, whatever the controller does."""

import math
import threading
from typing import Any

import pytest
import trio
import trio.testing

from quorate.broker import controller_link
from quorate.broker.controller_link import (
    LOST_S,
    METADATA_WAIT_MS,
    ControllerLink,
    Identity,
    MetadataLostError,
    followed,
)
from quorate.control.messages import (
    UNKNOWN_CHECKSUM,
    AllocateProducerIds,
    AllocateProducerIdsAnswer,
    BrokerHeartbeat,
    BrokerHeartbeatAnswer,
    DescribeQuorum,
    DescribeQuorumAnswer,
    ErrorAnswer,
    FetchMetadata,
    FetchMetadataAnswer,
    MetadataBatch,
    RegisterBroker,
    RegisterBrokerAnswer,
    Request,
)
from quorate.errors import ErrorCode, KafkaError, RequestTimedOutError, StorageError
from quorate.model import Endpoint
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.codec import encode_batch
from quorate.quorum.metadata.delta import MetadataDelta
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.quorum.metadata.snapshot import encode_image
from tests.unit.broker.harness import Node, new_node

IDENTITY = Identity(b"i" * 16, b"d" * 16, {"PLAINTEXT": Endpoint("127.0.0.1", 9092)})
QUORUM = DescribeQuorumAnswer(1, 1, 1, (), 1)


class Script:
    """A controller whose metadata a test writes, and that fails when the test says so."""

    def __init__(self) -> None:
        self.epoch = 10
        self.fenced = False
        self.leading = 0
        self.silent = False
        self.batches: list[MetadataBatch] = []
        self.batches_per_answer = 100
        self.snapshot: FetchMetadataAnswer | None = None
        self.heard: list[Request[Any]] = []
        self.failures: dict[type[Any], list[KafkaError]] = {}

    def commit(self, version: int, *records: r.MetadataRecord) -> None:
        self.batches.append(MetadataBatch(version, encode_batch(records)))

    def fail(self, request: type[Any], code: ErrorCode, times: int = 1) -> None:
        self.failures.setdefault(request, []).extend([KafkaError(code=code)] * times)

    def of(self, kind: type[Any]) -> list[Any]:
        return [request for request in self.heard if isinstance(request, kind)]

    async def call(self, request: Request[Any], /, timeout_s: float = 30.0) -> Any:
        self.heard.append(request)
        await trio.lowlevel.checkpoint()
        if self.silent:
            await trio.sleep(timeout_s)
            raise RequestTimedOutError("no controller leads the quorum")
        failures = self.failures.get(type(request))
        if failures:
            raise failures.pop(0)
        match request:
            case RegisterBroker():
                return RegisterBrokerAnswer(self.epoch)
            case BrokerHeartbeat():
                leading, self.leading = self.leading, max(self.leading - 1, 0)
                return BrokerHeartbeatAnswer(
                    self.fenced,
                    caught_up=not self.fenced,
                    should_shut_down=request.wants_shut_down and not leading,
                )
            case FetchMetadata():
                return await self._fetch(request)
            case AllocateProducerIds():
                return AllocateProducerIdsAnswer(5000, 1000)
            case _:
                return QUORUM

    async def _fetch(self, request: FetchMetadata) -> FetchMetadataAnswer:
        snapshot, self.snapshot = self.snapshot, None
        if snapshot is not None:
            return snapshot
        new = [batch for batch in self.batches if batch.version > request.from_version]
        if not new:
            await trio.sleep(request.wait_ms / 1000)
        sent = new[: self.batches_per_answer]
        return FetchMetadataAnswer(sent[-1].version if sent else 0, tuple(sent))


class Link:
    """A link in a nursery, with its broker."""

    def __init__(self, node: Node, script: Script) -> None:
        self.node = node
        self.turns = 0
        self.turned = trio.Event()
        self.link = ControllerLink(node.broker, IDENTITY, script.call, self.end_turn)

    def end_turn(self) -> None:
        self.turns += 1
        self.turned.set()
        self.turned = trio.Event()


def topic_records(name: str) -> list[r.MetadataRecord]:
    topic_id = name.encode().ljust(16, b"\1")
    return [
        r.TopicCreated("test", 0, name, topic_id),
        r.PartitionCreated("test", 0, topic_id, 0, (1,), (1,), 1),
    ]


async def started(nursery: trio.Nursery, script: Script, node: Node | None = None) -> Link:
    link = Link(node or new_node(), script)
    await nursery.start(link.link.run)
    return link


async def test_a_broker_serves_once_it_is_registered_caught_up_and_unfenced(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    script.commit(12, *topic_records("appLogs"))
    async with trio.open_nursery() as nursery:
        link = await started(nursery, script)
        (register,) = script.of(RegisterBroker)
        assert (register.broker_id, register.cluster_id) == (1, "cluster")
        assert (register.incarnation_id, register.directory_id) == (b"i" * 16, b"d" * 16)
        assert (register.endpoints, register.rack) == (IDENTITY.endpoints, None)
        beat = script.of(BrokerHeartbeat)[0]
        assert (beat.broker_epoch, beat.metadata_version) == (10, 12)
        assert link.node.leader().log.log_end_offset == 0
        assert link.turns == 1
        nursery.cancel_scope.cancel()


async def test_an_image_on_its_way_is_not_applied_so_that_no_log_is_taken_for_an_orphan(
    autojump_clock: trio.testing.MockClock,
) -> None:
    node = new_node()
    node.create_topic("dbLogs")
    node.append(b"kept", topic="dbLogs")
    node.disk.restart()
    restarted = Node({"node.id": "1", "log.dir": "/data"}, node.disk)
    script = Script()
    script.batches_per_answer = 1
    script.commit(3, *topic_records("appLogs"))
    script.commit(11, *topic_records("dbLogs"))
    async with trio.open_nursery() as nursery:
        link = await started(nursery, script, restarted)
        assert link.turns == 1, "the first answer alone would have the log of dbLogs deleted"
        assert link.node.leader("dbLogs").log.log_end_offset == 1
        assert not len(restarted.replicas.store.trash)
        nursery.cancel_scope.cancel()


async def test_a_broker_ends_when_controllers_go_on_lacking_what_it_was_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    refused_since: list[float] = []

    async def live() -> None:
        async with trio.open_nursery() as nursery:
            await started(nursery, script)
            # A controller that was replaced and does not know it yet.
            script.fail(BrokerHeartbeat, ErrorCode.INCONSISTENT_CLUSTER_ID, times=5)
            await trio.sleep(2 * LOST_S)
            script.fail(BrokerHeartbeat, ErrorCode.INCONSISTENT_CLUSTER_ID, times=1_000)
            refused_since.append(trio.current_time())
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await live()
    assert caught.group_contains(MetadataLostError, match="start this broker again")
    assert LOST_S <= trio.current_time() - refused_since[0] < LOST_S + 10


async def test_heartbeats_say_that_the_disk_refused_something_until_there_is_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    script.commit(12, *topic_records("appLogs"))
    async with trio.open_nursery() as nursery:
        link = await started(nursery, script)
        disk = link.node.disk
        disk.capacity_bytes = disk.used_bytes()
        with pytest.raises(StorageError):
            link.node.append(b"a")
        await trio.sleep(5)
        disk.capacity_bytes = None
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    told = [beat.cannot_write for beat in script.of(BrokerHeartbeat)]
    assert told == [False, True, True, False]


async def test_what_the_disk_refused_is_said_until_a_controller_has_heard_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    script.commit(12, *topic_records("appLogs"))
    async with trio.open_nursery() as nursery:
        link = await started(nursery, script)
        disk = link.node.disk
        disk.capacity_bytes = disk.used_bytes()
        with pytest.raises(StorageError):
            link.node.append(b"a")
        disk.capacity_bytes = None
        script.fail(BrokerHeartbeat, ErrorCode.NETWORK_EXCEPTION)
        await trio.sleep(7)
        nursery.cancel_scope.cancel()
    told = [beat.cannot_write for beat in script.of(BrokerHeartbeat)]
    assert told == [False, True, True, False]


async def test_a_broker_ends_when_controllers_have_other_metadata_where_its_own_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    script.commit(12, *topic_records("appLogs"))
    script.commit(13, *topic_records("dbLogs"))
    script.snapshot = FetchMetadataAnswer(11, (), encode_image(EMPTY_IMAGE._replace(version=11)))

    async def live() -> None:
        async with trio.open_nursery() as nursery:
            await started(nursery, script)
            script.fail(FetchMetadata, ErrorCode.INCONSISTENT_CLUSTER_ID)
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        await live()
    assert caught.group_contains(MetadataLostError, match="start this broker again")
    told = [(fetch.from_version, fetch.checksum) for fetch in script.of(FetchMetadata)]
    assert told[:3] == [
        (0, UNKNOWN_CHECKSUM), (11, UNKNOWN_CHECKSUM), (13, script.batches[-1].checksum)
    ]  # fmt: skip
    assert set(told[3:]) == {told[2]}


async def test_a_broker_waits_until_it_is_unfenced_and_does_not_hurry_the_controller(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    script.fenced = True
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(10):
            await started(nursery, script)
        assert 50 < len(script.of(BrokerHeartbeat)) < 150
        nursery.cancel_scope.cancel()


async def test_a_controller_that_is_away_is_waited_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    for kind in (RegisterBroker, FetchMetadata, BrokerHeartbeat):
        script.fail(kind, ErrorCode.NETWORK_EXCEPTION, times=7)
    async with trio.open_nursery() as nursery:
        await started(nursery, script)
        assert len(script.of(RegisterBroker)) == 8
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
    ],
)
async def test_a_registration_that_will_never_be_accepted_ends_the_broker(
    code: ErrorCode, autojump_clock: trio.testing.MockClock
) -> None:
    script = Script()
    script.fail(RegisterBroker, code)
    with pytest.raises(BaseExceptionGroup) as raised:
        async with trio.open_nursery() as nursery:
            await started(nursery, script)
    assert raised.group_contains(KafkaError, match=code.name)


async def test_a_broker_waits_until_the_session_of_one_of_its_id_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    script.fail(RegisterBroker, ErrorCode.DUPLICATE_BROKER_REGISTRATION, times=5)
    async with trio.open_nursery() as nursery:
        await started(nursery, script)
        assert len(script.of(RegisterBroker)) == 6
        nursery.cancel_scope.cancel()


async def test_a_broker_whose_id_another_one_uses_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    script.fail(RegisterBroker, ErrorCode.DUPLICATE_BROKER_REGISTRATION, times=1000)
    with pytest.raises(BaseExceptionGroup) as raised:
        async with trio.open_nursery() as nursery:
            await started(nursery, script)
    assert raised.group_contains(KafkaError, match="DUPLICATE_BROKER_REGISTRATION")
    assert 9 < trio.current_time() < 20


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
@pytest.mark.parametrize("beats_before", [0, 3])
async def test_a_broker_whose_registration_is_void_registers_again(
    code: ErrorCode, beats_before: int, autojump_clock: trio.testing.MockClock
) -> None:
    script = Script()
    if not beats_before:
        script.fail(BrokerHeartbeat, code)
    async with trio.open_nursery() as nursery:
        await started(nursery, script)
        interval_s = 2
        await trio.sleep(beats_before * interval_s)
        if beats_before:
            script.epoch = 20
            script.fail(BrokerHeartbeat, code)
            script.commit(21, *topic_records("appLogs"))
            await trio.sleep(2 * interval_s)
        assert len(script.of(RegisterBroker)) == 2
        assert script.of(BrokerHeartbeat)[-1].broker_epoch == script.epoch
        nursery.cancel_scope.cancel()


async def test_a_lost_heartbeat_changes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    async with trio.open_nursery() as nursery:
        await started(nursery, script)
        script.fail(BrokerHeartbeat, ErrorCode.NETWORK_EXCEPTION, times=2)
        await trio.sleep(11)
        assert len(script.of(RegisterBroker)) == 1
        assert len(script.of(BrokerHeartbeat)) == 6
        nursery.cancel_scope.cancel()


async def test_metadata_is_followed_by_long_polls_through_failures(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    async with trio.open_nursery() as nursery:
        link = await started(nursery, script)
        await trio.testing.wait_all_tasks_blocked()
        assert script.of(FetchMetadata)[-1] == FetchMetadata(0, METADATA_WAIT_MS, 1)
        script.fail(FetchMetadata, ErrorCode.NETWORK_EXCEPTION, times=2)
        script.commit(30, *topic_records("appLogs"))
        await trio.sleep(METADATA_WAIT_MS / 1000 + 1)
        assert link.node.replicas.image.version == 30
        assert link.turns == 1
        nursery.cancel_scope.cancel()


async def ask(link: Link, timeout_ms: int = 1000) -> DescribeQuorumAnswer | ErrorAnswer:
    promise = link.link.ask(DescribeQuorum(), timeout_ms)
    answered = trio.Event()
    promise.when_resolved(lambda _: answered.set())
    await answered.wait()
    return promise.value


async def test_an_answer_comes_after_the_metadata_it_speaks_of(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    async with trio.open_nursery() as nursery:
        link = await started(nursery, script)
        script.commit(30, *topic_records("appLogs"))
        assert await ask(link) == QUORUM
        assert link.node.replicas.image.version == 30
        assert link.turns == 2, "one for the metadata, one for the answer"
        nursery.cancel_scope.cancel()


async def test_an_answer_does_not_wait_for_much_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    async with trio.open_nursery() as nursery:
        link = await started(nursery, script)
        may_be_read = threading.Event()

        def slowly(image: MetadataImage, answer: FetchMetadataAnswer) -> MetadataDelta:
            assert not answer.batches or may_be_read.wait(5)
            return followed(image, answer)

        monkeypatch.setattr(controller_link, "followed", slowly)
        monkeypatch.setattr(controller_link, "LARGE_BYTES", 1)
        script.commit(30, *topic_records("appLogs"))
        assert await ask(link) == QUORUM
        assert link.node.replicas.image.version < 30
        assert await ask(link) == QUORUM
        assert link.node.replicas.image.version < 30, "nor does one that comes meanwhile"
        may_be_read.set()
        with trio.fail_after(5):
            while link.node.replicas.image.version < 30:
                await link.turned.wait()
        assert link.node.leader().log.log_end_offset == 0
        nursery.cancel_scope.cancel()


async def test_a_request_that_fails_is_answered_with_the_error(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    async with trio.open_nursery() as nursery:
        link = await started(nursery, script)
        script.fail(DescribeQuorum, ErrorCode.NOT_CONTROLLER)
        answer = await ask(link)
        assert isinstance(answer, ErrorAnswer)
        assert answer.code == ErrorCode.NOT_CONTROLLER
        nursery.cancel_scope.cancel()


async def test_a_request_that_nobody_answers_fails_when_its_time_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    async with trio.open_nursery() as nursery:
        link = await started(nursery, script)
        script.silent = True
        for timeout_ms, told_after_s in ((500, 0.4), (30_000, 29)):
            asked_at_s = trio.current_time()
            answer = await ask(link, timeout_ms)
            assert isinstance(answer, ErrorAnswer)
            assert answer.code == ErrorCode.REQUEST_TIMED_OUT
            assert answer.message == "no controller leads the quorum"
            assert trio.current_time() - asked_at_s == pytest.approx(told_after_s)
        nursery.cancel_scope.cancel()


async def test_producer_ids_come_in_blocks_and_failing_to_get_one_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    async with trio.open_nursery() as nursery:
        link = await started(nursery, script)
        taken: list[int | None] = []
        script.fail(AllocateProducerIds, ErrorCode.NETWORK_EXCEPTION)
        link.node.broker.producer_ids.take(taken.append)
        await trio.sleep(1)
        link.node.broker.producer_ids.take(taken.append)
        await trio.sleep(1)
        assert taken == [None, 5000]
        assert script.of(AllocateProducerIds)[1] == AllocateProducerIds(1, 10)
        nursery.cancel_scope.cancel()


async def test_a_broker_stops_when_others_lead_what_it_led(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    script.leading = 3
    link = Link(new_node(), script)
    await link.link.leave()
    assert [beat.wants_shut_down for beat in script.of(BrokerHeartbeat)] == [True] * 4
    assert trio.current_time() < 0.5


async def test_a_broker_that_stops_never_says_meanwhile_that_it_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    async with trio.open_nursery() as nursery:
        link = await started(nursery, script)
        script.leading = 1000
        script.heard.clear()
        await link.link.leave()
        await trio.sleep(5)
        beats = script.of(BrokerHeartbeat)
        assert len(beats) > 100, "those of its other task are among them"
        assert all(beat.wants_shut_down for beat in beats), "who goes on is taken into service"
        nursery.cancel_scope.cancel()


async def test_a_broker_stops_within_five_seconds_whatever_the_controller_does(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script()
    script.leading = 1000
    link = Link(new_node(), script)
    script.fail(BrokerHeartbeat, ErrorCode.NETWORK_EXCEPTION)
    await link.link.leave()
    assert trio.current_time() < 0.1
    await link.link.leave()
    assert trio.current_time() <= 5.2

    async def never(request: Request[Any], /, timeout_s: float = 0) -> Any:
        await trio.sleep(math.inf)

    before_s = trio.current_time()
    await ControllerLink(link.node.broker, IDENTITY, never, link.end_turn).leave()
    assert trio.current_time() - before_s <= 5.1


def test_a_snapshot_replaces_what_is_older_and_batches_known_already_are_skipped() -> None:
    def image(version: int, *names: str) -> MetadataImage:
        records = [record for name in names for record in topic_records(name)]
        return apply_records(EMPTY_IMAGE, version, records)

    def batch(version: int, name: str) -> MetadataBatch:
        return MetadataBatch(version, encode_batch(topic_records(name)))

    snapshot = encode_image(image(5, "a"))
    answer = FetchMetadataAnswer(7, (batch(5, "a"), batch(7, "b")), snapshot)
    delta = followed(EMPTY_IMAGE, answer)
    assert delta.after == image(7, "a", "b")
    assert delta.touched.topics == {"a", "b"}
    newer = image(9, "c")
    assert followed(newer, answer).after is newer
