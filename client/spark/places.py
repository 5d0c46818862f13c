"""Where to begin and end in every partition, as options say it: words, times, or JSON."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

LATEST: Final = -1
EARLIEST: Final = -2
"""What stands for the ends in JSON, and in a ListOffsets request."""

_UNIT_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
}
_DURATION: Final = re.compile(r"(?:[0-9]+(?:ms|min|[smhdw]))+")
_DURATION_PART: Final = re.compile(r"([0-9]+)(ms|min|[smhdw])")
_SPARK_DURATION: Final = re.compile(r"([0-9]+)(us|ms|s|m|min|h|d|)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INT64_MAX: Final = 2**63 - 1


class OptionError(QuorateError, ValueError):
    """An option makes no sense; the words are those of Spark's Kafka source, where it has some."""


@dataclass(frozen=True, slots=True)
class End:
    """The same end of every partition: ``offset`` is LATEST or EARLIEST."""

    offset: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """An offset for each partition; LATEST and EARLIEST stand for the ends."""

    by_partition: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Time:
    """The first record of that time or later, in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Times:
    """Likewise, with a time for each partition."""

    by_partition: Mapping[TopicPartition, int]


Place: TypeAlias = End | Offsets | Time | Times

AT_EARLIEST: Final = End(EARLIEST)
AT_LATEST: Final = End(LATEST)


def parse_offsets(text: str) -> Place:
    """Return what ``startingOffsets`` and ``endingOffsets`` mean.

    Raises:
        OptionError: Nothing.
    """
    text = text.strip()
    if text.lower() == "latest":
        return AT_LATEST
    if text.lower() == "earliest":
        return AT_EARLIEST
    example = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    return Offsets(_numbers_by_partition(text, example))


def parse_times(text: str) -> Times:
    """Return what ``startingOffsetsByTimestamp`` and ``endingOffsetsByTimestamp`` mean.

    Raises:
        OptionError: Nothing.
    """
    example = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789}}'
    return Times(_numbers_by_partition(text.strip(), example))


def parse_timestamp(text: str) -> Time:
    """Return what ``startingTimestamp`` and ``endingTimestamp`` mean: milliseconds since 1970.

    Raises:
        OptionError: It is no number.
    """
    text = text.strip()
    if re.fullmatch(r"[+-]?[0-9]+", text) is None or abs(int(text)) > _INT64_MAX:
        raise OptionError(f"Expected a single long value, got {text}")
    return Time(int(text))


def parse_assignment(text: str) -> dict[str, tuple[int, ...]]:
    """Return the partitions by topic that ``assign`` names.

    Raises:
        OptionError: It names none.
    """
    topics: dict[str, tuple[int, ...]] = {}
    for topic, partitions in _json_object(text, _ASSIGNMENT).items():
        if not isinstance(partitions, list):
            raise _expected(_ASSIGNMENT, text)
        numbers = cast("list[int]", partitions)
        if not all(map(_is_number, numbers)):
            raise _expected(_ASSIGNMENT, text)
        topics[topic] = tuple(sorted(set(numbers)))
    return topics


_ASSIGNMENT: Final = '{"topicA":[0,1],"topicB":[0,1]}'


def _numbers_by_partition(text: str, example: str) -> dict[TopicPartition, int]:
    numbers: dict[TopicPartition, int] = {}
    for topic, by_partition in _json_object(text, example).items():
        if not isinstance(by_partition, dict):
            raise _expected(example, text)
        for partition, number in cast("dict[str, Any]", by_partition).items():
            if not (partition.isascii() and partition.isdecimal() and _is_number(number)):
                raise _expected(example, text)
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def _json_object(text: str, example: str) -> dict[str, Any]:
    try:
        parsed: Any = json.loads(text)
    except ValueError:
        raise _expected(example, text) from None
    if not isinstance(parsed, dict):
        raise _expected(example, text)
    return cast("dict[str, Any]", parsed)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _expected(example: str, text: str) -> OptionError:
    return OptionError(f"Expected e.g. {example}, got {text}")


def parse_moment(name: str, text: str, now_ms: int) -> Time:
    """Return what ``since`` and ``until`` mean: a time ago, a time of ISO 8601, milliseconds.

    Raises:
        OptionError: It is none of these.
    """
    text = text.strip()
    if text == "now":
        return Time(now_ms)
    if text.startswith("-") and _DURATION.fullmatch(text[1:]):
        return Time(max(0, now_ms - _duration_ms(text[1:])))
    if text.isascii() and text.isdecimal() and len(text) > len("20260301"):
        return parse_timestamp(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"{name} is '{text}', which is no time: try '-1h', '-1d12h', '2026-03-01T10:00:00Z',"
            " 'now', or milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Time((moment - _EPOCH) // timedelta(milliseconds=1))


def _duration_ms(text: str) -> int:
    return sum(int(number) * _UNIT_MS[unit] for number, unit in _DURATION_PART.findall(text))


def parse_delay(text: str) -> int:
    """Return the milliseconds of ``maxTriggerDelay``, written as Spark's times are: ``15m``.

    Raises:
        OptionError: It is no time.
    """
    match = _SPARK_DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise OptionError(
            "Time must be specified as seconds (s), milliseconds (ms), microseconds (us), minutes"
            f" (m or min), hour (h), or day (d). E.g. 50s, 100ms, or 250us. Failed to parse: {text}"
        )
    number, unit = int(match[1]), match[2]
    return number // 1_000 if unit == "us" else number * _UNIT_MS[unit or "ms"]


def named(partitions: Mapping[TopicPartition, int]) -> str:
    """Return the names of partitions, in their order."""
    return "[" + ", ".join(map(str, sorted(partitions))) + "]"
