"""The state machine: compare-and-set on the version, and deltas for followers."""
# pyright: reportPrivateUsage=false

import pytest

from quorate.control.codec import DecodeError, dump_cbor
from quorate.control.messages import UNKNOWN_CHECKSUM, FetchMetadataAnswer
from quorate.errors import InconsistentClusterIdError
from quorate.quorum.metadata import machine as machine_module
from quorate.quorum.metadata.applying import apply_records, draft_records
from quorate.quorum.metadata.codec import decode_batch
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.quorum.metadata.machine import (
    Committed,
    Conflict,
    MetadataMachine,
    Refused,
    encode_command,
)
from quorate.quorum.metadata.records import ConfigSet, TopicRemoved
from quorate.quorum.metadata.snapshot import decode_image


def config(value: str) -> ConfigSet:
    return ConfigSet("c", 1, "broker", "", "k", value)


def commit(machine: MetadataMachine, index: int, value: str) -> None:
    command = encode_command(machine.image.version, [config(value)])
    assert machine.apply(index, 7, command) == Committed(index)


def follow(image: MetadataImage, answer: FetchMetadataAnswer) -> MetadataImage:
    if answer.snapshot is not None:
        image = decode_image(answer.snapshot)
    for batch in answer.batches:
        image = apply_records(image, batch.version, decode_batch(batch.records))
    return image


def test_a_command_takes_effect_on_the_version_it_was_decided_on() -> None:
    machine = MetadataMachine()
    command = encode_command(0, [config("1")])
    assert machine.apply(3, 7, command) == Committed(3)
    assert machine.image.version == 3


def test_a_command_decided_on_another_version_is_dropped() -> None:
    machine = MetadataMachine()
    commit(machine, 3, "1")
    assert machine.apply(4, 7, encode_command(0, [config("2")])) == Conflict(3)
    assert machine.apply(5, 7, encode_command(4, [config("2")])) == Conflict(3)
    assert machine.image.version == 3


def test_what_a_command_makes_is_not_worked_out_again_if_that_is_expected() -> None:
    machine = MetadataMachine()
    command = encode_command(0, [config("1")])
    drafted = draft_records(EMPTY_IMAGE, [config("1")])
    machine.expect(command, drafted)
    assert machine.apply(3, 7, command) == Committed(3)
    assert machine.image.configs is drafted.configs
    assert follow(EMPTY_IMAGE, machine.since(0)) == machine.image


def test_what_is_expected_of_another_command_is_forgotten() -> None:
    machine = MetadataMachine()
    machine.expect(encode_command(0, [config("2")]), draft_records(EMPTY_IMAGE, [config("2")]))
    commit(machine, 3, "1")
    assert machine.image == apply_records(EMPTY_IMAGE, 3, [config("1")])


def test_a_command_that_contradicts_the_image_has_no_effect_at_all() -> None:
    machine = MetadataMachine()
    outcome = machine.apply(3, 7, encode_command(0, [config("1"), TopicRemoved("c", 1, b"i" * 16)]))
    assert isinstance(outcome, Refused)
    assert machine.image == EMPTY_IMAGE


def test_a_command_that_cannot_be_read_stops_the_node() -> None:
    machine = MetadataMachine()
    for command in (dump_cbor([1]), dump_cbor([0, dump_cbor(["c", 1, {0: 999}])]), b"\xff"):
        with pytest.raises(DecodeError):
            machine.apply(3, 7, command)


def test_a_batch_says_in_which_term_it_was_decided() -> None:
    machine = MetadataMachine()
    commit(machine, 3, "1")
    assert [(batch.version, batch.term) for batch in machine.since(0).batches] == [(3, 7)]


def test_followers_get_what_they_lack() -> None:
    machine = MetadataMachine()
    for index in (3, 5, 9):
        commit(machine, index, str(index))
    answer = machine.since(3)
    assert [b.version for b in answer.batches] == [5, 9]
    assert (answer.version, answer.snapshot) == (9, None)
    assert follow(EMPTY_IMAGE, machine.since(0)) == machine.image


def test_followers_that_lack_nothing_get_nothing() -> None:
    machine = MetadataMachine()
    commit(machine, 3, "1")
    assert machine.since(3) == FetchMetadataAnswer(3)
    assert machine.since(9) == FetchMetadataAnswer(9)


def test_a_follower_of_another_past_is_refused() -> None:
    """Versions have gaps; each controllers' log has its own."""
    machine = MetadataMachine()
    commit(machine, 3, "1")
    commit(machine, 5, "2")
    commit(machine, 7, "3")
    (_, told, _) = machine.since(0).batches
    machine.check_past(5, told.checksum)
    machine.check_past(5, UNKNOWN_CHECKSUM)
    for version, checksum in [(5, told.checksum + 1), (4, told.checksum), (6, UNKNOWN_CHECKSUM)]:
        with pytest.raises(InconsistentClusterIdError, match=f"as version {version} "):
            machine.check_past(version, checksum)


def test_a_past_that_is_not_known_any_more_is_taken_for_the_same() -> None:
    before = MetadataMachine()
    commit(before, 5, "2")
    machine = MetadataMachine()
    machine.load(before.dump())
    commit(machine, 7, "3")
    for version in (0, 2, 5, 8):
        machine.check_past(version, 1)
    with pytest.raises(InconsistentClusterIdError):
        machine.check_past(6, 1)


def test_a_follower_that_is_too_far_behind_gets_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "RECENT_BATCHES_MAX", 10)
    machine = MetadataMachine()
    for index in range(1, 31):
        commit(machine, index, str(index))
    assert machine.since(20).snapshot is None
    answer = machine.since(19)
    assert answer.snapshot is not None
    assert answer.version == 30
    assert follow(EMPTY_IMAGE, answer) == machine.image


def test_a_snapshot_is_made_once_for_all_that_are_too_far_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine_module, "RECENT_BATCHES_MAX", 10)
    machine = MetadataMachine()
    for index in range(1, 21):
        commit(machine, index, str(index))
    assert machine.needs_snapshot(9)
    assert not machine.needs_snapshot(10)
    version, frozen = machine.image.version, machine.freeze()
    for index in range(21, 31):
        commit(machine, index, str(index))
    machine.keep(FetchMetadataAnswer(version, (), frozen()))
    assert not machine.needs_snapshot(9)
    answer = machine.since(9)
    assert answer is machine.since(5)
    assert answer.version == 20
    image = follow(follow(EMPTY_IMAGE, answer), machine.since(20))
    assert image == machine.image
    commit(machine, 31, "31")
    assert machine.needs_snapshot(9), "what is kept is too old by now"
    assert machine.since(9).version == 31


def test_memory_for_batches_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "RECENT_BYTES_MAX", 100_000)
    machine = MetadataMachine()
    for index in range(1, 31):
        commit(machine, index, "x" * 10_000)
    assert len(machine._recent) < 10
    assert machine.since(1).snapshot is not None


def test_a_long_way_to_catch_up_goes_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "ANSWER_BYTES_TARGET", 100)
    machine = MetadataMachine()
    for index in range(1, 31):
        commit(machine, index, "x")
    image, steps = EMPTY_IMAGE, 0
    while image.version < 30:
        image = follow(image, machine.since(image.version))
        steps += 1
    assert image == machine.image
    assert steps > 3


def test_a_dumped_state_can_be_loaded() -> None:
    machine, other = MetadataMachine(), MetadataMachine()
    commit(machine, 3, "1")
    other.load(machine.dump())
    assert other.image == machine.image
    assert other.dump() == machine.dump()
    assert other.since(2).snapshot is not None
    commit(other, 4, "2")
    assert [b.version for b in other.since(3).batches] == [4]
