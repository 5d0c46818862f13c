"""Why writes are refused, or would be: to a topic, by a transactional id, commits of a group.

Nothing is written to find out. What stands in the metadata or was answered when the leader was
asked is measured; what a setting only threatens is told as ``configured``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from quorate.broker.shards.topics import INTERNAL_TOPICS
from quorate.client.admin_results import ConfigEntry
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import NO_LEADER
from quorate.setting_fields import LONG_MAX
from quorate.tools.metadata.decided import Decided
from quorate.tools.why.answer import Answer, Line, cite, in_order, measured, numbers
from quorate.tools.why.looks import CONFIGS, DIRS, OFFSETS, Reached, broker_name
from quorate.tools.why.past import MIN_ISR, Past, cause_of, leader_line, setting_of

TOLD_MAX: Final = 5
"""So many partitions that refuse are told with their lines, and so many that do not."""

ANYBODY: Final = "brokers"
"""Who answers what every broker knows."""

ALL: Final = "all writes"
ACKS_ALL: Final = "writes with acks=all"
TOO_FEW: Final = ErrorCode.NOT_ENOUGH_REPLICAS.name


@dataclass(frozen=True, slots=True)
class Refusal:
    """That a partition refuses something now.

    Attributes:
        what: Which writes.
        code: What clients are told.
        why: In words.
        lines: Where it is written.
        hint: What helps.
    """

    what: str
    code: str
    why: str
    lines: tuple[Line, ...]
    hint: str


def why_rejected(
    decided: Sequence[Decided],
    subject: str,
    pasts: Sequence[Past],
    reached: Mapping[int, Reached],
    settings: Mapping[str, ConfigEntry],
    now_ms: int,
) -> Answer:
    """Return why a topic or one partition of it refuses writes, or that it does not.

    Args:
        decided: all metadata records.
        subject: what was asked about, as people call it.
        pasts: of the partitions in question; not empty.
        reached: what leaders answered, by number of partition.
        settings: of the topic, as a broker told them.
        now_ms: when it did.
    """
    topic = pasts[0].partition.topic
    found: list[tuple[Past, Refusal]] = []
    lines: list[Line] = []
    for past in pasts:
        answered = reached.get(past.partition.partition)
        refusals = list(refusals_of(decided, past, answered))
        found += [(past, refusal) for refusal in refusals]
        if refusals and len(found) <= TOLD_MAX:
            lines += [line for refusal in refusals for line in refusal.lines]
        elif not refusals and len(lines) < TOLD_MAX:
            lines += _fine_lines(past, answered)
    told = {MIN_ISR} if any(refusal.code == TOO_FEW for _, refusal in found) else set[str]()
    unsaid = {name: entry for name, entry in settings.items() if name not in told}
    lines += _configured(decided, topic, unsaid, now_ms)
    headline = _headline(subject, pasts, found)
    if topic in INTERNAL_TOPICS:
        headline = f"Clients cannot write to {topic} at all (INVALID_TOPIC_EXCEPTION). {headline}"
    hint = found[0][1].hint if found else ""
    return Answer(headline, in_order(lines), hint)


def _headline(subject: str, pasts: Sequence[Past], found: Sequence[tuple[Past, Refusal]]) -> str:
    if not found:
        return f"Writes to {subject} are not refused now; what the settings forbid is configured."
    alike: dict[tuple[str, str, str], list[str]] = {}
    for past, refusal in found:
        alike.setdefault((refusal.what, refusal.code, refusal.why), []).append(past.name)
    told = "; ".join(
        f"{what} to {_some(names)} ({code}): {why}" for (what, code, why), names in alike.items()
    )
    if len(pasts) == 1:
        return f"Refused now are {told}."
    count = len({past.name for past, _ in found})
    return f"{count} of {len(pasts)} partitions of {subject} refuse {told}."


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - TOLD_MAX} more" if len(names) > TOLD_MAX else ""
    return ", ".join(names[:TOLD_MAX]) + more


def refusals_of(decided: Sequence[Decided], past: Past, told: Reached | None) -> Iterator[Refusal]:
    """Yield what a partition refuses now."""
    now = past.now
    if now.leader_id == NO_LEADER:
        yield Refusal(
            ALL, "LEADER_NOT_AVAILABLE", "nobody leads it", (leader_line(past),),
            f"quorate why offline {past.argument}",
        )  # fmt: skip
        return
    if told is not None and (told.error is not None or told.disk):
        yield _unreached(past, told)
    elif told is not None and told.full:
        yield _full(past, told)
    needed = setting_of(decided, past.partition.topic, MIN_ISR, "1")
    if len(now.isr) < min(int(needed.value), len(now.replicas)):
        lines = [cite(now.decided, f"in sync with {past.name}: {numbers(now.isr)}; {now.cause}")]
        if needed.decided is not None:
            text = f"{MIN_ISR}={needed.value}: {cause_of(needed.decided)}"
            lines.append(cite(needed.decided, text))
        yield Refusal(
            ACKS_ALL, TOO_FEW,
            f"{len(now.isr)} in sync, and {MIN_ISR} is {needed.value}", tuple(lines),
            f"quorate why isr {past.argument}",
        )  # fmt: skip


def _unreached(past: Past, told: Reached) -> Refusal:
    """Return that the leader does not take writes, as it answered itself."""
    who = broker_name(told.leader_id)
    lines = [leader_line(past)]
    if told.disk:
        lines.append(measured(f"its directory: {told.disk}", who, DIRS, told.now_ms))
        why = f"the disk of broker {told.leader_id} has failed"
        return Refusal(ALL, "KAFKA_STORAGE_ERROR", why, tuple(lines), "quorate doctor machine")
    code = told.error.code.name if isinstance(told.error, KafkaError) else "no answer"
    lines.append(measured(f"{code}: {_message(told.error)}", who, OFFSETS, told.now_ms))
    why = f"broker {told.leader_id}, which leads it by the metadata, does not answer as its leader"
    hint = f"quorate why leader {past.argument}; look at the output of broker {told.leader_id}"
    return Refusal(ALL, code, why, tuple(lines), hint)


def _full(past: Past, told: Reached) -> Refusal:
    """Return that the leader has no room: what is small may still find some."""
    who = broker_name(told.leader_id)
    return Refusal(
        "writes that find no room", "KAFKA_STORAGE_ERROR",
        f"the disk of broker {told.leader_id} is full",
        (leader_line(past), measured(f"its directory: {told.full}", who, DIRS, told.now_ms)),
        "make room there: a shorter retention.ms, a larger disk",
    )  # fmt: skip


def _message(error: QuorateError | None) -> str:
    return " ".join(str(error).split())


def _fine_lines(past: Past, told: Reached | None) -> Iterator[Line]:
    """Yield who takes writes, and that others do not."""
    led = past.leader_since
    yield cite(
        led.decided,
        f"{past.name} is written at broker {led.leader_id}, in epoch {led.leader_epoch}: any other "
        f"broker answers NOT_LEADER_OR_FOLLOWER; {led.cause}",
    )
    if told is not None:
        who = broker_name(told.leader_id)
        text = f"broker {told.leader_id} answers as the leader of {past.name}"
        yield measured(text, who, OFFSETS, told.now_ms)


# --- what is only configured


def _configured(
    decided: Sequence[Decided], topic: str, settings: Mapping[str, ConfigEntry], now_ms: int
) -> Iterator[Line]:
    """Yield what settings forbid, each with the record that set it, or the broker's word."""
    values = {name: entry.value or "" for name, entry in settings.items()}
    for name, text in _forbidden(values):
        told = f"configured: {text}: {name}={values[name]}"
        by = setting_of(decided, topic, name, "")
        if by.decided is not None and by.value == values[name]:
            yield cite(by.decided, f"{told}; {cause_of(by.decided)}")
        else:
            yield measured(told, ANYBODY, CONFIGS, now_ms)


def _forbidden(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the settings that can make a write fail, and what is refused then."""
    if "max.message.bytes" in values:
        yield "max.message.bytes", "larger batches are refused (MESSAGE_TOO_LARGE)"
    if values.get("message.timestamp.type") == "LogAppendTime":
        yield "message.timestamp.type", "the broker dates records, none is refused for its time"
    else:
        for side, where in (("after", "ahead of"), ("before", "behind")):
            name = f"message.timestamp.{side}.max.ms"
            if name in values and values[name] != str(LONG_MAX):
                text = f"records further {where} the broker's clock are refused (INVALID_TIMESTAMP)"
                yield name, text
    if "compact" in values.get("cleanup.policy", ""):
        yield "cleanup.policy", "records without a key are refused (INVALID_RECORD)"
    if values.get(MIN_ISR, "1") != "1":
        yield MIN_ISR, "with fewer in sync, acks=all is refused (NOT_ENOUGH_REPLICAS)"
