"""Why a partition stands still: its high watermark, its last stable offset, a move of it.

What the metadata say is cited from their log. What only brokers know was measured, twice: whether
something moves is not to be seen at one look.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from quorate.dataclass import dataclass
from quorate.model import NO_LEADER, TopicPartition
from quorate.tools.metadata.decided import Decided
from quorate.tools.positions import time_text
from quorate.tools.why.answer import Answer, Line, cite, in_order, measured, numbers
from quorate.tools.why.answers import deleted_answer
from quorate.tools.why.looks import (
    DIRS,
    OFFSETS,
    PRODUCERS,
    TRANSACTIONS,
    Look,
    Opened,
    Standing,
    broker_name,
    silence,
)
from quorate.tools.why.past import (
    MIN_ISR,
    Past,
    Step,
    broker_events,
    cause_of,
    leader_line,
    past_of,
    read_only,
    setting_of,
)

OPENED_MAX: Final = 5
"""So many open transactions are told, the oldest."""

THROTTLED: Final = "follower.replication.throttled.replicas"


@dataclass(frozen=True, slots=True)
class Finding:
    """What stands still, in a sentence, with its lines and what helps."""

    sentence: str
    lines: Sequence[Line]
    hint: str


def why_stuck(
    decided: Sequence[Decided], partition: TopicPartition, standing: Standing | None
) -> Answer:
    """Return why a partition stands still, or that it does not.

    Args:
        decided: all metadata records.
        partition: which.
        standing: what its brokers said; None if nobody leads it, for then nobody was asked.

    Raises:
        CommandError: there never was such a partition.
    """
    past = past_of(decided, partition)
    if past is None:
        return deleted_answer(decided, partition)
    if past.now.leader_id == NO_LEADER or standing is None:
        return Answer(
            f"{past.name} stands still: nobody leads it, so nothing is written or committed.",
            (leader_line(past),),
            f"quorate why offline {past.argument}",
        )
    found = [
        finding
        for finding in (
            _watermark(decided, past, standing),
            _stable_offset(past, standing),
            _move(decided, past, standing),
        )
        if finding is not None
    ]
    lines = [*_where(past, standing), *(line for finding in found for line in finding.lines)]
    if not found:
        return Answer(_fine(past, standing), in_order(lines))
    return Answer(" ".join(f.sentence for f in found), in_order(lines), found[0].hint)


def _where(past: Past, standing: Standing) -> Iterator[Line]:
    """Yield where the leader's log stood, at both looks."""
    leader_id = past.now.leader_id
    for look in (standing.before, standing.after):
        told = look.replicas.get(leader_id)
        if told is not None:
            text = f"log end {told.log_end_offset}, high watermark {told.high_watermark}"
            yield measured(text, broker_name(leader_id), DIRS, look.now_ms)


def _fine(past: Past, standing: Standing) -> str:
    leader_id = past.now.leader_id
    was, told = (each.replicas.get(leader_id) for each in (standing.before, standing.after))
    if told is None or was is None:
        return f"{past.name}: broker {leader_id} leads it, and does not tell where it stands."
    if told.high_watermark > was.high_watermark:
        more = told.high_watermark - was.high_watermark
        return (
            f"{past.name} is not stuck: {more} records were committed in {standing.seconds:.1f} s."
        )
    return f"{past.name} is not stuck: all that is written to it is committed."


# --- the high watermark


def _watermark(decided: Sequence[Decided], past: Past, standing: Standing) -> Finding | None:
    leader_id, after = past.now.leader_id, standing.after
    told, was = after.replicas.get(leader_id), standing.before.replicas.get(leader_id)
    if told is None:
        if leader_id not in after.silent:
            return None
        return Finding(
            f"{past.name} stands still: broker {leader_id} leads it and does not answer.",
            (
                leader_line(past),
                silence(leader_id, ", but leads", after.now_ms),
            ),
            f"look at the output of broker {leader_id}; quorate brokers list",
        )
    missing = told.log_end_offset - told.high_watermark
    if missing <= 0 or (was is not None and told.high_watermark > was.high_watermark):
        return None
    head = f"The high watermark of {past.name} stands at {told.high_watermark}, {missing} short:"
    needed = setting_of(decided, past.partition.topic, MIN_ISR, "1")
    least = min(int(needed.value), len(past.now.replicas))
    if len(past.now.isr) < least:
        lines = [_isr_line(past)]
        if needed.decided is not None:
            text = f"{MIN_ISR}={needed.value}: {cause_of(needed.decided)}"
            lines.append(cite(needed.decided, text))
        return Finding(
            f"{head} {len(past.now.isr)} in sync, and {MIN_ISR} is {needed.value}.",
            lines,
            f"quorate why isr {past.argument} tells who is missing",
        )
    return _held_back(past, after, head)


def _held_back(past: Past, after: Look, head: str) -> Finding:
    """Return who in the ISR has not what the leader has."""
    leader_id = past.now.leader_id
    end = after.end_of(leader_id)
    assert end is not None, "there is something open"
    lines, behind = [_isr_line(past)], list[int]()
    for broker_id in past.now.isr:
        theirs = after.end_of(broker_id)
        if broker_id in after.silent:
            lines.append(silence(broker_id, ", and is in sync by the metadata", after.now_ms))
        elif theirs is not None and theirs < end:
            text = f"broker {broker_id}, in sync, has it up to {theirs}: {end - theirs} short"
            lines.append(measured(text, broker_name(broker_id), DIRS, after.now_ms))
        else:
            continue
        behind.append(broker_id)
    if not behind:
        return Finding(
            f"{head} all in sync have it. Its leader waits for its own disk (flush.messages), or "
            "for a follower that is just about to be in sync; no answer tells which.",
            lines,
            f"quorate partitions describe {past.argument}",
        )
    who = f"broker {behind[0]}" if len(behind) == 1 else f"brokers {numbers(behind)}"
    return Finding(
        f"{head} {who}, in sync, must have it first.",
        lines,
        f"look at {who}; replica.lag.time.max.ms after falling behind, the leader goes on without",
    )


def _isr_line(past: Past) -> Line:
    """Return who is in sync, and since when just these."""
    first = past.now
    for step in reversed(past.steps):
        if step.isr != past.now.isr:
            break
        first = step
    return cite(first.decided, f"in sync: {numbers(first.isr)}; {first.cause}")


# --- the last stable offset


def _stable_offset(past: Past, standing: Standing) -> Finding | None:
    leader_id, after = past.now.leader_id, standing.after
    told, stable = after.replicas.get(leader_id), after.last_stable
    if told is None or stable is None or stable >= told.high_watermark:
        return None
    hidden = told.high_watermark - stable
    text = f"last stable offset {stable}: of what is committed, {hidden} hidden from read_committed"
    lines = [measured(text, broker_name(leader_id), OFFSETS, after.now_ms)]
    for each in standing.opened[:OPENED_MAX]:
        lines += _opened_lines(past, each, after.now_ms)
    head = f"The last stable offset of {past.name} stands at {stable}:"
    if not standing.opened:
        return Finding(
            f"{head} what held it has ended meanwhile.", lines, f"quorate why stuck {past.argument}"
        )
    oldest = standing.opened[0]
    return Finding(f"{head} {_holder(oldest)}.", lines, _ending(past, oldest))


def _holder(oldest: Opened) -> str:
    told = oldest.described
    if told is None or oldest.hangs:
        return f"{oldest.name} has a transaction open that no coordinator knows of"
    since = "" if told.started_ms is None else f" since {time_text(told.started_ms)}"
    if told.state == "Ongoing":
        return f"a transaction of {oldest.name} is open{since}"
    return f"a transaction of {oldest.name} is {told.state}{since}, and not ended here yet"


def _ending(past: Past, oldest: Opened) -> str:
    if oldest.hangs:
        topic, number = past.partition
        return (
            f"quorate txns abort --topic {topic} -p {number} --start-offset {oldest.start_offset}"
        )
    told = oldest.described
    assert told is not None, "it does not hang"
    if told.state != "Ongoing" or told.started_ms is None:
        return f"quorate why rejected --transactional-id {oldest.name}"
    limit = time_text(told.started_ms + told.timeout_ms)
    return f"quorate txns abort {oldest.name}; without, it is aborted after {limit}"


def _opened_lines(past: Past, opened: Opened, now_ms: int) -> Iterator[Line]:
    producer, told, name = opened.producer, opened.described, past.name
    if opened.first_ms is not None:
        text = f"the first record of producer {producer.producer_id} in its open transaction"
        yield Line(text, opened.start_offset, opened.first_ms, name)
    text = (
        f"producer {producer.producer_id}, epoch {producer.producer_epoch}, has a transaction open "
        f"from offset {opened.start_offset} on, and wrote last at "
        f"{time_text(producer.last_timestamp_ms)}"
    )
    yield measured(text, broker_name(past.now.leader_id), PRODUCERS, now_ms)
    if told is not None:
        since = "" if told.started_ms is None else f" since {time_text(told.started_ms)}"
        text = (
            f"producer {told.producer_id} is that of {told.transactional_id}: {told.state}{since}, "
            f"transaction.timeout.ms={told.timeout_ms}"
        )
        yield measured(text, broker_name(told.coordinator_id), TRANSACTIONS, now_ms)


# --- a move


def _move(decided: Sequence[Decided], past: Past, standing: Standing) -> Finding | None:
    adding = past.now.adding
    waited_for = [broker_id for broker_id in adding if broker_id not in past.now.isr]
    end = standing.after.end_of(past.now.leader_id)
    if not waited_for or end is None:
        return None
    began = _began(past)
    lines = [cite(began.decided, f"is to be on {numbers(began.adding)}, too: {began.cause}")]
    moves, stands = list[int](), list[int]()
    for broker_id in waited_for:
        was, has = (look.end_of(broker_id) for look in (standing.before, standing.after))
        if has is None:
            stands.append(broker_id)
            text = ", and is to get a replica" if broker_id in standing.after.silent else ""
            if text:
                lines.append(silence(broker_id, text, standing.after.now_ms))
            continue
        more = has - (was or 0)
        text = f"broker {broker_id} has it up to {has}, {end - has} short; {more} more in "
        text += f"{standing.seconds:.1f} s"
        lines.append(measured(text, broker_name(broker_id), DIRS, standing.after.now_ms))
        (moves if more > 0 or has >= end else stands).append(broker_id)
    throttle = setting_of(decided, past.partition.topic, THROTTLED, "")
    if throttle.decided is not None:
        text = (
            f"its copies are throttled: {THROTTLED}={throttle.value}; {cause_of(throttle.decided)}"
        )
        lines.append(cite(throttle.decided, text))
    if not stands:
        return Finding(
            f"The move of {past.name} goes on: {numbers(moves)} must be in sync before it ends.",
            lines,
            "quorate partitions reassign status -w",
        )
    full = {b: event for b in stands if (event := read_only(broker_events(decided, b)))}
    lines += [event.line() for event in full.values()]
    hint = "quorate partitions reassign status; cancel ends it as it was"
    if full:
        hint = (
            f"make room on the disk of broker {numbers(full)}; "
            "quorate partitions reassign cancel ends it as it was"
        )
    return Finding(
        f"The move of {past.name} does not progress: {numbers(stands)} got nothing in "
        f"{standing.seconds:.1f} s, and must be in sync before it ends.",
        lines,
        hint,
    )


def _began(past: Past) -> Step:
    first = past.now
    for step in reversed(past.steps):
        if step.adding != past.now.adding:
            break
        first = step
    return first
