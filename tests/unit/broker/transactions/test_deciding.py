"""What a request makes of a transaction, as Kafka's tables have it."""

from dataclasses import replace
from typing import Any

import pytest

from quorate.broker.transactions.deciding import (
    Fence,
    NeedProducerId,
    ProducerKey,
    Stay,
    Step,
    complete,
    fence,
    is_forgotten,
    is_overdue,
    verify_partitions,
)
from quorate.broker.transactions.transaction import (
    NOTHING,
    PREPARED,
    V0,
    V2,
    TxnState,
)
from quorate.errors import ErrorCode, KafkaError
from quorate.records.batch import PRODUCER_EPOCH_MAX
from tests.unit.broker.transactions.standing import (
    NOW_MS,
    PID,
    T0,
    T1,
    TIMEOUT_MS,
    add,
    end,
    init,
    standing,
    v0,
)

LAST = PRODUCER_EPOCH_MAX - 1
"""The last epoch that a producer may have."""

EMPTY, ONGOING = TxnState.EMPTY, TxnState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT

MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
FENCED = ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
WRONG_STATE = ErrorCode.INVALID_TXN_STATE


def refusal(call: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        call()
    return refused.value.code


def told(call: Any) -> str:
    """Return the state that follows, STAYS, or the error."""
    try:
        outcome = call()
    except KafkaError as error:
        return error.code.name
    if isinstance(outcome, Step):
        return outcome.after.state.name
    return "STAYS" if isinstance(outcome, Stay) else type(outcome).__name__


# --- InitProducerId -----------------------------------------------------------


def test_the_first_producer_of_an_id_needs_a_producer_id_and_gets_epoch_0() -> None:
    assert init(None) is NeedProducerId.NEW
    outcome = init(None, fresh_id=7, timeout_ms=9)
    assert outcome == Step(
        replace(
            standing(EMPTY, 0, producer_id=7, previous_producer_id=7, timeout_ms=9),
            update_ms=NOW_MS,
            version=V0,
        )
    )


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_the_next_producer_gets_the_next_epoch(state: TxnState) -> None:
    outcome = init(standing(state), timeout_ms=9)
    assert isinstance(outcome, Step)
    after = outcome.after
    assert (after.state, after.producer_id, after.producer_epoch) == (EMPTY, PID, 6)
    assert (after.last_producer_epoch, after.timeout_ms, after.update_ms) == (-1, 9, NOW_MS)
    assert (after.partitions, after.start_ms) == (NOTHING, -1)


def test_a_producer_that_names_its_epoch_gets_the_next_one_and_the_same_again() -> None:
    outcome = init(standing(COMPLETE_ABORT), (PID, 5))
    assert isinstance(outcome, Step)
    assert (outcome.after.producer_epoch, outcome.after.last_producer_epoch) == (6, 5)
    assert init(outcome.after, (PID, 5)) == Stay(outcome.after)


@pytest.mark.parametrize("expected", [(PID, 4), (PID, 6), (PID + 1, 5), (PID + 1, LAST)])
@pytest.mark.parametrize("state", [EMPTY, ONGOING, COMPLETE_COMMIT])
def test_a_producer_that_is_not_the_newest_is_fenced(
    state: TxnState, expected: tuple[int, int]
) -> None:
    assert refusal(lambda: init(standing(state), expected)) == FENCED


@pytest.mark.parametrize("expected", [None, (PID, 5)])
@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_while_a_transaction_ends_nobody_begins(state: TxnState, expected: Any) -> None:
    assert refusal(lambda: init(standing(state), expected)) == CONCURRENT


@pytest.mark.parametrize(("expected", "epoch"), [(None, 7), ((PID, 5), 6)])
def test_a_new_producer_aborts_what_is_under_way_two_epochs_later(
    expected: tuple[int, int] | None, epoch: int
) -> None:
    outcome = init(standing(ONGOING), expected)
    assert isinstance(outcome, Fence)
    after = outcome.after
    assert (after.state, after.producer_epoch, after.version) == (PREPARE_ABORT, epoch, V2)
    assert after.partitions == {T0}


def test_a_producer_that_asks_for_another_epoch_in_its_transaction_gets_it_after_the_abort() -> (
    None
):
    outcome = init(standing(ONGOING), (PID, 5))
    assert isinstance(outcome, Fence)
    ended = complete(outcome.after, NOW_MS)
    begun = init(ended, (PID, 5), timeout_ms=9)
    assert isinstance(begun, Step)
    assert begun == Step(replace(ended, state=EMPTY, start_ms=-1, timeout_ms=9))
    assert begun.after.producer_epoch == 6
    assert init(begun.after, (PID, 5), timeout_ms=9) == Stay(begun.after)
    last = init(standing(ONGOING, LAST), (PID, LAST))
    assert isinstance(last, Fence)
    # There is none left that a producer might have.
    assert refusal(lambda: init(complete(last.after, NOW_MS), (PID, LAST))) == FENCED


def test_after_the_last_epoch_comes_another_producer_id() -> None:
    for epoch in (LAST, PRODUCER_EPOCH_MAX):
        before = standing(COMPLETE_COMMIT, epoch)
        assert init(before) is NeedProducerId.NEW
        outcome = init(before, fresh_id=9)
        assert isinstance(outcome, Step)
        after = outcome.after
        assert (after.producer_id, after.producer_epoch, after.last_producer_epoch) == (9, 0, -1)
        assert after.previous_producer_id == PID


def test_who_hears_of_the_other_producer_id_may_ask_again() -> None:
    outcome = init(standing(EMPTY, LAST), (PID, LAST), fresh_id=9)
    assert isinstance(outcome, Step)
    assert init(outcome.after, (PID, LAST)) == Stay(outcome.after)
    for earlier in (0, LAST - 1):
        assert refusal(lambda epoch=earlier: init(outcome.after, (PID, epoch))) == FENCED


# --- fencing ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "fenced"),
    [(5, 7), *((epoch, PRODUCER_EPOCH_MAX) for epoch in (LAST - 1, LAST, PRODUCER_EPOCH_MAX))],
)
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [V0, V2])
def test_a_fenced_producer_can_never_end_anything(
    epoch: int, fenced: int, commit: bool, version: int
) -> None:
    aborting = fence(standing(ONGOING, epoch), NOW_MS)
    assert aborting.producer_epoch == fenced
    for state in (aborting, complete(aborting, NOW_MS)):
        asked = lambda state=state: end(state, commit=commit, epoch=epoch, version=version)  # noqa: E731
        is_busy = version == V2 and state is aborting
        assert refusal(asked) == (CONCURRENT if is_busy else FENCED)


@pytest.mark.parametrize("epoch", [LAST - 1, LAST, PRODUCER_EPOCH_MAX])
def test_the_epoch_that_is_left_behind_the_last_producer_is_told_to_nobody(epoch: int) -> None:
    ended = complete(fence(standing(ONGOING, epoch), NOW_MS), NOW_MS)
    assert (ended.producer_epoch, ended.last_producer_epoch) == (PRODUCER_EPOCH_MAX, -1)
    assert init(ended) is NeedProducerId.NEW
    for guess in (LAST - 1, LAST):
        assert refusal(lambda e=guess: init(ended, (PID, e))) == FENCED
        assert refusal(lambda e=guess: end(ended, commit=False, epoch=e)) == FENCED


@pytest.mark.parametrize("state", [EMPTY, ONGOING, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_who_names_the_last_epoch_is_fenced_for_nobody_was_ever_given_it(state: TxnState) -> None:
    before = standing(state, PRODUCER_EPOCH_MAX)
    key = ProducerKey(PID, PRODUCER_EPOCH_MAX)
    assert refusal(lambda: verify_partitions(before, key, frozenset({T0}))) == FENCED
    for version in (V0, V2):
        assert refusal(lambda v=version: add(before, epoch=key[1], version=v)) == FENCED
        for commit in (True, False):
            asked = lambda v=version, c=commit: end(before, epoch=key[1], version=v, commit=c)  # noqa: E731
            assert refusal(asked) == FENCED


# --- AddPartitionsToTxn -------------------------------------------------------


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_the_first_partition_begins_a_transaction(state: TxnState) -> None:
    outcome = add(standing(state), T0, version=V0)
    assert isinstance(outcome, Step)
    after = outcome.after
    assert (after.state, after.partitions, after.version) == (ONGOING, frozenset({T0}), V0)
    assert (after.start_ms, after.update_ms) == (NOW_MS, NOW_MS)


def test_more_partitions_join_it() -> None:
    before = standing(ONGOING)
    outcome = add(before, T1)
    assert isinstance(outcome, Step)
    assert outcome.after.partitions == {T0, T1}
    assert outcome.after.start_ms == before.start_ms
    assert add(outcome.after, T0, T1) == Stay(outcome.after)
    assert add(outcome.after, T1) == Stay(outcome.after)


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_none_joins_while_it_ends(state: TxnState) -> None:
    assert refusal(lambda: add(standing(state), T0)) == CONCURRENT


def test_of_others_none_joins() -> None:
    assert refusal(lambda: add(None)) == MAPPING
    assert refusal(lambda: add(standing(ONGOING), producer_id=PID + 1)) == MAPPING
    assert refusal(lambda: add(standing(ONGOING), epoch=4)) == FENCED
    assert refusal(lambda: add(standing(ONGOING), epoch=6)) == FENCED


def test_verifying_tells_which_partitions_take_part() -> None:
    asked = frozenset({T0, T1})
    for state in (ONGOING, COMPLETE_COMMIT):
        taking = {T0} if state is ONGOING else set[Any]()
        codes = verify_partitions(standing(state), ProducerKey(PID, 5), asked)
        assert codes == {
            p: ErrorCode.NONE if p in taking else ErrorCode.TRANSACTION_ABORTABLE for p in asked
        }


def test_verifying_changes_nothing_and_refuses_the_same() -> None:
    asked = frozenset({T0})
    for before, key, code in [
        (None, ProducerKey(PID, 5), MAPPING),
        (standing(ONGOING), ProducerKey(PID + 1, 5), MAPPING),
        (standing(ONGOING), ProducerKey(PID, 4), FENCED),
        (standing(PREPARE_COMMIT), ProducerKey(PID, 5), CONCURRENT),
    ]:
        assert refusal(lambda b=before, k=key: verify_partitions(b, k, asked)) == code


# --- EndTxn -------------------------------------------------------------------

ABORTS, COMMITS = "ABORTS", "COMMITS"


@pytest.mark.parametrize(
    ("state", "abort", "commit"),
    [
        (EMPTY, WRONG_STATE.name, WRONG_STATE.name),
        (ONGOING, "PREPARE_ABORT", "PREPARE_COMMIT"),
        (PREPARE_COMMIT, CONCURRENT.name, CONCURRENT.name),
        (PREPARE_ABORT, CONCURRENT.name, CONCURRENT.name),
        (COMPLETE_COMMIT, WRONG_STATE.name, "STAYS"),
        (COMPLETE_ABORT, "STAYS", WRONG_STATE.name),
    ],
)
def test_ends_in_the_way_of_version_0(state: TxnState, abort: str, commit: str) -> None:
    before = v0(standing(state))
    assert told(lambda: end(before, commit=False, version=V0)) == abort
    assert told(lambda: end(before, commit=True, version=V0)) == commit
    for epoch in (4, 6):
        assert told(lambda e=epoch: end(before, epoch=e, version=V0)) == FENCED.name


@pytest.mark.parametrize(
    ("state", "epoch", "abort", "commit"),
    # The table in Kafka's TransactionCoordinator; "retry" is one epoch before the current one.
    # While the end is under way, nobody's epoch is looked at (KAFKA-18464).
    [
        (EMPTY, 5, "PREPARE_ABORT", WRONG_STATE.name),
        (EMPTY, 4, FENCED.name, FENCED.name),
        (ONGOING, 5, "PREPARE_ABORT", "PREPARE_COMMIT"),
        (ONGOING, 4, FENCED.name, FENCED.name),
        (PREPARE_COMMIT, 5, CONCURRENT.name, CONCURRENT.name),
        (PREPARE_COMMIT, 4, CONCURRENT.name, CONCURRENT.name),
        (PREPARE_ABORT, 5, CONCURRENT.name, CONCURRENT.name),
        (PREPARE_ABORT, 4, CONCURRENT.name, CONCURRENT.name),
        (COMPLETE_COMMIT, 5, "PREPARE_ABORT", WRONG_STATE.name),
        (COMPLETE_COMMIT, 4, WRONG_STATE.name, "STAYS"),
        (COMPLETE_ABORT, 5, "PREPARE_ABORT", WRONG_STATE.name),
        (COMPLETE_ABORT, 4, "STAYS", WRONG_STATE.name),
    ],
)
def test_ends_in_the_way_of_version_2(state: TxnState, epoch: int, abort: str, commit: str) -> None:
    before = standing(state)
    assert told(lambda: end(before, commit=False, epoch=epoch)) == abort
    assert told(lambda: end(before, commit=True, epoch=epoch)) == commit
    for other in (3, 6):
        expected = CONCURRENT if state in PREPARED else FENCED
        assert told(lambda e=other: end(before, epoch=e)) == expected.name


def test_nothing_ends_for_others() -> None:
    assert refusal(lambda: end(None)) == MAPPING
    for version in (V0, V2):
        asked = lambda v=version: end(standing(ONGOING), producer_id=PID + 1, version=v)  # noqa: E731
        assert refusal(asked) == MAPPING


@pytest.mark.parametrize(("version", "epoch", "last"), [(V0, 5, -1), (V2, 6, 5)])
def test_the_end_keeps_all_and_begins_the_next_epoch_from_version_2_on(
    version: int, epoch: int, last: int
) -> None:
    before = standing(ONGOING)
    outcome = end(before, version=version)
    assert isinstance(outcome, Step)
    prepared = outcome.after
    assert (prepared.producer_epoch, prepared.last_producer_epoch) == (epoch, last)
    assert (prepared.partitions, prepared.start_ms) == (frozenset({T0}), before.start_ms)
    ended = complete(prepared, NOW_MS + 1)
    assert (ended.state, ended.partitions, ended.update_ms) == (
        COMPLETE_COMMIT,
        NOTHING,
        NOW_MS + 1,
    )
    assert (ended.producer_id, ended.producer_epoch) == (PID, epoch)


def test_an_abort_without_a_transaction_has_a_time() -> None:
    outcome = end(standing(EMPTY), commit=False)
    assert isinstance(outcome, Step)
    assert (outcome.after.start_ms, outcome.after.partitions) == (NOW_MS, NOTHING)


def test_the_end_that_uses_up_the_epochs_brings_another_producer_id() -> None:
    before = standing(ONGOING, LAST)
    assert end(before, epoch=LAST) is NeedProducerId.NEW
    outcome = end(before, epoch=LAST, fresh_id=9)
    assert isinstance(outcome, Step)
    prepared = outcome.after
    assert (prepared.producer_id, prepared.producer_epoch) == (PID, PRODUCER_EPOCH_MAX)
    assert prepared.next_producer_id == 9
    ended = complete(prepared, NOW_MS)
    assert (ended.producer_id, ended.producer_epoch, ended.next_producer_id) == (9, 0, -1)
    assert end(ended, epoch=LAST) == Stay(ended)
    assert refusal(lambda: end(ended, epoch=LAST, commit=False)) == WRONG_STATE
    assert refusal(lambda: end(ended, epoch=LAST - 1)) == MAPPING


def test_who_has_another_producer_id_already_waits_for_the_end_that_brings_it() -> None:
    outcome = end(standing(ONGOING, LAST), epoch=LAST, fresh_id=9)
    assert isinstance(outcome, Step)
    prepared = outcome.after
    assert refusal(lambda: add(prepared, epoch=0, producer_id=9)) == CONCURRENT
    assert refusal(lambda: end(prepared, epoch=0, producer_id=9, commit=False)) == CONCURRENT
    assert refusal(lambda: init(prepared, (9, 0))) == CONCURRENT
    assert isinstance(add(complete(prepared, NOW_MS), epoch=0, producer_id=9), Step)


def test_in_version_0_the_last_epoch_stays() -> None:
    outcome = end(standing(ONGOING, LAST), epoch=LAST, version=V0)
    assert isinstance(outcome, Step)
    assert complete(outcome.after, NOW_MS).producer_epoch == LAST


# --- the clock ----------------------------------------------------------------


def test_only_a_transaction_under_way_may_take_too_long() -> None:
    before = standing(ONGOING, start_ms=NOW_MS)
    assert not is_overdue(before, NOW_MS + TIMEOUT_MS)
    assert is_overdue(before, NOW_MS + TIMEOUT_MS + 1)
    late = NOW_MS + TIMEOUT_MS * 2
    others = [state for state in TxnState if state is not ONGOING]
    assert not any(is_overdue(standing(state), late) for state in others)


@pytest.mark.parametrize("state", list(TxnState))
def test_an_id_without_a_transaction_may_be_forgotten(state: TxnState) -> None:
    idle = state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
    before = standing(state, update_ms=NOW_MS)
    assert is_forgotten(before, NOW_MS + 1000, 1000) is idle
    assert not is_forgotten(before, NOW_MS + 999, 1000)
