"""Bad input: the errors that Apache Kafka gives.

Every test runs against Apache Kafka too, so that what it asks for is what Kafka does.
"""

import struct
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from quorate.broker.handlers.operations import Operation
from quorate.errors import ErrorCode
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request
from quorate.protocol.message import decoder
from quorate.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from quorate.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from quorate.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorate.protocol.messages.groups import FindCoordinatorRequest
from quorate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from quorate.protocol.messages.session import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from quorate.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from quorate.records.batch import CONTROL_BIT, CRC_COVERS_FROM
from quorate.records.checksum import crc32c
from quorate.records.record import NO_PRODUCER, ProducerStamp
from tests.compat.clients.model import DEADLINE_S, Server, Task, TopicSpec
from tests.compat.clients.ours import Ours
from tests.compat.serving import Broker
from tests.compat.wire import CLIENT_ID, CORRELATION_ID, Wire, connected
from tests.unit.broker.log.batches import make_batch

pytestmark = [pytest.mark.compat, pytest.mark.slow]

HOUR_MS = 3_600_000
RECORD_COUNT_AT = 57
ANY, ALLOW, ON_TOPIC = 1, 3, 2


@pytest.fixture
def stored(target: Server, topic: str, ours: Ours) -> str:
    """A topic of the test's own, on the broker that the test asks."""
    ours.create(target, TopicSpec(topic, 1, {"max.message.bytes": "20000"}))
    deadline = time.monotonic() + DEADLINE_S
    with connected(target) as connection:
        while error_of(connection.fetch(topic, 0, leader_epoch=0)) != "NONE":
            assert time.monotonic() < deadline, "the topic has no leader"
            time.sleep(0.01)  # Kafka answers before its leaders lead
    return topic


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def good(*values: bytes, producer: ProducerStamp = NO_PRODUCER, codec: int = 0) -> bytearray:
    times = [now_ms()] * len(values)
    return bytearray(make_batch(values, timestamps_ms=times, codec=codec, producer=producer))


def with_right_crc(batch: bytearray) -> bytearray:
    batch[17:21] = crc32c(bytes(batch[CRC_COVERS_FROM:])).to_bytes(4, "big")
    return batch


def error_of(answer: object) -> str:
    return ErrorCode(answer.error_code).name  # type: ignore[attr-defined]


def assert_nothing_was_written(wire: Wire, topic: str) -> None:
    assert wire.fetch(topic, 0).high_watermark == 0


@pytest.mark.feature("corrupt CRC: CORRUPT_MESSAGE")
def test_a_batch_with_a_wrong_checksum_is_refused(wire: Wire, stored: str) -> None:
    batch = good(b"value")
    batch[-1] ^= 1
    assert error_of(wire.produce(stored, batch)) == "CORRUPT_MESSAGE"
    assert_nothing_was_written(wire, stored)


@pytest.mark.feature("old magic: INVALID_RECORD")
@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused(wire: Wire, stored: str, magic: int) -> None:
    body = struct.pack(">bbqii", magic, 0, now_ms(), -1, 1) + b"x"
    if magic == 0:
        body = struct.pack(">bbii", magic, 0, -1, 1) + b"x"
    message = struct.pack(">I", zlib.crc32(body)) + body
    batch = struct.pack(">qi", 0, len(message)) + message
    assert error_of(wire.produce(stored, batch)) == "INVALID_RECORD"
    assert_nothing_was_written(wire, stored)


@pytest.mark.feature("batch larger than max.message.bytes: MESSAGE_TOO_LARGE")
def test_a_batch_that_is_too_large_is_refused(wire: Wire, stored: str) -> None:
    assert error_of(wire.produce(stored, good(b"x" * 30_000))) == "MESSAGE_TOO_LARGE"
    assert_nothing_was_written(wire, stored)


@pytest.mark.feature("no records, and two batches: INVALID_RECORD")
@pytest.mark.parametrize("count", [0, 2])
def test_a_partition_gets_one_batch_in_a_request(wire: Wire, stored: str, count: int) -> None:
    answer = wire.produce(stored, bytes(good(b"x")) * count)
    assert error_of(answer) == "INVALID_RECORD"
    assert_nothing_was_written(wire, stored)


@pytest.mark.feature("a batch that is cut off: INVALID_RECORD")
@pytest.mark.parametrize("size_bytes", [5, 14, 40, 65, 68])
def test_a_batch_that_is_cut_off_is_refused(wire: Wire, stored: str, size_bytes: int) -> None:
    assert error_of(wire.produce(stored, good(b"x")[:size_bytes])) == "INVALID_RECORD"
    assert_nothing_was_written(wire, stored)


@pytest.mark.feature("record count that does not match: INVALID_RECORD")
def test_a_wrong_record_count_is_refused(wire: Wire, stored: str) -> None:
    batch = good(b"a", b"b")
    batch[RECORD_COUNT_AT : RECORD_COUNT_AT + 4] = (3).to_bytes(4, "big")
    assert error_of(wire.produce(stored, with_right_crc(batch))) == "INVALID_RECORD"
    assert_nothing_was_written(wire, stored)


@pytest.mark.feature("a batch that says at which offset it is to be replaces nothing")
def test_nobody_says_where_a_batch_goes(
    target: Server, wire: Wire, stored: str, ours: Ours
) -> None:
    assert wire.produce(stored, good(b"a", b"b")).base_offset == 0
    batch = good(b"instead of b")
    batch[:8] = (1).to_bytes(8, "big")
    assert wire.produce(stored, batch).base_offset in {-1, 2}, "refused by Kafka, appended by us"
    assert [one.value for one in ours.consume(target, Task(stored, {0: 0}, 2))] == [b"a", b"b"]


@pytest.mark.feature("control batch of a client: INVALID_RECORD")
def test_clients_write_no_control_batches(wire: Wire, stored: str) -> None:
    batch = bytearray(make_batch([b"x"], timestamps_ms=[now_ms()], attributes=CONTROL_BIT))
    assert error_of(wire.produce(stored, batch)) == "INVALID_RECORD"
    assert_nothing_was_written(wire, stored)


@pytest.mark.feature("time too far ahead: INVALID_TIMESTAMP")
def test_times_far_ahead_are_refused(wire: Wire, stored: str) -> None:
    batch = bytearray(make_batch([b"x"], timestamps_ms=[now_ms() + 2 * HOUR_MS]))
    assert error_of(wire.produce(stored, batch)) == "INVALID_TIMESTAMP"
    assert_nothing_was_written(wire, stored)


@pytest.mark.feature("zstd in an old Produce: UNSUPPORTED_COMPRESSION_TYPE")
def test_zstd_needs_a_newer_produce(wire: Wire, stored: str) -> None:
    answer = wire.produce(stored, good(b"x" * 100, codec=4), version=6)
    assert error_of(answer) == "UNSUPPORTED_COMPRESSION_TYPE"
    assert error_of(wire.produce(stored, good(b"x" * 100, codec=4), version=7)) == "NONE"


@pytest.mark.feature("unknown topic, unknown partition: UNKNOWN_TOPIC_OR_PARTITION")
def test_producing_to_what_does_not_exist_is_refused(wire: Wire, stored: str) -> None:
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_of(wire.produce(f"no-{stored}", good(b"x"))) == unknown
    assert error_of(wire.produce(stored, good(b"x"), partition=99)) == unknown
    assert error_of(wire.produce(stored, good(b"x"), partition=-1)) == unknown
    assert_nothing_was_written(wire, stored)


@pytest.mark.feature("acks=2: INVALID_REQUIRED_ACKS")
def test_there_are_three_kinds_of_acknowledgement(wire: Wire, stored: str) -> None:
    answer = wire.produce(stored, good(b"x"), acks=2)
    assert error_of(answer) == "INVALID_REQUIRED_ACKS"
    assert_nothing_was_written(wire, stored)


@pytest.mark.feature("acks=0: not a byte comes back")
def test_without_acknowledgement_there_is_no_answer(wire: Wire, stored: str) -> None:
    body = wire.produce_request(stored, good(b"x"), partition=0, acks=0, version=9)
    wire.send(encode_request(APIS[ApiKey.PRODUCE], 9, CORRELATION_ID - 1, CLIENT_ID, body))
    assert wire.fetch(stored, 0).high_watermark == 1  # its answer is the first


@pytest.mark.feature("acks=0: errors close the connection")
def test_without_acknowledgement_an_error_closes_the_connection(wire: Wire, stored: str) -> None:
    body = wire.produce_request(f"no-{stored}", good(b"x"), partition=0, acks=0, version=9)
    wire.send(encode_request(APIS[ApiKey.PRODUCE], 9, CORRELATION_ID, CLIENT_ID, body))
    assert wire.is_closed()


@pytest.mark.feature("gap in a producer's sequence: OUT_OF_ORDER_SEQUENCE_NUMBER")
def test_a_gap_in_the_sequence_is_refused(wire: Wire, stored: str) -> None:
    for sequence, error in ((0, "NONE"), (1, "NONE"), (3, "OUT_OF_ORDER_SEQUENCE_NUMBER")):
        batch = good(b"x", producer=ProducerStamp(4_000, 0, sequence))
        assert error_of(wire.produce(stored, batch)) == error
    assert wire.fetch(stored, 0).high_watermark == 2


@pytest.mark.feature("1,000 repeated batches: written once, answered with their offset")
def test_a_repeated_batch_is_answered_with_its_offset_and_not_written(
    wire: Wire, stored: str
) -> None:
    batches = [good(b"x", b"y", producer=ProducerStamp(4_001, 0, 2 * i)) for i in range(5)]
    assert [wire.produce(stored, b).base_offset for b in batches] == [0, 2, 4, 6, 8]
    for _ in range(200):
        answers = [wire.produce(stored, batch) for batch in batches]
        assert [(a.error_code, a.base_offset) for a in answers] == [
            (0, offset) for offset in (0, 2, 4, 6, 8)
        ]
    assert wire.fetch(stored, 0).high_watermark == 10


@pytest.mark.feature("batch older than the last five: refused")
def test_a_batch_older_than_the_last_five_is_no_known_repetition(wire: Wire, stored: str) -> None:
    batches = [good(b"x", producer=ProducerStamp(4_002, 0, i)) for i in range(6)]
    for batch in batches:
        assert error_of(wire.produce(stored, batch)) == "NONE"
    assert error_of(wire.produce(stored, batches[0])) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert wire.fetch(stored, 0).high_watermark == 6


@pytest.mark.feature("older producer epoch: INVALID_PRODUCER_EPOCH")
def test_an_older_producer_is_fenced(wire: Wire, stored: str) -> None:
    assert error_of(wire.produce(stored, good(b"x", producer=ProducerStamp(4_003, 1, 0)))) == "NONE"
    answer = wire.produce(stored, good(b"x", producer=ProducerStamp(4_003, 0, 1)))
    assert error_of(answer) == "INVALID_PRODUCER_EPOCH"
    assert wire.fetch(stored, 0).high_watermark == 1


@pytest.mark.feature("new producer epoch begins at 0: OUT_OF_ORDER_SEQUENCE_NUMBER")
def test_a_new_epoch_begins_with_sequence_0(wire: Wire, stored: str) -> None:
    assert error_of(wire.produce(stored, good(b"x", producer=ProducerStamp(4_004, 0, 0)))) == "NONE"
    late = wire.produce(stored, good(b"x", producer=ProducerStamp(4_004, 1, 5)))
    assert error_of(late) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert error_of(wire.produce(stored, good(b"x", producer=ProducerStamp(4_004, 1, 0)))) == "NONE"


@pytest.mark.feature("fetch outside the log: OFFSET_OUT_OF_RANGE")
def test_offsets_outside_the_log_are_out_of_range(wire: Wire, stored: str) -> None:
    wire.produce(stored, good(b"x"))
    assert error_of(wire.fetch(stored, 1)) == "NONE"
    assert error_of(wire.fetch(stored, 2)) == "OFFSET_OUT_OF_RANGE"
    assert error_of(wire.fetch(stored, -5)) == "OFFSET_OUT_OF_RANGE"


@pytest.mark.feature("fetch what does not exist: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID")
def test_fetching_what_does_not_exist_is_an_error(wire: Wire, stored: str) -> None:
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_of(wire.fetch(stored, 0, partition=9)) == unknown
    assert error_of(wire.fetch(f"no-{stored}", 0)) == unknown
    assert error_of(wire.fetch(f"no-{stored}", 0, version=13)) == "UNKNOWN_TOPIC_ID"


@pytest.mark.feature("fetch with a leader epoch of the future: UNKNOWN_LEADER_EPOCH")
def test_a_leader_epoch_of_the_future_is_unknown(wire: Wire, stored: str) -> None:
    assert error_of(wire.fetch(stored, 0, leader_epoch=0)) == "NONE"
    assert error_of(wire.fetch(stored, 0, leader_epoch=7)) == "UNKNOWN_LEADER_EPOCH"


@pytest.mark.feature("long poll: answered when a record comes")
def test_a_waiting_fetch_is_answered_by_the_next_record(target: Server, stored: str) -> None:
    with connected(target) as reader, connected(target) as writer:
        body = reader.fetch(stored, 0)
        assert not body.records
        started_s = time.monotonic()
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(reader.fetch, stored, 0, max_wait_ms=60_000)
            writer.produce(stored, good(b"x"))
            assert waiting.result().high_watermark == 1
        assert time.monotonic() - started_s < 30


@pytest.mark.feature("offsets by time, highest time, ends")
def test_special_times_mean_ends(wire: Wire, stored: str) -> None:
    at = now_ms() - HOUR_MS
    wire.produce(stored, make_batch([b"a", b"b", b"c"], timestamps_ms=[at, at + 9, at + 5]))
    asked = {-1: (-1, 3), -2: (-1, 0), -3: (at + 9, 1), at + 1: (at + 9, 1), at + 10: (-1, -1)}
    for timestamp, expected in asked.items():
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsetsTopic(name=stored, partitions=[partition])
        body = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = wire.ask(ApiKey.LIST_OFFSETS, 7, body).topics[0].partitions[0]
        assert (answer.timestamp, answer.offset) == expected, timestamp


@pytest.mark.feature("ApiVersions of a version to come: UNSUPPORTED_VERSION and what there is")
def test_a_newer_client_is_told_the_versions(wire: Wire) -> None:
    head = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, CORRELATION_ID, len(CLIENT_ID))
    frame = head + CLIENT_ID.encode() + b"\0\0\0\0"
    wire.send(struct.pack(">i", len(frame)) + frame)
    answer = wire.receive_frame()
    decode = decoder(ApiVersionsResponse, 0)
    told, end = decode(answer, 4, len(answer))
    assert end == len(answer)
    assert error_of(told) == "UNSUPPORTED_VERSION"
    assert any(api.api_key == ApiKey.API_VERSIONS for api in told.api_keys)


@pytest.mark.feature("unsupported version or API, a frame too large: closed")
@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">ihhih", 10, ApiKey.METADATA, 99, 1, -1),
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, -1, 0, 1, -1),
        struct.pack(">i", 2**31 - 1) + b"x" * 8,
        struct.pack(">i", -1) + b"x" * 8,
        struct.pack(">ihhih", 10, ApiKey.METADATA, 9, 1, 500),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["version", "api", "negative-api", "huge", "negative", "client-id", "http"],
)
def test_what_cannot_be_read_closes_the_connection(wire: Wire, frame: bytes) -> None:
    wire.send(frame)
    assert wire.is_closed()


@pytest.mark.feature("metadata of unknown and of badly named topics")
def test_metadata_says_what_is_wrong_with_a_name(wire: Wire, topic: str) -> None:
    for name, error in ((topic, "UNKNOWN_TOPIC_OR_PARTITION"), ("a b", "INVALID_TOPIC_EXCEPTION")):
        body = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        (told,) = wire.ask(ApiKey.METADATA, 9, body).topics
        assert error_of(told) == error


@pytest.mark.feature("more replicas than brokers: INVALID_REPLICATION_FACTOR")
def test_replicas_need_brokers(wire: Wire, topic: str) -> None:
    new = CreatableTopic(name=topic, num_partitions=1, replication_factor=3)
    (told,) = wire.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[new])).topics
    assert error_of(told) == "INVALID_REPLICATION_FACTOR"


@pytest.mark.feature("validate only: nothing is created")
def test_validating_creates_nothing(wire: Wire, topic: str) -> None:
    new = CreatableTopic(name=topic, num_partitions=2, replication_factor=1)
    body = CreateTopicsRequest(topics=[new], validate_only=True)
    (told,) = wire.ask(ApiKey.CREATE_TOPICS, 7, body).topics
    assert error_of(told) == "NONE"
    assert told.num_partitions == 2
    assert error_of(wire.topic(topic)) == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.feature("the same topic twice in a request: INVALID_REQUEST")
def test_a_request_names_a_topic_once(wire: Wire, topic: str) -> None:
    new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    answer = wire.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[new, new]))
    assert {error_of(told) for told in answer.topics} == {"INVALID_REQUEST"}
    assert error_of(wire.topic(topic)) == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.feature("appending to a config that is no list: INVALID_CONFIG")
def test_only_lists_are_appended_to(wire: Wire, stored: str) -> None:
    change = IncrementalAlterableConfig(name="retention.ms", config_operation=2, value="1")
    resource = IncrementalAlterConfigsResource(
        resource_type=2, resource_name=stored, configs=[change]
    )
    body = IncrementalAlterConfigsRequest(resources=[resource])
    (told,) = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body).responses
    assert error_of(told) == "INVALID_CONFIG"


@pytest.mark.feature("throttled replicas that are none: INVALID_CONFIG")
@pytest.mark.parametrize(("value", "error"), [("none", "INVALID_CONFIG"), ("*", "NONE")])
def test_only_replicas_are_throttled(wire: Wire, stored: str, value: str, error: str) -> None:
    change = IncrementalAlterableConfig(
        name="leader.replication.throttled.replicas", config_operation=0, value=value
    )
    resource = IncrementalAlterConfigsResource(
        resource_type=2, resource_name=stored, configs=[change]
    )
    body = IncrementalAlterConfigsRequest(resources=[resource])
    (told,) = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body).responses
    assert error_of(told) == error


@pytest.mark.feature("forgetting offsets of no partition: UNKNOWN_TOPIC_OR_PARTITION")
def test_only_offsets_of_what_exists_are_forgotten(wire: Wire, stored: str) -> None:
    committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    commit = OffsetCommitRequest(
        group_id=stored, topics=[OffsetCommitRequestTopic(name=stored, partitions=[committed])]
    )
    deadline = time.monotonic() + DEADLINE_S
    body = FindCoordinatorRequest(coordinator_keys=[stored])
    while error_of(wire.ask(ApiKey.FIND_COORDINATOR, 4, body).coordinators[0]) != "NONE":
        assert time.monotonic() < deadline, "there is no coordinator"
        time.sleep(0.01)
    while error_of(wire.ask(ApiKey.OFFSET_COMMIT, 8, commit).topics[0].partitions[0]) != "NONE":
        assert time.monotonic() < deadline, "the coordinator does not load"
        time.sleep(0.01)
    indexes = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 1, -1)]
    delete = OffsetDeleteRequest(
        group_id=stored, topics=[OffsetDeleteRequestTopic(name=stored, partitions=indexes)]
    )
    (told,) = wire.ask(ApiKey.OFFSET_DELETE, 0, delete).topics
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert {partition.partition_index: error_of(partition) for partition in told.partitions} == {
        0: "NONE", 1: unknown, -1: unknown,
    }  # fmt: skip


@pytest.mark.feature("SASL, on a listener without: ILLEGAL_SASL_STATE")
def test_who_begins_sasl_is_told_that_it_has_no_place_here(wire: Wire) -> None:
    assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= {
        api.api_key for api in wire.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()).api_keys
    }
    for version in (0, 1):
        handshake = SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
        told = wire.ask(ApiKey.SASL_HANDSHAKE, version, handshake)
        assert (error_of(told), told.mechanisms) == ("ILLEGAL_SASL_STATE", [])
    credentials = SaslAuthenticateRequest(auth_bytes=b"\0user\0password")
    for version in (0, 2):
        told = wire.ask(ApiKey.SASL_AUTHENTICATE, version, credentials)
        assert (error_of(told), told.auth_bytes) == ("ILLEGAL_SASL_STATE", b"")


@pytest.mark.feature("access rules, without an authorizer: SECURITY_DISABLED")
@pytest.mark.parametrize("version", [1, 3])
def test_who_asks_for_access_rules_is_told_that_there_are_none(wire: Wire, version: int) -> None:
    asked = DescribeAclsRequest(
        resource_type_filter=ANY, pattern_type_filter=ANY, operation=ANY, permission_type=ANY
    )
    told = wire.ask(ApiKey.DESCRIBE_ACLS, version, asked)
    assert (error_of(told), told.resources) == ("SECURITY_DISABLED", [])
    rule = AclCreation(
        resource_type=ON_TOPIC, resource_name="t", principal="User:a", host="*",
        operation=int(Operation.READ), permission_type=ALLOW,
    )  # fmt: skip
    (made,) = wire.ask(ApiKey.CREATE_ACLS, version, CreateAclsRequest(creations=[rule])).results
    unwanted = DeleteAclsFilter(resource_type_filter=ON_TOPIC, operation=ANY, permission_type=ANY)
    deletion = DeleteAclsRequest(filters=[unwanted])
    (gone,) = wire.ask(ApiKey.DELETE_ACLS, version, deletion).filter_results
    assert {error_of(answer) for answer in (made, gone)} == {"SECURITY_DISABLED"}
    assert [answer.error_message for answer in (told, made, gone)] == [
        "No Authorizer is configured on the broker",
        "No Authorizer is configured.",
        "No Authorizer is configured.",
    ]


@pytest.mark.feature("FindCoordinator: of a group, of several at once, of transactions")
@pytest.mark.client("Quorate")
@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_coordinators_are_found(broker: Broker, version: int) -> None:
    def ask(key_type: int) -> Any:
        body = FindCoordinatorRequest(key="readers", key_type=key_type if version else 0)
        if version >= 4:
            body = FindCoordinatorRequest(coordinator_keys=["readers"], key_type=key_type)
        with connected(broker.server) as wire:
            told = wire.ask(ApiKey.FIND_COORDINATOR, version, body)
        return told if version < 4 else told.coordinators[0]

    for key_type in (0, 1) if version else (0,):
        coordinator = ask(key_type)
        assert (error_of(coordinator), coordinator.port) == ("NONE", broker.node.port)


@pytest.mark.feature("every version of Produce and Fetch")
def test_every_version_of_produce_and_fetch_works(wire: Wire, stored: str) -> None:
    produce, fetch = APIS[ApiKey.PRODUCE], APIS[ApiKey.FETCH]
    produced_bytes = 0
    for offset, version in enumerate(range(3, produce.max_version + 1)):
        batch = good(b"v%d" % version)
        produced_bytes += len(batch)
        answer = wire.produce(stored, batch, version=version)
        assert (error_of(answer), answer.base_offset) == ("NONE", offset)
    for version in range(fetch.min_version, fetch.max_version + 1):
        fetched = wire.fetch(stored, 0, version=version)
        assert error_of(fetched) == "NONE"
        assert fetched.high_watermark == produce.max_version - 2
        assert fetched.records is not None
        assert len(fetched.records) == produced_bytes


@pytest.mark.feature("advertised versions are among Kafka's")
@pytest.mark.client("Quorate")
def test_no_version_is_advertised_that_kafka_does_not_have(
    broker: Broker, apache_kafka: Broker
) -> None:
    tables: list[dict[int, tuple[int, int]]] = []
    for server in (broker.server, apache_kafka.server):
        with connected(server) as wire:
            body = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
            told = wire.ask(ApiKey.API_VERSIONS, 3, body)
            tables.append({a.api_key: (a.min_version, a.max_version) for a in told.api_keys})
    ours, kafkas = tables
    assert set(ours) <= set(kafkas)
    assert {key: ours[key] for key in ours} == {key: kafkas[key] for key in ours}


@pytest.mark.feature("refused records: the first offset of the log is told, where Kafka tells it")
def test_where_the_log_starts_is_told_with_a_refusal(wire: Wire, stored: str) -> None:
    assert error_of(wire.produce(stored, good(b"a", producer=ProducerStamp(7, 1, 0)))) == "NONE"
    answers = (
        wire.produce(stored, good(b"a", producer=ProducerStamp(7, 1, 5))),
        wire.produce(stored, good(b"a", producer=ProducerStamp(7, 0, 0))),
        wire.produce(stored, good(b"a" * 30_000)),
        wire.produce(stored, good(b"a"), partition=1),
    )
    assert {error_of(answer): answer.log_start_offset for answer in answers} == {
        "OUT_OF_ORDER_SEQUENCE_NUMBER": 0,
        "INVALID_PRODUCER_EPOCH": 0,
        "MESSAGE_TOO_LARGE": -1,
        "UNKNOWN_TOPIC_OR_PARTITION": -1,
    }
