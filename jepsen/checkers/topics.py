"""The topic checker: do topics come and go as clients were told, and with them their records?

A ``create`` asks for ``[name, partitions]`` and is told the topic's id, None if that was not told,
or ``"exists"``; a ``delete`` asks for the name and is told None or ``"unknown"``; a ``describe``
asks the controllers that lead for the name and is told ``[id, partitions]`` or None. Together a
topic's are the history of a register, which has the topic's id or nothing.

Records of a topic that is deleted, and perhaps created again, are judged here and not by the log
checker: nobody knows which of the topics of one name a record was sent to, but what was
acknowledged before a deletion began was in a topic that this deletion, or one before, took away.
"""

from bisect import bisect_left
from collections import defaultdict
from dataclasses import field
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.jepsen import linearizability as lin
from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.checkers.registers import Histories
from quorate.jepsen.history import Kind, Operation

EXISTS: Final = "exists"
UNKNOWN: Final = "unknown"
SOME_ID: Final = "?"
"""Stands for all ids of topics whose creation nobody heard the end of."""


@dataclass(slots=True)
class _Topic:
    """What is known of a name."""

    operations: list[Operation] = field(default_factory=list[Operation])
    ids: set[str] = field(default_factory=set[str])
    """Those that creations were told."""
    begun_ns: list[int] = field(default_factory=list[int])
    """When deletions that may have been done began."""
    done_ns: list[int] = field(default_factory=list[int])
    """When deletions that were done ended."""
    sends: dict[int, tuple[int, float]] = field(default_factory=dict[int, tuple[int, float]])
    """By value: when its sending began and ended."""
    reads: list[Operation] = field(default_factory=list[Operation])

    def oldest(self, value: int) -> int:
        """Return how many deletions were certainly over when a value was sent."""
        called_ns, _ = self.sends.get(value, (0, 0.0))
        return bisect_left(self.done_ns, called_ns)

    def newest(self, value: int) -> int:
        """Return how many deletions at most can have begun before a value was in the log."""
        _, returned_ns = self.sends.get(value, (0, lin.NEVER))
        return bisect_left(self.begun_ns, returned_ns)


class TopicChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = defaultdict(_Topic)
        self._names: dict[str, str] = {}
        """By id: the name of the topic that had it first."""
        self._found = Anomalies()
        self.histories: Final = Histories("nonlinearizable-topic")

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        name, asked, told = operation.name, operation.asked, operation.told
        if name == "send":
            self._add_send(operation)
        elif operation.kind is Kind.FAIL:
            return
        elif name in {"poll", "read"} and operation.kind is Kind.OK:
            names = {part[0].rpartition("-")[0] for part in told}
            for topic in names & self._topics.keys():
                self._topics[topic].reads.append(operation)
        elif name == "create":
            topic = self._topics[asked[0]]
            topic.operations.append(operation)
            if operation.kind is Kind.OK and told not in {None, EXISTS}:
                self._add_id(asked[0], topic, told)
        elif name == "delete":
            self._add_deletion(operation)
        elif name == "describe" and operation.kind is Kind.OK:
            self._topics[asked].operations.append(operation)

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        for name, topic in self._topics.items():
            topic.begun_ns.sort()
            topic.done_ns.sort()
            for operation in topic.operations:
                self._add_to_history(name, topic, operation)
            if topic.begun_ns:
                self._check_records(name, topic)
        self._found.merge(self.histories.judge())
        return self._found

    # --- as operations end ----------------------------------------------------

    def _add_send(self, operation: Operation) -> None:
        partition, value = operation.asked[:2]
        topic = self._topics.get(partition.rpartition("-")[0])
        if topic is not None:
            returned_ns = operation.returned_ns if operation.kind is Kind.OK else None
            topic.sends[value] = (
                operation.called_ns,
                lin.NEVER if returned_ns is None else returned_ns,
            )

    def _add_id(self, name: str, topic: _Topic, topic_id: str) -> None:
        topic.ids.add(topic_id)
        if topic_id in self._names:
            self._found.add(
                "topic-id-reused",
                f"{name} was created with the id {topic_id}, which {self._names[topic_id]} has had",
                where=name,
            )
        self._names.setdefault(topic_id, name)

    def _add_deletion(self, operation: Operation) -> None:
        topic = self._topics[operation.asked]
        topic.operations.append(operation)
        if operation.told == UNKNOWN:
            return
        topic.begun_ns.append(operation.called_ns)
        if operation.kind is Kind.OK and operation.returned_ns is not None:
            topic.done_ns.append(operation.returned_ns)

    # --- in the end -----------------------------------------------------------

    def _add_to_history(self, name: str, topic: _Topic, operation: Operation) -> None:
        """Add what was done to a topic to the history of its register."""
        told, is_known = operation.told, operation.kind is Kind.OK
        action: lin.Action
        if operation.name == "create":
            topic_id = told if is_known and told not in {None, EXISTS} else SOME_ID
            action = lin.Cas(None, topic_id, told != EXISTS if is_known else None)
        elif operation.name == "delete":
            action = lin.Delete(told != UNKNOWN if is_known else None)
        else:
            action = lin.Get(None if told is None else self._known_id(name, topic, told[0]))
        self.histories.add(name, action, operation)

    def _known_id(self, name: str, topic: _Topic, topic_id: str) -> str:
        if self._names.setdefault(topic_id, name) != name:
            self._found.add(
                "topic-id-reused",
                f"{name} has the id {topic_id}, which {self._names[topic_id]} has had",
                where=name,
            )
        return topic_id if topic_id in topic.ids else SOME_ID

    def _check_records(self, name: str, topic: _Topic) -> None:
        """Find readers who were shown records of a topic after those of its successor.

        Brokers hear of a deletion in their time, so a reader that has seen nothing new yet may
        still be shown what is old; but the final reads may not.
        """
        seen: dict[tuple[int, Any, str], int] = {}
        for operation in topic.reads:
            over = bisect_left(topic.done_ns, operation.called_ns)
            for partition, _, values, *_ in operation.told:
                if partition.rpartition("-")[0] != name or not values:
                    continue
                key = operation.process, str(operation.asked), partition
                newest = over if operation.name == "read" else seen.get(key, 0)
                for value in values:
                    if topic.newest(value) < newest:
                        self._found.add(
                            "predecessor-record",
                            f"{partition} shows {value}, which was in a topic of that name before",
                            where=partition,
                            processes=(operation.process,),
                            at_ns=(operation.called_ns,),
                        )
                    newest = max(newest, topic.oldest(value))
                seen[key] = newest
