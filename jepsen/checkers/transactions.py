"""The transaction checker: is each transaction there as a whole or not at all, and once?

An ``init-producer`` asks with ``[transactional id, instance]``: from its end on the instances
before it are fenced. A ``txn`` begins when the commit is asked for, and asks with
``[number, transactional id, instance, begun_ns, [[partition, value, ...note], ...]]``; it is *ok*
if the commit was acknowledged (told the offset of each value, or None), *fail* if no commit was
ever asked for and none will be (it was aborted, or its producer has died), else *info*. A note is

- ``"copy", group, value``: made of that value, which the group consumed in the same transaction;
- ``"balance", bank, account, amount, total``: what the account has now, of the bank's total.

``read`` is the final one, of committed records, and ``read-end`` tells the partitions that it came
to the end of. ``position`` (asked the group, told ``[[partition, offset], ...]``) tells where a
group is, ``balances`` (asked ``[bank, total]``, told ``[[account, amount], ...]``) what the next
owner of a bank found before its first transaction.

That what is read is of a committed transaction, that nothing of it is lost, there twice or at
another place, says the :mod:`log checker <quorate.jepsen.checkers.log>`, which hears of ``txn``.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import Any, Final, NamedTuple

from quorate.dataclass import dataclass
from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.checkers.cycles import shortest_cycles
from quorate.jepsen.history import Kind, Operation

COPY: Final = "copy"
BALANCE: Final = "balance"
NEVER_NS: Final = 1 << 62


class Write(NamedTuple):
    """A record of a transaction."""

    partition: str
    value: int
    note: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Transaction:
    """What is known of one transaction."""

    number: int
    owner: str
    instance: int
    writes: tuple[Write, ...]
    kind: Kind
    called_ns: int
    process: int

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.owner}"


class _Reign(NamedTuple):
    """An instance that has its producer id and epoch: when that was asked for, and told."""

    called_ns: int
    returned_ns: int


@dataclass(slots=True)
class _Bank:
    """What is said of one bank: the last amount of each account, by where that was written."""

    total: int
    amounts: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By account: offset and amount."""


class TransactionChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(self) -> None:
        self._transactions: list[Transaction] = []
        self._reigns: dict[str, dict[int, _Reign]] = defaultdict(dict)
        self._final: dict[int, tuple[str, int]] = {}
        """By value: the partition and the offset at which it was read in the end."""
        self._ended: set[str] = set()
        """Partitions that were read to their end."""
        self._committed: dict[tuple[str, str], int] = {}
        """By group and partition: where it was said to be last."""
        self._opened_ns: dict[str, int] = {}
        """By bank: when it was acknowledged for the first time what some accounts have."""
        self._found = Anomalies()

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        if operation.name == "txn":
            self._add_transaction(operation)
        elif operation.kind is Kind.OK:
            self._add_told(operation)

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        for transaction in self._transactions:
            self._check_whole(transaction)
            self._check_fencing(transaction)
        self._check_copies()
        self._check_banks()
        self._check_cycles()
        return self._found

    @property
    def commits(self) -> int:
        """How many transactions were acknowledged."""
        return sum(each.kind is Kind.OK for each in self._transactions)

    def figures(self) -> dict[str, int | float | str]:
        """Return what is neither right nor wrong."""
        if not self._transactions:
            return {}
        kinds = [each.kind for each in self._transactions]
        unknown = [each for each in self._transactions if each.kind is Kind.INFO]
        return {
            "transactions": len(kinds),
            "committed": kinds.count(Kind.OK),
            "aborted": kinds.count(Kind.FAIL),
            "nobody knows": len(unknown),
            "nobody knows, and read": sum(map(self._is_seen, unknown)),
        }

    # --- as operations end ----------------------------------------------------

    def _add_transaction(self, operation: Operation) -> None:
        number, owner, instance, _, writes = operation.asked
        if operation.kind is Kind.OK and operation.returned_ns is not None:
            for _, _, *note in writes:
                if note[:1] == [BALANCE]:
                    self._opened_ns.setdefault(note[1], operation.returned_ns)
        self._transactions.append(
            Transaction(
                number,
                owner,
                instance,
                tuple(Write(partition, value, tuple(note)) for partition, value, *note in writes),
                operation.kind,
                operation.called_ns,
                operation.process,
            )
        )

    def _add_told(self, operation: Operation) -> None:
        name, asked, told = operation.name, operation.asked, operation.told
        if name == "init-producer":
            owner, instance = asked
            assert operation.returned_ns is not None, "what is known was told"
            reign = _Reign(operation.called_ns, operation.returned_ns)
            self._reigns[owner][instance] = reign
        elif name == "read" and self._transactions:
            for partition, offsets, values, *_ in told:
                for offset, value in zip(offsets, values, strict=True):
                    self._final.setdefault(value, (partition, offset))
        elif name == "read-end":
            self._ended.update(told)
        elif name == "position":
            for partition, offset in told:
                self._committed[asked, partition] = offset
        elif name == "balances":
            self._check_balances(operation)

    def _check_balances(self, operation: Operation) -> None:
        """See that the next owner of a bank finds all that there is, if there is any yet."""
        bank, total = operation.asked
        amounts = [amount for _, amount in operation.told]
        is_open = bool(amounts) or self._opened_ns.get(bank, NEVER_NS) < operation.called_ns
        if is_open and sum(amounts) != total:
            self._found.add(
                "money-changed",
                f"{bank}: its next owner found {sum(amounts)} of {total}",
                f"the accounts have {', '.join(map(str, amounts)) or 'nothing'}",
                processes=(operation.process,),
                at_ns=(operation.called_ns,),
            )

    # --- in the end -----------------------------------------------------------

    def _is_seen(self, transaction: Transaction) -> bool:
        return any(write.value in self._final for write in transaction.writes)

    def _is_committed(self, transaction: Transaction) -> bool:
        """Whether it was said or seen to be committed."""
        return transaction.kind is Kind.OK or self._is_seen(transaction)

    def _check_whole(self, transaction: Transaction) -> None:
        """See that all of a transaction was read in the end, or nothing."""
        missing = [
            write
            for write in transaction.writes
            if write.value not in self._final and write.partition in self._ended
        ]
        there = [write for write in transaction.writes if write.value in self._final]
        if missing and there:
            self._found.add(
                "torn-transaction",
                f"{transaction}: {len(there)} of {len(transaction.writes)} records were read in"
                " the end",
                f"{there[0].value} is in {there[0].partition}",
                f"{missing[0].value} is not in {missing[0].partition}",
                where=missing[0].partition,
                processes=(transaction.process,),
                at_ns=(transaction.called_ns,),
            )

    def _check_fencing(self, transaction: Transaction) -> None:
        """See that nobody's commit is taken that was fenced before it was asked for."""
        reigns = self._reigns.get(transaction.owner, {})
        own = reigns.get(transaction.instance)
        if own is None or not self._is_committed(transaction):
            return
        for instance, reign in reigns.items():
            if reign.called_ns > own.returned_ns and reign.returned_ns < transaction.called_ns:
                how = "acknowledged" if transaction.kind is Kind.OK else "carried out"
                self._found.add(
                    "zombie-transaction",
                    f"{transaction} was {how}, though instance {transaction.instance} had been"
                    f" fenced by instance {instance}",
                    processes=(transaction.process,),
                    at_ns=(reign.returned_ns, transaction.called_ns),
                )
                return

    def _check_copies(self) -> None:
        """See that of each value that a group consumed there is one copy."""
        copies: dict[tuple[str, int], list[int]] = defaultdict(list)
        places: dict[str, set[str]] = defaultdict(set)
        for transaction in self._transactions:
            for write in transaction.writes:
                if write.note[:1] == (COPY,):
                    _, group, source = write.note
                    made = copies[group, source]
                    places[group].add(write.partition)
                    if write.value in self._final:
                        made.append(write.value)
        for (group, source), made in copies.items():
            if len(made) > 1:
                self._found.add(
                    "copied-twice",
                    f"{group}: {source} was copied {len(made)} times",
                    f"the copies are {', '.join(map(str, made))}",
                )
        groups = {group for group, where in places.items() if where <= self._ended}
        self._check_consumed(copies, groups)

    def _check_consumed(
        self, copies: Mapping[tuple[str, int], Sequence[int]], groups: AbstractSet[str]
    ) -> None:
        """Find what is behind a group whose copies were all read, and is not copied."""
        to_copy = {
            (group, partition): offset
            for (group, partition), offset in self._committed.items()
            if group in groups and offset >= 0
        }
        for source, (partition, offset) in self._final.items():
            for group in groups:
                end = to_copy.get((group, partition), 0)
                if offset < end and not copies.get((group, source)):
                    self._found.add(
                        "copy-missing",
                        f"{group}: {source} at {offset} of {partition} was consumed, and there is"
                        " no copy of it",
                        f"the group is at {end}",
                        where=partition,
                        offsets=(offset,),
                    )

    def _check_banks(self) -> None:
        """See that no money came or went, by what was read in the end."""
        banks: dict[str, _Bank] = {}
        touched: dict[str, set[str]] = defaultdict(set)
        for transaction in self._transactions:
            for write in transaction.writes:
                if write.note[:1] != (BALANCE,):
                    continue
                _, name, account, amount, total = write.note
                touched[name].add(write.partition)
                place = self._final.get(write.value)
                if place is not None:
                    bank = banks.setdefault(name, _Bank(total))
                    before = bank.amounts.get(account, (-1, 0))
                    bank.amounts[account] = max(before, (place[1], amount))
        for name, bank in banks.items():
            found = sum(amount for _, amount in bank.amounts.values())
            if found != bank.total and touched[name] <= self._ended:
                self._found.add("money-changed", f"{name}: {found} of {bank.total} is there")

    def _check_cycles(self) -> None:
        """See that no transactions read from each other in a circle."""
        wrote: dict[int, Transaction] = {}
        for transaction in self._transactions:
            wrote.update((write.value, transaction) for write in transaction.writes)
        by_number = {each.number: each for each in self._transactions if self._is_committed(each)}
        reads = {
            number: _sources(each, wrote) & by_number.keys() for number, each in by_number.items()
        }
        for cycle in shortest_cycles(reads):
            names = [str(by_number[number]) for number in cycle]
            self._found.add(
                "write-read-cycle",
                f"{names[0]} read what is made of its own records",
                *(
                    f"{one} read what {other} wrote"
                    for one, other in zip(names, [*names[1:], names[0]], strict=True)
                ),
            )


def _sources(transaction: Transaction, wrote: Mapping[int, Transaction]) -> set[int]:
    """Return the numbers of the transactions whose records one has read."""
    sources: Iterable[int] = (w.note[2] for w in transaction.writes if w.note[:1] == (COPY,))
    return {wrote[source].number for source in sources if source in wrote}
