"""What the Raft nodes of a quorum say to each other, and how it travels: a CBOR list per message.

Every message carries its sender's term.  There are no answers in the sense of requests: a message
may be lost, repeated, delayed and overtaken, and whatever it leads to is another message.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from quorate.control.codec import INT64_MAX, DecodeError, as_array, dump_cbor, load_cbor
from quorate.dataclass import dataclass
from quorate.quorum.raft.journal_file import Entry

FRAME_BYTES_MAX: Final = 4 * 2**20
"""No encoded message is larger."""

APPEND_BYTES_TARGET: Final = 2**20
"""An append carries at most this much of commands, or one command alone."""

COMMAND_BYTES_MAX: Final = FRAME_BYTES_MAX - 64 * 2**10
"""The largest command: an append that carries it alone is not larger than a frame."""

SNAPSHOT_CHUNK_BYTES: Final = 64 * 2**10


@dataclass(frozen=True, slots=True)
class Append:
    """Entries behind ``previous_index`` (empty: a heartbeat), and what is committed."""

    term: int
    previous_index: int
    previous_term: int
    commit_index: int
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The leader is alive; says nothing about the log (a snapshot is on its way)."""

    term: int
    commit_index: int


@dataclass(frozen=True, slots=True)
class AppendAnswer:
    """How far the follower's log matches, or from where on to send again.

    ``success``: everything below ``next_index`` matches. ``reset``: the append behind
    ``rejected_index`` did not fit (0: it was not said behind which).
    """

    term: int
    next_index: int
    success: bool
    reset: bool
    rejected_index: int


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A candidate asks for a vote in its term."""

    term: int
    last_index: int
    last_term: int


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote for the receiver; it is durable."""

    term: int


@dataclass(frozen=True, slots=True)
class PreVoteRequest:
    """Would you vote for me, if I raised the term? ``number`` tells the sender's rounds apart."""

    term: int
    number: int
    last_index: int
    last_term: int


@dataclass(frozen=True, slots=True)
class PreVote:
    """I would."""

    term: int
    number: int


@dataclass(frozen=True, slots=True)
class NewerTerm:
    """What you said is of an older term than mine."""

    term: int


@dataclass(frozen=True, slots=True)
class ReadProbe:
    """Am I still your leader?"""

    term: int
    number: int


@dataclass(frozen=True, slots=True)
class ReadProbeAnswer:
    """You were, when your probe came."""

    term: int
    number: int


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """A piece of the snapshot that ends with entry ``last_index`` of term ``last_term``."""

    term: int
    last_index: int
    last_term: int
    total_bytes: int
    position: int
    crc: int
    data: bytes


@dataclass(frozen=True, slots=True)
class SnapshotAnswer:
    """How much of that snapshot has arrived."""

    term: int
    last_index: int
    last_term: int
    received_bytes: int


@dataclass(frozen=True, slots=True)
class TimeoutNow:
    """The leader hands over: stand for election at once."""

    term: int


RaftMessage = (
    Append
    | Heartbeat
    | AppendAnswer
    | VoteRequest
    | Vote
    | PreVoteRequest
    | PreVote
    | NewerTerm
    | ReadProbe
    | ReadProbeAnswer
    | SnapshotChunk
    | SnapshotAnswer
    | TimeoutNow
)


def encode_message(message: RaftMessage) -> bytes:
    """Return a message as bytes, at most :data:`FRAME_BYTES_MAX`."""
    kind = type(message)
    if kind is Append:
        return _encode_append(cast("Append", message))
    number, fields = _LAYOUT_OF[kind]
    return dump_cbor([number, *[getattr(message, name) for name in fields]])


def decode_message(data: bytes | bytearray | memoryview) -> RaftMessage:
    """Return the message of some bytes.

    Raises:
        DecodeError: they are none.
    """
    if len(data) > FRAME_BYTES_MAX:
        raise DecodeError(f"a message of {len(data)} bytes; at most {FRAME_BYTES_MAX}")
    values = as_array(load_cbor(data))
    number = values[0] if values else None
    if number == _APPEND:
        return _decode_append(values)
    layout = _LAYOUTS.get(number) if type(number) is int else None
    if layout is None or len(values) != len(layout.checks) + 1:
        raise DecodeError("not a message of the quorum")
    return layout.build(*[check(v) for check, v in zip(layout.checks, values[1:], strict=True)])


# --- appends: indexes and terms of the entries are not repeated, commands travel as they are

_APPEND: Final = 1


def _encode_append(append: Append) -> bytes:
    return dump_cbor(
        [
            _APPEND,
            append.term,
            append.previous_index,
            append.previous_term,
            append.commit_index,
            _runs([entry.term for entry in append.entries]),
            [entry.command for entry in append.entries],
        ]
    )


def _runs(terms: list[int]) -> list[int]:
    """Return terms as [count, term, count, term, ...]."""
    if not terms:
        return []
    if terms[0] == terms[-1]:  # they never fall
        return [len(terms), terms[0]]
    return [number for term in sorted(set(terms)) for number in (terms.count(term), term)]


def _decode_append(values: list[Any]) -> Append:
    if len(values) != 7:
        raise DecodeError("an append has seven values")
    term, previous_index, previous_term, commit_index = [_number(v) for v in values[1:5]]
    commands = as_array(values[6])
    index = previous_index
    entries: list[Entry] = []
    for entry_term, command in zip(_terms(values[5], len(commands)), commands, strict=True):
        index += 1
        entries.append(Entry(_command(command), index, entry_term))
    if entries and not previous_term <= entries[0].term <= entries[-1].term <= term:
        raise DecodeError("terms fall, or are newer than the sender's")
    return Append(term, previous_index, previous_term, commit_index, entries)


def _terms(value: Any, count: int) -> list[int]:
    runs = [_number(v) for v in as_array(value)]
    counts, terms = runs[0::2], runs[1::2]
    if len(counts) != len(terms) or sum(counts) != count or terms != sorted(terms):
        raise DecodeError("the terms do not fit the entries")
    return [term for n, term in zip(counts, terms, strict=True) for _ in range(n)]


def _command(value: Any) -> bytes:
    if type(value) is not bytes or not value:
        raise DecodeError("a command is bytes, one at least")
    return value


# --- all others: a list of their fields


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= INT64_MAX:
        raise DecodeError("expected a number that is not negative")
    return value


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        raise DecodeError("expected a truth value")
    return value


def _chunk(value: Any) -> bytes:
    if type(value) is not bytes or not 0 < len(value) <= SNAPSHOT_CHUNK_BYTES:
        raise DecodeError("expected a chunk of a snapshot")
    return value


@dataclass(frozen=True, slots=True)
class _Layout:
    build: Callable[..., RaftMessage]
    checks: tuple[Callable[[Any], Any], ...]


_LAYOUTS: Final[dict[int, _Layout]] = {
    2: _Layout(Heartbeat, (_number, _number)),
    3: _Layout(AppendAnswer, (_number, _number, _truth, _truth, _number)),
    4: _Layout(VoteRequest, (_number, _number, _number)),
    5: _Layout(Vote, (_number,)),
    6: _Layout(PreVoteRequest, (_number, _number, _number, _number)),
    7: _Layout(PreVote, (_number, _number)),
    8: _Layout(NewerTerm, (_number,)),
    9: _Layout(ReadProbe, (_number, _number)),
    10: _Layout(ReadProbeAnswer, (_number, _number)),
    11: _Layout(SnapshotChunk, (_number, _number, _number, _number, _number, _number, _chunk)),
    12: _Layout(SnapshotAnswer, (_number, _number, _number, _number)),
    13: _Layout(TimeoutNow, (_number,)),
}
_LAYOUT_OF: Final[dict[Any, tuple[int, tuple[str, ...]]]] = {
    layout.build: (number, tuple(cast("Any", layout.build).__slots__))
    for number, layout in _LAYOUTS.items()
}
