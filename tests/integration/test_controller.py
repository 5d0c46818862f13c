"""A controller of one on real files and sockets."""

# pyright: reportPrivateUsage=false

import math
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Annotated, Any, cast

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from quorate.control import messages as m
from quorate.control.codec import Key
from quorate.control.feature_messages import FeatureUpdate, UpdateFeatures, Upgrade
from quorate.control.partition_messages import (
    AlterPartition,
    Election,
    ElectLeaders,
    InSyncReplica,
    PartitionAlteration,
)
from quorate.errors import (
    DuplicateBrokerRegistrationError,
    ErrorCode,
    InconsistentClusterIdError,
    KafkaError,
    NotControllerError,
    QuorateError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from quorate.model import NO_LEADER, Endpoint
from quorate.net.control import connect_control
from quorate.net.control_server import ControlServer
from quorate.quorum.control.decision import Decision
from quorate.quorum.controller import NO_LISTENER, Controller, alone
from quorate.quorum.deciding import Asked
from quorate.quorum.directory import ControllerDirectory, open_controller_directory
from quorate.quorum.metadata import codec, machine
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.codec import decode_batch
from quorate.quorum.metadata.features import SUPPORTED
from quorate.quorum.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage
from quorate.quorum.metadata.records import ConfigSet, FeatureLevelSet, MetadataRecord, TopicRemoved
from quorate.quorum.metadata.snapshot import decode_image
from quorate.quorum.raft_node import Outcome, RaftNode, in_thread
from quorate.settings import NodeConfig

pytestmark = pytest.mark.integration


@dataclass(frozen=True, slots=True)
class RecordOfTheFuture:
    """What a newer version may write."""

    cause: Annotated[str, Key(1)]
    time_ms: Annotated[int, Key(2)]


CONFIG = NodeConfig(broker_session_timeout_ms=60_000)
REGISTER = m.RegisterBroker(
    1,
    b"1" * 16,
    {"PLAINTEXT": Endpoint("127.0.0.1", 9092)},
    directory_id=b"d" * 16,
    features=tuple(SUPPORTED.values()),
)


def open_directory(path: Path) -> ControllerDirectory:
    directory = open_controller_directory(path, 1, cluster_id=None)
    directory.found_alone(None, NO_LISTENER)
    return directory


@asynccontextmanager
async def controller(path: Path, config: NodeConfig = CONFIG) -> AsyncGenerator[Controller, None]:
    directory = open_directory(path)
    running = Controller(directory, config, Random(1), alone(in_thread))
    async with trio.open_nursery() as nursery:
        await nursery.start(running.run)
        yield running
        nursery.cancel_scope.cancel()
    directory.close()


async def follow(service: Controller, image: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    answer = await service.handle(m.FetchMetadata(image.version, 0))
    for batch in answer.batches:
        image = apply_records(image, batch.version, decode_batch(batch.records))
    return image


def soon() -> Asked:
    return Asked(b"", trio.current_time() + 30)


async def join(service: Controller, register: m.RegisterBroker = REGISTER) -> int:
    """Bring a broker into service; return its epoch."""
    epoch = (await service.handle(register)).broker_epoch
    image = await follow(service)
    beat = m.BrokerHeartbeat(register.broker_id, epoch, image.version)
    assert not (await service.handle(beat)).fenced
    return epoch


async def create(service: Controller, *names: str) -> list[int]:
    answer = await service.handle(m.CreateTopics(tuple(m.NewTopic(n, 2) for n in names)))
    return [t.failure.code for t in answer.topics]


async def test_a_cluster_begins_and_its_broker_serves_topics(tmp_path: Path) -> None:
    async with controller(tmp_path) as service:
        assert len(service.cluster_id) == 22
        epoch = await join(service)
        assert await create(service, "a", "b") == [0, 0]
        changes = m.ResourceChanges(
            "topic", "a", (m.ConfigChange("retention.ms", m.ConfigOperation.SET, "1h"),)
        )
        await service.handle(m.AlterConfigs((changes,)))
        await service.handle(m.CreatePartitions((m.NewPartitions("a", 5),)))
        await service.handle(m.DeleteTopics(("b",)))
        block = await service.handle(m.AllocateProducerIds(1, epoch))
        assert (block.first_producer_id, block.count) == (0, 1000)
        quorum = await service.handle(m.DescribeQuorum())
        assert (quorum.leader_id, quorum.leader_epoch) == (1, 1)
        assert quorum.high_watermark == quorum.voters[0].log_end_offset
        assert quorum.metadata_version == service.image.version
        assert await follow(service) == service.image
        assert [len(t.partitions) for t in service.image.topics.values()] == [5]


async def test_leaders_tell_who_is_in_sync_and_operators_elect_and_upgrade(tmp_path: Path) -> None:
    async with controller(tmp_path) as service:
        epoch = await join(service)
        await create(service, "a")
        topic = service.image.topics["a"]
        newest = {name: feature.level_max for name, feature in SUPPORTED.items()}
        assert service.image.features == newest
        alone_in_sync = PartitionAlteration(topic.topic_id, 0, 0, 0, (InSyncReplica(1, epoch),))
        altered = await service.handle(AlterPartition(1, epoch, (alone_in_sync,)))
        assert [p.failure.code for p in altered.partitions] == [0]
        elected = await service.handle(ElectLeaders(Election.PREFERRED, {"a": (0,)}))
        assert [p.failure.code for p in elected.partitions] == [ErrorCode.ELECTION_NOT_NEEDED]
        lower = FeatureUpdate("metadata.version", 1, Upgrade.SAFE_DOWNGRADE)
        off = FeatureUpdate("group.version", 0, Upgrade.SAFE_DOWNGRADE)
        await service.handle(UpdateFeatures((lower, off)))
        levels = {**newest, "metadata.version": 1, "group.version": 0}
        assert service.image.features == levels
    async with controller(tmp_path) as service:
        assert service.image.features == levels


async def test_who_is_far_behind_gets_a_snapshot_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "RECENT_BATCHES_MAX", 3)
    async with controller(tmp_path) as service:
        await join(service)
        for name in "abcdef":
            await create(service, name)
        answers: list[m.FetchMetadataAnswer] = []

        async def fetch() -> None:
            answers.append(await service.handle(m.FetchMetadata(1, 0)))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(fetch)
        assert len({id(answer) for answer in answers}) == 1
        assert answers[0].snapshot is not None
        assert decode_image(answers[0].snapshot) == service.image


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (FeatureLevelSet("c", 1, "metadata.version", 99), "works at metadata.version 99.*upgrade"),
        (RecordOfTheFuture("c", 1), "unknown record type 999.*newer version of Quorate"),
    ],
)
async def test_metadata_of_the_future_stops_a_controller_and_keeps_it_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: Any, complaint: str
) -> None:
    monkeypatch.setitem(codec._NUMBERS, RecordOfTheFuture, 999)

    async def run(*records: Any) -> None:
        directory = open_directory(tmp_path)
        try:
            service = Controller(directory, CONFIG, Random(1), alone(in_thread))
            async with trio.open_nursery() as nursery:
                await nursery.start(service.run)
                await service._raft.propose(service.image.version, records, math.inf)
        finally:
            directory.close()

    for records in ((record,), ()):
        with pytest.raises((QuorateError, BaseExceptionGroup)) as caught:
            await run(*records)
        assert re.search(complaint, str(first_of(caught.value)))


def first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    async with controller(tmp_path) as service:
        await join(service)
        await create(service, "a")
        before, cluster_id = service.image, service.cluster_id
    async with controller(tmp_path) as service:
        assert service.image == before
        assert service.cluster_id == cluster_id
        assert service.image.cluster_id == cluster_id
        await create(service, "b")
        assert set(service.image.topics) == {"a", "b"}


async def test_a_restarted_broker_of_the_same_directory_is_back_at_once(tmp_path: Path) -> None:
    async with controller(tmp_path) as service:
        first = await join(service)
        await create(service, "a")
        assert await join(service, replace(REGISTER, incarnation_id=b"2" * 16)) > first
        with pytest.raises(DuplicateBrokerRegistrationError):
            await join(service, REGISTER)
        state = service.image.topics["a"].partitions[0]
        assert (state.leader_id, state.leader_epoch) == (1, 2)


async def test_a_silent_broker_is_fenced(tmp_path: Path) -> None:
    async with controller(tmp_path, replace(CONFIG, broker_session_timeout_ms=200)) as service:
        await join(service)
        await create(service, "a")
        with trio.fail_after(5):
            version = service.image.version
            answer = await service.handle(m.FetchMetadata(version, 5000))
        assert answer.version > version
        assert service.image.brokers[1].fenced
        assert service.image.topics["a"].partitions[0].leader_id == NO_LEADER


async def test_a_controller_that_was_stopped_itself_fences_nobody(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with controller(tmp_path, replace(CONFIG, broker_session_timeout_ms=9000)) as service:
        await join(service)
        mock_clock.jump(60)
        await trio.testing.wait_all_tasks_blocked()
        assert not service.image.brokers[1].fenced
        version = service.image.version
        for _ in range(11):
            mock_clock.jump(0.9)
            await trio.testing.wait_all_tasks_blocked()
        await service._raft.wait_for_version_after(version)
        assert service.image.brokers[1].fenced


async def test_a_follower_waits_for_news_and_no_longer_than_it_wants(tmp_path: Path) -> None:
    async with controller(tmp_path) as service:
        await join(service)
        version = service.image.version
        assert await service.handle(m.FetchMetadata(version, 10)) == m.FetchMetadataAnswer(version)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(create, service, "a")
            with trio.fail_after(5):
                answer = await service.handle(m.FetchMetadata(version, 60_000))
        assert len(answer.batches) == 1


async def test_concurrent_requests_are_all_decided_on_what_is_true(tmp_path: Path) -> None:
    codes: list[int] = []
    async with controller(tmp_path) as service:
        await join(service)

        async def create_same() -> None:
            codes.extend(await create(service, "same"))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(create_same)
        assert sorted(codes) == [0] + [ErrorCode.TOPIC_ALREADY_EXISTS] * 19


async def test_what_cannot_be_done_says_so(tmp_path: Path) -> None:
    async with controller(tmp_path, replace(CONFIG, delete_topic_enable=False)) as service:
        with pytest.raises(KafkaError) as caught:
            await service.handle(m.DeleteTopics(("a",)))
        assert caught.value.code == ErrorCode.TOPIC_DELETION_DISABLED
        with pytest.raises(UnsupportedVersionError):
            await service.handle(m.Hello("", 1))
        with pytest.raises(KafkaError) as caught:
            await service.handle(m.UnregisterBroker(7))
        assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED
        await join(service)
        throttled = ",".join(f"{number}:1" for number in range(600_000))
        many = m.NewTopic("t", 1, configs={"leader.replication.throttled.replicas": throttled})
        with pytest.raises(KafkaError) as caught:
            await service.handle(m.CreateTopics((many,)))
        assert caught.value.code == ErrorCode.POLICY_VIOLATION
        with pytest.raises(KafkaError, match="in service"):
            await service.handle(m.UnregisterBroker(1))
        epoch = service.image.brokers[1].broker_epoch
        await service.handle(m.BrokerHeartbeat(1, epoch, epoch, wants_fence=True))
        await service.handle(m.UnregisterBroker(1))
        assert service.image.brokers == {}


async def test_a_decision_is_made_again_when_the_metadata_changed_meanwhile(
    tmp_path: Path,
) -> None:
    async with controller(tmp_path) as service:
        await join(service)
        async with trio.open_nursery() as nursery:
            for number in range(5):
                meanwhile = ConfigSet("c", 1, "broker", "", f"k{number}", "v")
                nursery.start_soon(
                    service._raft.propose, service.image.version, [meanwhile], math.inf
                )
                assert await create(service, f"t{number}") == [0]
        assert set(service.image.topics) == {f"t{n}" for n in range(5)}


class Late(RaftNode):
    """Lets somebody else's change go first, always."""

    async def propose(
        self,
        expected_version: int,
        records: Sequence[MetadataRecord],
        deadline_s: float,
        after: MetadataImage | None = None,
    ) -> Outcome:
        meanwhile = ConfigSet("c", 1, "broker", "", f"k{expected_version}", "v")
        await super().propose(expected_version, [meanwhile], deadline_s)
        return await super().propose(expected_version, records, deadline_s, after)


async def test_a_decision_that_is_always_too_late_is_given_up(tmp_path: Path) -> None:
    async with controller(tmp_path) as service:
        late = ConfigSet("c", 1, "broker", "", "late", "v")
        service._raft.__class__ = Late
        with pytest.raises(RequestTimedOutError, match="again and again"):
            await service._decider.carry_out(
                lambda _: Decision((late,), m.UnregisterBrokerAnswer()), soon()
            )
        assert "late" not in service.image.config(ConfigResource("broker", ""))


async def test_a_decision_that_contradicts_the_metadata_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with controller(tmp_path) as service:
        wrong = Decision((TopicRemoved("c", 1, b"i" * 16),), m.UnregisterBrokerAnswer())
        with pytest.raises(KafkaError, match="no topic has the id"):
            await service._decider.carry_out(lambda _: wrong, soon())
        assert "this is a bug" in caplog.text


async def test_a_change_that_cannot_be_written_in_time_is_given_up(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = False

    async def run_blocking(work: Callable[[], None]) -> None:
        await trio.lowlevel.checkpoint()
        if stuck:
            await trio.sleep_forever()
        work()

    directory = open_directory(tmp_path)
    config = replace(CONFIG, broker_session_timeout_ms=9000)
    service = Controller(directory, config, Random(1), alone(run_blocking))
    async with trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await join(service)
        stuck = True
        with pytest.raises(RequestTimedOutError, match="not committed in time"):
            await create(service, "a")
        await trio.sleep(15)
        assert "stale brokers could not be fenced" in caplog.text
        nursery.cancel_scope.cancel()
    directory.close()


async def test_changes_under_way_when_the_controller_stops_are_answered(tmp_path: Path) -> None:
    outcomes: list[str] = []
    stuck = False

    async def run_blocking(work: Callable[[], None]) -> None:
        await trio.lowlevel.checkpoint()
        if stuck:
            await trio.sleep_forever()
        work()

    async def create_one() -> None:
        with pytest.raises(KafkaError) as caught:
            await create(service, "b")
        outcomes.append(caught.value.code.name)

    directory = open_directory(tmp_path)
    service = Controller(directory, CONFIG, Random(1), alone(run_blocking))
    async with trio.open_nursery() as asking, trio.open_nursery() as nursery:
        await nursery.start(service.run)
        await join(service)
        stuck = True
        asking.start_soon(create_one)
        await trio.testing.wait_all_tasks_blocked()
        asking.start_soon(create_one)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    directory.close()
    assert sorted(outcomes) == ["NOT_CONTROLLER", "REQUEST_TIMED_OUT"]


async def test_a_controller_that_does_not_run_refuses(tmp_path: Path) -> None:
    async with controller(tmp_path) as service:
        pass
    with pytest.raises(NotControllerError):
        await service.handle(m.DescribeQuorum())
    with pytest.raises(NotControllerError):
        await create(service, "a")


async def test_metadata_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async with controller(tmp_path):
        pass
    meta = tmp_path / "controller" / "meta.json"
    directory = open_directory(tmp_path)
    directory.close()
    meta.write_text(meta.read_text().replace(directory.meta.cluster_id, "x" * 22))
    with pytest.RaisesGroup(InconsistentClusterIdError, flatten_subgroups=True):
        async with controller(tmp_path):
            pass


async def test_brokers_of_other_processes_come_over_tcp(tmp_path: Path) -> None:
    async with controller(tmp_path) as service, trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(ControlServer(service, None).run, listeners)
        port = listeners[0].socket.getsockname()[1]

        stream = await trio.open_tcp_stream("127.0.0.1", port)
        connection = await connect_control(stream, m.Hello(service.cluster_id, 1))
        nursery.start_soon(connection.run)
        epoch = (await connection.request(REGISTER)).broker_epoch
        assert service.image.brokers[1].broker_epoch == epoch
        with pytest.raises(KafkaError) as caught:
            await connection.request(m.BrokerHeartbeat(1, epoch + 1, 0))
        assert caught.value.code == ErrorCode.STALE_BROKER_EPOCH

        for hello, code in (
            (m.Hello("another", 2), ErrorCode.INCONSISTENT_CLUSTER_ID),
            (m.Hello("", 2, 8, 9), ErrorCode.UNSUPPORTED_VERSION),
        ):
            stranger = await trio.open_tcp_stream("127.0.0.1", port)
            with pytest.raises(KafkaError) as caught:
                await connect_control(stranger, hello)
            assert caught.value.code == code
        nursery.cancel_scope.cancel()


async def test_garbage_on_the_port_disturbs_nobody(tmp_path: Path) -> None:
    rng = Random(3)
    async with controller(tmp_path) as service, trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(ControlServer(service, None).run, listeners)
        port = listeners[0].socket.getsockname()[1]
        for size in range(0, 3000, 60):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            async with stream:
                try:
                    await stream.send_all(rng.randbytes(size))
                    await stream.send_eof()
                    await stream.receive_some()
                except trio.BrokenResourceError:
                    pass
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        connection = await connect_control(stream, m.Hello("", m.NO_NODE))
        nursery.start_soon(connection.run)
        assert (await connection.request(m.DescribeQuorum())).leader_id == 1
        nursery.cancel_scope.cancel()


async def test_too_many_connections_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.net.control_server.CONNECTIONS_MAX", 1)
    async with controller(tmp_path) as service, trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(ControlServer(service, None).run, listeners)
        port = listeners[0].socket.getsockname()[1]
        first = await trio.open_tcp_stream("127.0.0.1", port)
        connection = await connect_control(first, m.Hello("", m.NO_NODE))
        second = await trio.open_tcp_stream("127.0.0.1", port)
        with pytest.raises(KafkaError):
            await connect_control(second, m.Hello("", m.NO_NODE))
        await connection.aclose()
        nursery.cancel_scope.cancel()
