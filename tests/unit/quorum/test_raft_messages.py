"""Messages of the quorum travel whole; whatever else comes is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.control.codec import DecodeError, dump_cbor, load_cbor
from quorate.quorum.raft import messages as m
from quorate.quorum.raft.journal_file import Entry
from quorate.quorum.raft.messages import RaftMessage, decode_message, encode_message

number = st.integers(0, 2**63 - 1)
ALL = (
    st.builds(m.Heartbeat, number, number)
    | st.builds(m.AppendAnswer, number, number, st.booleans(), st.booleans(), number)
    | st.builds(m.VoteRequest, number, number, number)
    | st.builds(m.Vote, number)
    | st.builds(m.PreVoteRequest, number, number, number, number)
    | st.builds(m.PreVote, number, number)
    | st.builds(m.NewerTerm, number)
    | st.builds(m.ReadProbe, number, number)
    | st.builds(m.ReadProbeAnswer, number, number)
    | st.builds(
        m.SnapshotChunk, *[number] * 6, st.binary(min_size=1, max_size=m.SNAPSHOT_CHUNK_BYTES)
    )
    | st.builds(m.SnapshotAnswer, *[number] * 4)
    | st.builds(m.TimeoutNow, number)
)


@st.composite
def appends(draw: st.DrawFn) -> m.Append:
    previous = draw(st.integers(0, 2**40))
    terms = sorted(draw(st.lists(st.integers(0, 9), max_size=30)))
    commands = [draw(st.binary(min_size=1, max_size=9)) for _ in terms]
    entries = [
        Entry(command, previous + 1 + n, term)
        for n, (command, term) in enumerate(zip(commands, terms, strict=True))
    ]
    previous_term = draw(st.integers(0, terms[0] if terms else 9))
    return m.Append(9, previous, previous_term, draw(number), entries)


@given(ALL | appends())
def test_a_message_comes_back_as_it_went(message: RaftMessage) -> None:
    assert decode_message(encode_message(message)) == message


@given(ALL | appends(), st.data())
def test_a_damaged_message_is_refused_or_is_another_message(
    message: RaftMessage, data: st.DataObject
) -> None:
    content = bytearray(encode_message(message))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    try:
        decoded = decode_message(content)
    except DecodeError:
        return
    assert isinstance(decoded, RaftMessage)


@given(st.binary(max_size=200))
def test_garbage_is_refused(content: bytes) -> None:
    try:
        decoded = decode_message(content)
    except DecodeError:
        return
    assert isinstance(decoded, RaftMessage)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [0],
        [99, 1],
        ["2", 1, 1],
        [True, 1, 1],
        [2, 1],
        [2, 1, 1, 1],
        [2, -1, 1],
        [2, 2**63, 1],
        [2, 1.5, 1],
        [2, True, 1],
        [3, 1, 1, 1, 0, 0],
        [11, 1, 1, 1, 1, 1, 1, b""],
        [11, 1, 1, 1, 1, 1, 1, "text"],
        [11, 1, 1, 1, 1, 1, 1, bytes(m.SNAPSHOT_CHUNK_BYTES + 1)],
        [1, 1, 1, 1, 1, []],
        [1, 1, 1, 1, 1, [1, 1], []],
        [1, 1, 1, 1, 1, [1], [b"a"]],
        [1, 1, 1, 1, 1, [2, 1], [b"a"]],
        [1, 1, 1, 1, 1, [1, 1], [b""]],
        [1, 1, 1, 1, 1, [1, 1], ["a"]],
        [1, 1, 1, 1, 1, [1, 2], [b"a"]],
        [1, 3, 1, 1, 1, [1, 2, 1, 1], [b"a", b"b"]],
        [1, 3, 1, 2, 1, [1, 1], [b"a"]],
        [1, 1, 1, 1, 1, [2**62, 1], [b"a"]],
    ],
)
def test_what_is_no_message_is_refused(values: list[object]) -> None:
    with pytest.raises(DecodeError):
        decode_message(dump_cbor(values))


def test_the_largest_command_fits_a_frame_and_larger_frames_are_refused() -> None:
    largest = Entry(bytes(m.COMMAND_BYTES_MAX), 2**60, 2**60)
    append = m.Append(2**62, 2**60 - 1, 2**60, 2**60, [largest])
    content = encode_message(append)
    assert len(content) <= m.FRAME_BYTES_MAX
    assert decode_message(content) == append
    with pytest.raises(DecodeError, match="at most"):
        decode_message(bytes(m.FRAME_BYTES_MAX + 1))


def test_indexes_and_terms_of_entries_do_not_travel_one_by_one() -> None:
    entries = [Entry(b"x", n, 3) for n in range(1, 1001)]
    assert len(encode_message(m.Append(3, 0, 0, 0, entries))) < 2 * 1000 + 50
    assert load_cbor(encode_message(m.Append(3, 0, 0, 0, entries)))[5] == [1000, 3]
