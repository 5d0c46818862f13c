"""A consumer group under way while brokers are hurt, and what is wrong with its history."""

from pathlib import Path
from random import Random
from typing import Final

from quorate.jepsen.checkers.groups import GroupChecker
from quorate.jepsen.clients.grouping import Member, Membership
from quorate.jepsen.clients.own_member import OwnMember
from quorate.jepsen.clients.stock_member import StockMember
from quorate.jepsen.history import HistoryReader, Kind, operations
from quorate.jepsen.recorder import Recorder
from quorate.jepsen.workloads.groups import Observer
from quorate.model import TopicPartition

GROUP: Final = "readers"
PROTOCOLS: Final = ("classic", "consumer")
STOCK_MEMBERS: Final = 3
SHOWN_MAX: Final = 5


class ReadingGroup:
    """Members that read one topic together, each for a while, and somebody who watches.

    Stock ones, and one of ours.
    """

    def __init__(
        self, work: Path, bootstrap: str, topic: str, partitions: int, seed: int, protocol: str
    ) -> None:
        self._path = work / "history"
        self._recorder = Recorder(self._path, {"group": GROUP})
        membership = Membership(bootstrap, GROUP, topic, protocol)
        self._members: list[Member] = [
            StockMember(self._recorder, membership, Random(seed + number))
            for number in range(STOCK_MEMBERS)
        ]
        own = OwnMember(self._recorder, membership, Random(seed + STOCK_MEMBERS))
        self._members.append(own)
        places = [TopicPartition(topic, number) for number in range(partitions)]
        self._observer = Observer(self._recorder, bootstrap, GROUP, places)

    @property
    def commits(self) -> int:
        """How many commits were acknowledged."""
        return self._recorder.count("commit", Kind.OK)

    def stop(self) -> None:
        """End all; call it once."""
        for member in self._members:
            member.stop()
        self._observer.stop()
        self._recorder.close()

    def problems(self) -> list[str]:
        """Return what is wrong, once all have stopped."""
        found = [problem for member in self._members for problem in member.errors]
        checker = GroupChecker()
        with self._path.open("rb") as file:
            for operation in operations(HistoryReader(file)):
                checker.add(operation)
        anomalies = checker.finish()
        for name, count in anomalies.counts.items():
            shown = "; ".join(case.what for case in anomalies.cases[name][:SHOWN_MAX])
            found.append(f"{count} times {name}: {shown}")
        return found
