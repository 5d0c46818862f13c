"""What a transactional producer asks its coordinator, as values; and that it never gets stuck."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.client.sending.accumulator import ProducerIdentity
from quorate.client.transactions.machine import Step, TransactionMachine
from quorate.client.transactions.states import TRANSITIONS, Event, State
from quorate.client.transactions.verdicts import Verdict
from quorate.errors import ErrorCode, KafkaError
from quorate.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
FIRST, SECOND = ProducerIdentity(7, 0), ProducerIdentity(7, 1)
ERROR = KafkaError("refused", code=ErrorCode.INVALID_RECORD)
VERSIONS = pytest.mark.parametrize("version", [1, 2])


def opened(version: int) -> TransactionMachine:
    machine = TransactionMachine()
    machine.identified(FIRST)
    machine.begin(version=version)
    return machine


def test_every_state_but_the_failed_one_can_be_left_and_all_can_fail() -> None:
    assert {state for state, _ in TRANSITIONS} == set(State)
    assert all(TRANSITIONS[state, Event.FAIL] is State.FAILED for state in State)


def test_what_the_table_does_not_have_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="BEGIN"):
        TransactionMachine().begin(version=1)


def test_in_version_1_a_partition_is_announced_before_anything_is_written() -> None:
    machine = opened(1)
    assert not machine.admits(A)
    assert not machine.admits(B)
    assert machine.wanted == {A, B}
    machine.announced({A})
    assert machine.admits(A)
    assert machine.wanted == {B}


def test_in_version_2_writing_announces() -> None:
    machine = opened(2)
    assert machine.admits(A)
    assert machine.partitions == set()
    machine.writing(A)
    assert machine.partitions == {A}


@VERSIONS
def test_what_was_written_is_committed_with_one_request(version: int) -> None:
    machine = opened(version)
    machine.writing(A)
    machine.on(Event.COMMIT)
    assert machine.next_step() is Step.COMMIT
    assert machine.next_step() is Step.COMMIT  # until there is an answer
    machine.ended(SECOND if version == 2 else None)
    assert machine.next_step() is None
    assert machine.state is State.READY
    assert machine.identity == (SECOND if version == 2 else FIRST)
    assert machine.partitions == set()


@VERSIONS
@pytest.mark.parametrize("event", [Event.COMMIT, Event.ABORT])
def test_nothing_needs_no_end(version: int, event: Event) -> None:
    machine = opened(version)
    assert machine.admits(A) is (version == 2)
    if event is Event.ABORT:
        machine.abort()
    else:
        machine.on(event)
    assert machine.next_step() is None
    assert machine.state is State.READY
    assert machine.wanted == set()


def test_offsets_alone_are_something() -> None:
    machine = opened(2)
    machine.groups.add("g")
    machine.on(Event.COMMIT)
    assert machine.next_step() is Step.COMMIT


def test_an_abort_of_version_1_asks_for_another_epoch() -> None:
    machine = opened(1)
    machine.announcing()
    machine.abort()
    assert machine.next_step() is Step.ABORT
    machine.ended(None)
    assert machine.next_step() is Step.RENEW
    machine.renewed(SECOND)
    assert machine.next_step() is None
    assert machine.identity == SECOND


def test_an_abort_of_version_2_brings_one() -> None:
    machine = opened(2)
    machine.writing(A)
    machine.spoil(ERROR, Verdict.ABORT)
    assert machine.state is State.SPOILED
    assert machine.reason is ERROR
    machine.abort()
    assert machine.next_step() is Step.ABORT
    machine.ended(SECOND)
    assert machine.next_step() is None
    assert machine.reason is None


def test_who_is_not_known_any_more_does_not_end_anything() -> None:
    machine = opened(2)
    machine.writing(A)
    machine.on(Event.COMMIT)
    machine.spoil(ERROR, Verdict.RENEW)
    assert machine.next_step() is None
    machine.abort()
    assert machine.next_step() is Step.RENEW
    machine.renewed(ProducerIdentity(8, 0))
    assert machine.next_step() is None
    assert machine.identity == ProducerIdentity(8, 0)


@pytest.mark.parametrize(
    ("step", "code", "in_doubt", "verdict"),
    [
        (Step.COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS, True, Verdict.RETRY),
        (Step.COMMIT, ErrorCode.PRODUCER_FENCED, False, Verdict.FENCED),
        (Step.COMMIT, ErrorCode.INVALID_TXN_STATE, False, Verdict.FAIL),
        (Step.COMMIT, ErrorCode.TRANSACTION_ABORTABLE, True, Verdict.ABORT),
        (Step.COMMIT, ErrorCode.INVALID_PRODUCER_ID_MAPPING, False, Verdict.RENEW),
        # It was asked before: the epochs may have been used up by that, and another one came then.
        (Step.COMMIT, ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, Verdict.FENCED),
        (Step.ABORT, ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, Verdict.RENEW),
        (Step.ABORT, ErrorCode.TRANSACTION_ABORTABLE, False, Verdict.FAIL),
        (Step.ABORT, ErrorCode.INVALID_TXN_STATE, False, Verdict.FAIL),
        (Step.RENEW, ErrorCode.COORDINATOR_NOT_AVAILABLE, False, Verdict.RETRY),
        (Step.RENEW, ErrorCode.TRANSACTION_ABORTABLE, False, Verdict.FAIL),
        (Step.RENEW, ErrorCode.INVALID_PRODUCER_ID_MAPPING, False, Verdict.FAIL),
    ],
)
def test_what_it_means_that_a_step_is_refused(
    step: Step, code: ErrorCode, in_doubt: bool, verdict: Verdict
) -> None:
    assert opened(2).refused(step, code, in_doubt=in_doubt) is verdict


def test_in_version_1_an_abort_may_find_nothing_open_and_goes_on_to_the_next_epoch() -> None:
    machine = opened(1)
    machine.announcing()
    machine.abort()
    assert machine.next_step() is Step.ABORT
    assert machine.refused(Step.ABORT, ErrorCode.INVALID_TXN_STATE, in_doubt=False) is None
    assert machine.next_step() is Step.RENEW
    machine.renewed(SECOND)
    assert machine.next_step() is None
    assert machine.state is State.READY


def test_the_first_reason_counts() -> None:
    machine = opened(1)
    for each in (ERROR, KafkaError("later")):
        machine.spoil(each, Verdict.ABORT)
    machine.abort()
    machine.spoil(KafkaError("last"), Verdict.ABORT)
    assert machine.reason is ERROR
    machine.fail(KafkaError("fenced"))
    machine.fail(KafkaError("more"))
    assert machine.state is State.FAILED
    assert str(machine.reason).startswith("fenced")
    assert machine.next_step() is None


def test_what_comes_too_late_spoils_nothing() -> None:
    ready, failed = TransactionMachine(), TransactionMachine()
    for machine in (ready, failed):
        machine.identified(FIRST)
    failed.fail(ERROR)
    for machine in (ready, failed):
        machine.spoil(ERROR, Verdict.ABORT)
    assert [ready.state, failed.state] == [State.READY, State.FAILED]


ACTIONS = st.sampled_from(["admit", "announce", "write", "group", "spoil", "renew"])


def act(machine: TransactionMachine, action: str) -> None:
    match action:
        case "admit":
            machine.admits(A)
        case "announce":
            machine.announcing()
            machine.announced(set(machine.wanted))
        case "write":
            machine.writing(B)
        case "group":
            machine.groups.add("g")
        case _:
            machine.spoil(ERROR, Verdict.ABORT if action == "spoil" else Verdict.RENEW)


def end(machine: TransactionMachine) -> list[Step]:
    """Answer all that it asks; return that."""
    asked: list[Step] = []
    while (step := machine.next_step()) is not None:
        asked.append(step)
        assert machine.identity is not None
        following = ProducerIdentity(7, machine.identity.epoch + 1)
        if step is Step.RENEW:
            machine.renewed(following)
        else:
            machine.ended(following if machine.version == 2 else None)
    return asked


@given(
    version=st.sampled_from([1, 2]),
    turns=st.lists(st.tuples(st.lists(ACTIONS, max_size=6), st.booleans()), max_size=5),
)
def test_whatever_happened_a_transaction_ends_and_another_one_can_begin(
    version: int, turns: list[tuple[list[str], bool]]
) -> None:
    machine = TransactionMachine()
    machine.identified(FIRST)
    for actions, commit in turns:
        machine.begin(version=version)
        for action in actions:
            act(machine, action)
        if commit and machine.state is State.OPEN:
            machine.on(Event.COMMIT)
        else:
            machine.abort()
        asked = end(machine)
        assert len(asked) == len(set(asked)) <= 2
        assert machine.state is State.READY
