"""Figures of ``quorate bench``: percentiles, records that went round, and the tables of both."""

import statistics
from collections.abc import Sequence
from dataclasses import field
from typing import Final

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.tools.output import Column, Table

MEBIBYTE: Final = 1 << 20
RUN_BYTES: Final = 8
NUMBER_BYTES: Final = 8
VALUE_BYTES_MIN: Final = RUN_BYTES + NUMBER_BYTES
"""A record that goes round says of which run it is, and which one."""


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return a percentile to a tenth of a percent; None of nothing."""
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(values, n=1000, method="inclusive")[round(percent * 10) - 1]


def rounded(value: float | None) -> float | None:
    """Return milliseconds and the like as they are shown."""
    return None if value is None else round(value, 2)


# --- consume ------------------------------------------------------------------


@dataclass(slots=True)
class Consumed:
    """What was read.

    Attributes:
        join_ms: until the group had assigned partitions; None without a group.
        seconds: from then to the last record.
        bytes: of keys and values.
    """

    mode: str
    join_ms: float | None = None
    seconds: float = 0.0
    records: int = 0
    bytes: int = 0


def consume_table(consumed: Consumed) -> Table:
    """Return what was read as a row."""
    columns = (
        Column("mode"), Column("records"), Column("records_per_s"), Column("mib_per_s"),
        Column("mib"), Column("seconds"), Column("join_ms"),
    )  # fmt: skip
    mib, seconds = consumed.bytes / MEBIBYTE, consumed.seconds
    row = (
        consumed.mode, consumed.records,
        round(consumed.records / seconds) if seconds else None,
        rounded(mib / seconds) if seconds else None,
        rounded(mib), round(seconds, 3), rounded(consumed.join_ms),
    )  # fmt: skip
    return Table("bench_consume", columns, (row,))


# --- end to end ---------------------------------------------------------------


@dataclass(slots=True)
class RoundTrips:
    """Owns the times of records that are sent and read again, all in seconds of one clock.

    Invariant: ``under_way`` has those that were sent and have not come back.

    Attributes:
        run: eight bytes with which the values of this run begin, so that others' are let alone.
        failure: why a record was not taken; the first one.
    """

    run: bytes
    under_way: dict[int, float] = field(default_factory=dict[int, float])
    acknowledged_ms: list[float] = field(default_factory=list[float])
    read_ms: list[float] = field(default_factory=list[float])
    failure: QuorateError | None = None

    def value(self, number: int, size: int) -> bytes:
        """Return the value of a record."""
        return (self.run + number.to_bytes(NUMBER_BYTES, "big")).ljust(size, b"x")

    def send(self, number: int, due_s: float) -> None:
        """Note a record as sent when it was due, whenever there was time for it."""
        self.under_way[number] = due_s

    def acknowledge(self, due_s: float, now_s: float, error: QuorateError | None) -> None:
        """Note the outcome of sending a record."""
        if error is None:
            self.acknowledged_ms.append(1e3 * (now_s - due_s))
        else:
            self.failure = self.failure or error

    def read(self, value: bytes | None, now_s: float) -> None:
        """Note that a record came; others', and those that came already, are none of ours."""
        if value is None or value[:RUN_BYTES] != self.run:
            return
        due_s = self.under_way.pop(int.from_bytes(value[RUN_BYTES:VALUE_BYTES_MIN], "big"), None)
        if due_s is not None:
            self.read_ms.append(1e3 * (now_s - due_s))

    def begin_anew(self) -> None:
        """Forget the times so far: those of records that were to warm up."""
        self.acknowledged_ms.clear()
        self.read_ms.clear()


def round_trips_table(trips: RoundTrips, seconds: float) -> Table:
    """Return how soon records were acknowledged, and how soon they were read."""
    columns = (
        Column("until"), Column("records"), Column("records_per_s"), Column("mean_ms"),
        Column("p50_ms"), Column("p95_ms"), Column("p99_ms"), Column("p999_ms"), Column("max_ms"),
    )  # fmt: skip
    rows = tuple(
        (
            until, len(took_ms), rounded(len(took_ms) / seconds),
            rounded(statistics.fmean(took_ms)) if took_ms else None,
            *(rounded(percentile(took_ms, percent)) for percent in (50, 95, 99, 99.9)),
            rounded(max(took_ms, default=None)),
        )
        for until, took_ms in (("acknowledged", trips.acknowledged_ms), ("read", trips.read_ms))
    )  # fmt: skip
    return Table("bench_e2e", columns, rows)


# --- metadata -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Requests:
    """What requests of a kind took."""

    what: str
    seconds: float
    took_ms: Sequence[float]


def requests_table(measured: Sequence[Requests]) -> Table:
    """Return a row for each kind of request."""
    columns = (
        Column("request"), Column("requests"), Column("requests_per_s"),
        Column("p50_ms"), Column("p99_ms"), Column("max_ms"),
    )  # fmt: skip
    rows = tuple(
        (
            m.what, len(m.took_ms), rounded(len(m.took_ms) / m.seconds),
            rounded(percentile(m.took_ms, 50)), rounded(percentile(m.took_ms, 99)),
            rounded(max(m.took_ms, default=None)),
        )
        for m in measured
    )  # fmt: skip
    return Table("bench_metadata", columns, rows)
