"""Frames of the control plane: ``length | CBOR map`` of type, correlation id and fields."""

from typing import Any, Final

from quorate.control import feature_messages as f
from quorate.control import messages as m
from quorate.control import partition_messages as p
from quorate.control.codec import (
    INT64_MAX,
    DecodeError,
    Decoders,
    as_map,
    load_cbor,
)
from quorate.control.direct import dump_bytes, dump_number, dumper_of, map_head
from quorate.dataclass import dataclass

LENGTH_BYTES: Final = 4
FRAME_BYTES_MAX_BEFORE_HELLO: Final = 4096
HELLO_ANSWER_BYTES_MAX: Final = 2**18
"""What whoever said hello accepts: it names founders and voters, with hosts as long as may be."""

FRAME_BYTES_MAX: Final = 2**20
"""What a controller accepts: CBOR may be 70 times as large as objects as it is as bytes."""

ANSWER_BYTES_MAX: Final = 512 * 2**20
"""What a client accepts: a snapshot of a very large cluster is one frame."""

_TYPE: Final = 1
_CORRELATION_ID: Final = 2
_FIELDS: Final = 3
_REQUEST_ID: Final = 4
_TIMEOUT_MS: Final = 5

REQUEST_ID_BYTES_MAX: Final = 32

Message = m.Request[Any] | m.Answer

# Numbers are never reused.  An answer has the number of its request plus one.
MESSAGES: Final[dict[int, type[Any]]] = {
    1: m.ErrorAnswer,
    2: m.Hello,
    3: m.HelloAnswer,
    10: m.RegisterBroker,
    11: m.RegisterBrokerAnswer,
    12: m.BrokerHeartbeat,
    13: m.BrokerHeartbeatAnswer,
    14: m.UnregisterBroker,
    15: m.UnregisterBrokerAnswer,
    16: m.AllocateProducerIds,
    17: m.AllocateProducerIdsAnswer,
    20: m.FetchMetadata,
    21: m.FetchMetadataAnswer,
    22: m.DescribeQuorum,
    23: m.DescribeQuorumAnswer,
    24: m.AddVoter,
    25: m.AddVoterAnswer,
    26: m.RemoveVoter,
    27: m.RemoveVoterAnswer,
    28: m.TransferLeadership,
    29: m.TransferLeadershipAnswer,
    30: m.CreateTopics,
    31: m.CreateTopicsAnswer,
    32: m.DeleteTopics,
    33: m.DeleteTopicsAnswer,
    34: m.CreatePartitions,
    35: m.CreatePartitionsAnswer,
    36: m.AlterConfigs,
    37: m.AlterConfigsAnswer,
    70: p.AlterPartition,
    71: p.AlterPartitionAnswer,
    72: p.ElectLeaders,
    73: p.ElectLeadersAnswer,
    74: f.UpdateFeatures,
    75: f.UpdateFeaturesAnswer,
    76: p.AlterReassignments,
    77: p.AlterReassignmentsAnswer,
    78: p.ChangeBroker,
    79: p.ChangeBrokerAnswer,
}
_BEGINNINGS: Final = {
    cls: b"".join(map(dump_number, (_TYPE, number, _CORRELATION_ID)))
    for number, cls in MESSAGES.items()
}
"""What stands behind the head of a frame's map and before its correlation id."""

_FIELDS_KEY, _REQUEST_ID_KEY, _TIMEOUT_MS_KEY = map(
    dump_number, (_FIELDS, _REQUEST_ID, _TIMEOUT_MS)
)
_DECODERS: Final = Decoders(MESSAGES)


class UnknownMessageError(DecodeError):
    """A frame of a type that this version does not know; it can be answered."""

    def __init__(self, number: int, correlation_id: int) -> None:
        super().__init__(f"unknown message type {number}")
        self.correlation_id = correlation_id


@dataclass(frozen=True, slots=True)
class Frame:
    """A message, and the id that pairs a request with its answer.

    ``request_id`` is the same for every try of one request, on whatever connection, so that what
    was carried out is not carried out again; empty, if that does not matter. ``timeout_ms`` is how
    long the sender will wait for the answer; 0, if it does not say.
    """

    correlation_id: int
    message: Message
    request_id: bytes = b""
    timeout_ms: int = 0


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of a frame, length first."""
    message = frame.message
    parts = [
        map_head(3 + bool(frame.request_id) + bool(frame.timeout_ms)),
        _BEGINNINGS[type(message)],
        dump_number(frame.correlation_id),
        _FIELDS_KEY,
        dumper_of(type(message))(message),
    ]
    if frame.request_id:
        parts += (_REQUEST_ID_KEY, dump_bytes(frame.request_id))
    if frame.timeout_ms:
        parts += (_TIMEOUT_MS_KEY, dump_number(frame.timeout_ms))
    body = b"".join(parts)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def decode_frame(body: bytes | bytearray | memoryview) -> Frame:
    """Return the frame of a body (without the length).

    Raises:
        UnknownMessageError: a frame of a type that is not known.
        DecodeError: not a frame.
    """
    envelope = as_map(load_cbor(body))
    correlation_id = envelope.get(_CORRELATION_ID)
    number = envelope.get(_TYPE)
    if type(correlation_id) is not int or type(number) is not int:
        raise DecodeError("a frame has a type and a correlation id")
    if number not in MESSAGES:
        raise UnknownMessageError(number, correlation_id)
    message = _DECODERS[number](envelope.get(_FIELDS))
    request_id = envelope.get(_REQUEST_ID, b"")
    if type(request_id) is not bytes or len(request_id) > REQUEST_ID_BYTES_MAX:
        raise DecodeError(f"a request id has at most {REQUEST_ID_BYTES_MAX} bytes")
    timeout_ms = envelope.get(_TIMEOUT_MS, 0)
    if type(timeout_ms) is not int or not 0 <= timeout_ms <= INT64_MAX:
        raise DecodeError("a timeout is a number of milliseconds")
    return Frame(correlation_id, message, request_id, timeout_ms)


def frame_length(prefix: bytes | bytearray | memoryview, bytes_max: int) -> int:
    """Return the length that a prefix announces.

    Raises:
        DecodeError: more than is acceptable, or nothing.
    """
    length = int.from_bytes(prefix, "big")
    if not 0 < length <= bytes_max:
        raise DecodeError(f"a frame of {length} bytes; at most {bytes_max} are accepted")
    return length
