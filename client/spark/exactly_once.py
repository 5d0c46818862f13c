"""Writes micro-batches exactly once: transactions of tasks, ended by the driver as one decides.

The driver calls :meth:`ExactlyOnce.recover` before the tasks of a micro-batch, each task
:meth:`ExactlyOnce.begin`, the driver :meth:`ExactlyOnce.commit` or :meth:`ExactlyOnce.abort`. What
is kept in the cluster meanwhile, and why, stands in :mod:`quorate.client.spark.two_phase`.

Transactions go by version 1 (KIP-98), with brokers of any age: as every attempt of a task asks for
an epoch of its own, each epoch has one transaction, which is what version 2 (KIP-890) is for; and
asked to commit again under the same epoch, a coordinator still says that it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quorate.client.groups.offsets import (
    BY_NAME_MAX,
    commit_codes,
    commit_request,
    fetch_codes,
    fetch_request,
    fetched_offsets,
)
from quorate.client.membership.identity import GroupMetadata
from quorate.client.sending.accumulator import ProducerIdentity
from quorate.client.spark.coordinating import GROUP_KEY, TRANSACTION_KEY, Coordinators
from quorate.client.spark.two_phase import (
    KEEPER_TOPIC,
    Decision,
    LostTransactionError,
    OpenTransaction,
    Place,
    Standing,
    decided,
    decision_from,
    decision_group,
    is_gone,
    is_marked,
    mark_key,
    mark_of,
    pieces_of,
    transactional_id,
)
from quorate.client.transactions.requests import (
    ADD_PARTITIONS_VERSION_MAX,
    END_VERSION_MAX_V1,
    OFFSETS_VERSION_MAX_V1,
    add_offsets_request,
    add_partitions_request,
    added_codes,
    end_request,
    init_request,
    offset_codes,
    offsets_request,
    worst_of,
)
from quorate.errors import MEANINGS, ErrorCode, KafkaError, known_code
from quorate.protocol.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from quorate.client.groups.results import OffsetAndMetadata
    from quorate.client.spark.cluster import Cluster
    from quorate.client.spark.write_options import WriteOptions
    from quorate.model import TopicPartition
    from quorate.protocol.messages.transactions import InitProducerIdResponse


class ExactlyOnce:
    """The sink of one ``kafka.transactional.id``."""

    def __init__(self, cluster: Cluster, options: WriteOptions) -> None:
        assert options.transactional_id is not None
        self._cluster = cluster
        self._prefix = options.transactional_id
        self._timeout_ms = options.transaction_timeout_ms
        patience_ms = options.delivery_timeout_ms
        self.transactions = Coordinators(cluster, TRANSACTION_KEY, patience_ms)
        self.groups = Coordinators(cluster, GROUP_KEY, patience_ms)

    # The driver

    def recover(self) -> Decision | None:
        """Carry out what was decided and perhaps not finished; return it, None if there is none.

        Raises:
            KafkaError: It cannot be found out, or not be carried out.
        """
        decision = decision_from(self._offsets(decision_group(self._prefix)))
        if decision is None or decision.standing is not Standing.DECIDED:
            return decision
        return self._carry_out(decision)[0]

    def commit(self, transactions: Sequence[OpenTransaction]) -> None:
        """Commit the transactions of a micro-batch; once this is decided, nothing undoes it.

        Raises:
            LostTransactionError: One was over already; what it had written does not count.
            KafkaError: It cannot be found out whether all are committed: :meth:`recover` tells.
        """
        if not transactions:
            return
        decision = decided(transactions)
        self._keep(decision)
        _, lost = self._carry_out(decision)
        if lost:
            names = ", ".join(transactional_id(self._prefix, each.place.slot) for each in lost)
            raise LostTransactionError(
                f"micro-batch {decision.batch}: the transactions of {names} were over before they"
                f" could be committed: they took longer than {self._timeout_ms} ms"
                " (kafka.transaction.timeout.ms), or another query has the same"
                " kafka.transactional.id. Start the query again: it writes what is missing"
            )

    def abort(self, query: str, batch: int, transactions: Iterable[OpenTransaction]) -> None:
        """Abort what tasks have left open, unless it was decided to commit it.

        Raises:
            KafkaError: It cannot be found out, or not be done.
        """
        decision = decision_from(self._offsets(decision_group(self._prefix)))
        if decision is not None and decision.is_about(query, batch):
            # A repetition of the micro-batch may have left others than those it was decided about.
            named = set(decision.transactions)
            transactions = [each for each in transactions if each not in named]
        self._end(tuple(transactions), committed=False)

    def _carry_out(self, decision: Decision) -> tuple[Decision, list[OpenTransaction]]:
        """Commit what is open, and return what has become of it, with what is lost."""
        gone = self._end(decision.transactions, committed=True)
        lost = [each for each in gone if not self.is_written(each.place)]
        settled = decision.settled(Standing.PARTLY if lost else Standing.DONE)
        self._keep(settled)
        return settled, lost

    def _end(
        self, transactions: Sequence[OpenTransaction], *, committed: bool
    ) -> list[OpenTransaction]:
        """End transactions, and return those that were over before."""
        by_id = {transactional_id(self._prefix, each.place.slot): each for each in transactions}
        requests = {
            key: end_request(key, _identity(each), committed=committed)
            for key, each in by_id.items()
        }
        answers = self.transactions.ask_all(
            requests, ApiKey.END_TXN, _code, version_max=END_VERSION_MAX_V1
        )
        gone: list[OpenTransaction] = []
        for key, answer in answers.items():
            code = known_code(answer.error_code)
            if is_gone(code):
                gone.append(by_id[key])
            else:
                _check(code, f"transactional id {key!r}")
        return gone

    def _keep(self, decision: Decision) -> None:
        group = decision_group(self._prefix)
        request = commit_request(group, pieces_of(decision, self._width()))
        answer = self.groups.ask(
            group,
            ApiKey.OFFSET_COMMIT,
            request,
            lambda told: commit_codes(told).values(),
            version_max=BY_NAME_MAX,
        )
        code = worst_of(map(known_code, commit_codes(answer).values()))
        _check(code, f"offsets of group {group!r}")

    # Tasks

    def begin(self, place: Place) -> TaskTransaction | None:
        """Begin to write what belongs to a place; None if its rows are committed already.

        Whoever else wanted to write it can commit no more: an attempt that Spark has given up, or
        a driver that is believed dead.

        Raises:
            KafkaError: It cannot be done.
        """
        key = transactional_id(self._prefix, place.slot)
        answer: InitProducerIdResponse = self.transactions.ask(
            key, ApiKey.INIT_PRODUCER_ID, init_request(key, self._timeout_ms, None), _code
        )
        code = known_code(answer.error_code)
        if code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise KafkaError(
                f"kafka.transaction.timeout.ms is {self._timeout_ms}, which is more than"
                " transaction.max.timeout.ms of the broker",
                code=code,
            )
        _check(code, f"transactional id {key!r}")
        if self.is_written(place):
            return None
        opened = OpenTransaction(place, answer.producer_id, answer.producer_epoch)
        group, partition = mark_key(self._prefix, place.slot, self._width())
        return TaskTransaction(self, key, opened, GroupMetadata(group), partition)

    def is_written(self, place: Place) -> bool:
        """Whether the mark of a slot says that its rows are committed.

        Raises:
            KafkaError: It cannot be found out.
        """
        group, partition = mark_key(self._prefix, place.slot, self._width())
        return is_marked(self._offsets(group, [partition]).get(partition), place)

    # Offsets

    def _width(self) -> int:
        count = self._cluster.view.partition_count(KEEPER_TOPIC)
        if count is None:
            self.groups.find(decision_group(self._prefix))  # which creates it
            count = len(self._cluster.topics([KEEPER_TOPIC])[KEEPER_TOPIC].partitions)
        return count

    def _offsets(
        self, group: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what a group has committed; nothing that a transaction still has open."""
        request = fetch_request(group, partitions, require_stable=True)
        answer = self.groups.ask(
            group, ApiKey.OFFSET_FETCH, request, fetch_codes, version_max=BY_NAME_MAX
        )
        _check(worst_of(map(known_code, fetch_codes(answer))), f"offsets of group {group!r}")
        return fetched_offsets(answer)


class TaskTransaction:
    """What one attempt of a task writes in, and leaves open."""

    def __init__(
        self,
        sink: ExactlyOnce,
        transactional_id: str,
        opened: OpenTransaction,
        group: GroupMetadata,
        mark_at: TopicPartition,
    ) -> None:
        self.transactional_id = transactional_id
        self.identity = opened.producer_id, opened.producer_epoch
        self._sink = sink
        self._opened = opened
        self._group = group
        self._mark_at = mark_at
        self._admitted: set[TopicPartition] = set()

    def admit(self, partitions: Collection[TopicPartition]) -> None:
        """Have partitions take part, before anything is written to them.

        Raises:
            KafkaError: They may not.
        """
        new = set(partitions) - self._admitted
        if new:
            request = add_partitions_request(self.transactional_id, _identity(self._opened), new)
            answer = self._ask(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                request,
                lambda told: added_codes(told).values(),
                version_max=ADD_PARTITIONS_VERSION_MAX,
            )
            _check(worst_of(added_codes(answer).values()), self._name)
            self._admitted |= new

    def leave(self) -> OpenTransaction:
        """Mark the slot as written, and leave the transaction open for the driver.

        Raises:
            KafkaError: It is over, for example because it took too long.
        """
        group = self._group.group_id
        identity = _identity(self._opened)
        request = add_offsets_request(self.transactional_id, identity, group)
        answer = self._ask(ApiKey.ADD_OFFSETS_TO_TXN, request, _code)
        _check(known_code(answer.error_code), self._name)
        mark: Mapping[TopicPartition, OffsetAndMetadata] = {
            self._mark_at: mark_of(self._opened.place)
        }
        marked = self._sink.groups.ask(
            group,
            ApiKey.TXN_OFFSET_COMMIT,
            offsets_request(self.transactional_id, identity, self._group, mark),
            lambda told: offset_codes(told).values(),
            version_max=OFFSETS_VERSION_MAX_V1,
        )
        _check(worst_of(offset_codes(marked).values()), f"offsets of group {group!r}")
        return self._opened

    @property
    def _name(self) -> str:
        return f"transactional id {self.transactional_id!r}"

    def _ask(
        self,
        api_key: int,
        request: Any,
        codes: Callable[[Any], Iterable[int]],
        version_max: int | None = None,
    ) -> Any:
        return self._sink.transactions.ask(
            self.transactional_id, api_key, request, codes, version_max=version_max
        )


def _identity(opened: OpenTransaction) -> ProducerIdentity:
    return ProducerIdentity(opened.producer_id, opened.producer_epoch)


def _code(answer: Any) -> tuple[int]:
    return (answer.error_code,)


def _check(code: ErrorCode, what: str) -> None:
    if code != ErrorCode.NONE:
        raise KafkaError(f"{what}: {MEANINGS[code]}", code=code)
