"""Why partitions and groups are as they are.

Nothing is guessed: what a line says stands in the record that it cites, and what is not written
anywhere is not said.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from quorate.client.groups.results import GroupDescription
from quorate.model import NO_LEADER, TopicPartition
from quorate.tools.groups.lag import PartitionLag
from quorate.tools.metadata.decided import Decided
from quorate.tools.positions import time_text
from quorate.tools.why.answer import Answer, Line, cite, in_order, name_of, numbers
from quorate.tools.why.groups import (
    Commit,
    Generation,
    coordinator_lines,
    diffs_of,
    topic_lines,
)
from quorate.tools.why.past import (
    MIN_ISR,
    Past,
    Step,
    broker_events,
    cause_of,
    leader_text,
    newest,
    no_partition,
    past_of,
    placed_line,
    read_only,
    removal_of,
    setting_of,
)

LEADERSHIPS_MAX: Final = 3
"""So many changes of leader are told, the newest."""
GENERATIONS_MAX: Final = 5
PARTITIONS_MAX: Final = 5


def why_leader(decided: Sequence[Decided], partition: TopicPartition) -> Answer:
    """Return why a partition has the leader that it has.

    Raises:
        CommandError: there never was such a partition.
    """
    past = past_of(decided, partition)
    if past is None:
        return deleted_answer(decided, partition)
    now, changes = past.now, past.leaderships()
    preferred = now.replicas[0]
    lines = [placed_line(past), *_leader_lines(decided, past)]
    if now.leader_id == NO_LEADER:
        return Answer(
            f"Nobody leads {past.name}: no replica that may lead it is in service.",
            in_order(lines),
            f"quorate why offline {past.argument}",
        )
    since = f"since epoch {now.leader_epoch}" if changes else "since it was created"
    if now.leader_id == preferred:
        return Answer(
            f"Broker {preferred} leads {past.name}, as preferred, {since}.", in_order(lines)
        )
    since_offset = changes[-1][1].decided.offset if changes else now.decided.offset
    lines += _return_lines(decided, past, preferred, since_offset)
    return Answer(
        f"Broker {now.leader_id} leads {past.name}, not {preferred}, which is preferred, {since}.",
        in_order(lines),
        _return_hint(decided, past, preferred),
    )


def _leader_lines(decided: Sequence[Decided], past: Past) -> Iterator[Line]:
    """Yield the newest changes of leader, each after what became of the leader before."""
    for old, new in past.leaderships()[-LEADERSHIPS_MAX:]:
        offset = new.decided.offset
        event = newest(broker_events(decided, old.leader_id), until=offset)
        if event is not None and event.is_outage and event.decided.offset > old.decided.offset:
            yield event.line()
        yield cite(
            new.decided,
            f"leader: {leader_text(old.leader_id)} -> {leader_text(new.leader_id)}, in epoch "
            f"{new.leader_epoch}, in sync: {numbers(new.isr)}; {new.cause}",
        )


def _return_lines(
    decided: Sequence[Decided], past: Past, preferred: int, since_offset: int
) -> Iterator[Line]:
    """Yield how far the preferred leader is on its way back."""
    event = newest(broker_events(decided, preferred), after=since_offset)
    if event is not None:
        yield event.line()
    came = past.came(preferred)
    if came is not None and came.decided.offset > since_offset:
        yield cite(
            came.decided, f"broker {preferred} is in sync with {past.name} again; {came.cause}"
        )


def _return_hint(decided: Sequence[Decided], past: Past, preferred: int) -> str:
    event = newest(broker_events(decided, preferred))
    if event is not None and event.is_outage:
        return f"start broker {preferred}; it leads again once it is in sync"
    if preferred not in past.now.isr:
        return f"quorate why isr {past.argument}: {preferred} must be in sync before it can lead"
    return f"quorate partitions elect {past.argument} makes {preferred} lead"


def why_isr(decided: Sequence[Decided], partition: TopicPartition) -> Answer:
    """Return why a partition has the in-sync replicas that it has.

    Raises:
        CommandError: there never was such a partition.
    """
    past = past_of(decided, partition)
    if past is None:
        return deleted_answer(decided, partition)
    now = past.now
    missing = [broker_id for broker_id in now.replicas if broker_id not in now.isr]
    lines = [placed_line(past)]
    for broker_id in missing:
        lines += _missing_lines(decided, past, broker_id)
    if not missing:
        lines += [_came_line(step, past) for step in _arrivals(past)]
        headline = f"All replicas of {past.name} are in sync: {numbers(now.isr)}."
        return Answer(headline, in_order(lines))
    headline = (
        f"In sync with {past.name}: {numbers(now.isr)}. Of its replicas {numbers(now.replicas)}, "
        f"{numbers(missing)} {'is' if len(missing) == 1 else 'are'} missing."
    )
    needed = setting_of(decided, partition.topic, MIN_ISR, "1")
    if len(now.isr) < int(needed.value):
        headline += f" Fewer than {MIN_ISR}={needed.value}: acks=all is refused."
        if needed.decided is not None:
            text = f"{MIN_ISR}={needed.value}: {cause_of(needed.decided)}"
            lines.append(cite(needed.decided, text))
    return Answer(headline, in_order(lines), _missing_hint(decided, missing))


def _arrivals(past: Past) -> list[Step]:
    """Return the steps with which the replicas came that are in sync, without the first."""
    steps = {id(step): step for b in past.now.isr if (step := past.came(b)) is not None}
    return [step for step in steps.values() if step is not past.steps[0]]


def _came_line(step: Step, past: Past) -> Line:
    before = next((old for old, new in _pairs(past) if new is step), step)
    came = [broker_id for broker_id in step.isr if broker_id not in before.isr]
    text = f"{numbers(came)} came into the ISR, now {numbers(step.isr)}: {step.cause}"
    return cite(step.decided, text)


def _pairs(past: Past) -> Iterator[tuple[Step, Step]]:
    return zip(past.steps, past.steps[1:], strict=False)


def _missing_lines(decided: Sequence[Decided], past: Past, broker_id: int) -> Iterator[Line]:
    """Yield how a replica left the ISR, or why it never was there, and what its broker did."""
    events = broker_events(decided, broker_id)
    left = past.left(broker_id)
    if left is None:
        first = next((s for s in past.steps if broker_id in s.replicas), past.now)
        text = f"{broker_id} has not been in sync yet, but is a replica: {first.cause}"
        yield cite(first.decided, text)
        since_offset = first.decided.offset
    else:
        since_offset = left.decided.offset
        outage = newest(events, until=since_offset)
        full = read_only(events, until=since_offset)
        for event in (outage if outage is not None and outage.is_outage else None, full):
            if event is not None:
                yield event.line()
        departure = _departure(left, is_full=full is not None)
        yield cite(
            left.decided, f"{broker_id} left the ISR, {numbers(left.isr)} remained: {departure}"
        )
    event = newest(events, after=since_offset)
    if event is not None:
        yield event.line()


def _departure(left: Step, *, is_full: bool) -> str:
    cause = left.cause
    if cause.endswith("(AlterPartition)"):
        if is_full:
            return f"it could not write what it lacked, so {cause}"
        return f"it had not kept up for replica.lag.time.max.ms, so {cause}"
    return cause


def _missing_hint(decided: Sequence[Decided], missing: Sequence[int]) -> str:
    outages = {b: newest(broker_events(decided, b)) for b in missing}
    gone = [b for b, event in outages.items() if event is not None and event.is_outage]
    if gone:
        return f"start {'broker' if len(gone) == 1 else 'brokers'} {numbers(gone)}"
    full = [b for b in missing if read_only(broker_events(decided, b)) is not None]
    if full:
        return f"make room on the disk of broker {numbers(full)}, or look at its log"
    return "quorate partitions describe shows how far behind they are; wait, or look at their logs"


def why_offline(decided: Sequence[Decided], partition: TopicPartition) -> Answer:
    """Return why nobody leads a partition, or that somebody does.

    Raises:
        CommandError: there never was such a partition.
    """
    past = past_of(decided, partition)
    if past is None:
        return deleted_answer(decided, partition)
    now = past.now
    if now.leader_id != NO_LEADER:
        last = past.leader_since
        text = f"{leader_text(last.leader_id)} leads in epoch {last.leader_epoch}: {last.cause}"
        return Answer(
            f"{past.name} is not offline: broker {now.leader_id} leads it.",
            (cite(last.decided, text),),
            f"quorate why leader {past.argument}",
        )
    lines = [placed_line(past), *_leader_lines(decided, past)]
    for broker_id in now.replicas:
        event = newest(broker_events(decided, broker_id))
        if event is not None:
            lines.append(event.line())
    able = [b for b in now.replicas if b in {*now.isr, *now.elr}]
    headline = f"{past.name} is offline: nobody leads it."
    if able:
        headline += f" {numbers(able)} can lead it, but is not in service."
        hint = f"start broker {able[0]}: it was in sync last, and has what is committed"
    else:
        last_id = now.last_known_leader
        hint = f"quorate partitions elect --unclean {past.argument}: committed records may be lost"
        if last_id != NO_LEADER:
            headline += f" {last_id} led last, and may have lost what it had not on disk."
            hint = f"start broker {last_id}; or {hint}"
    return Answer(headline, in_order(lines), hint)


def deleted_answer(decided: Sequence[Decided], partition: TopicPartition) -> Answer:
    """Return that a partition is not there any more.

    Raises:
        CommandError: there never was such a partition.
    """
    removal = removal_of(decided, partition.topic)
    if removal is None or past_of(decided, TopicPartition(partition.topic, 0)) is not None:
        raise no_partition(decided, partition)
    text = f"topic {partition.topic} was deleted: {cause_of(removal)}"
    return Answer(f"There is no {name_of(partition)} any more.", (cite(removal, text),))


def why_rebalance(
    decided: Sequence[Decided],
    group: GroupDescription,
    generations: Sequence[Generation],
    coordinated_by: TopicPartition,
) -> Answer:
    """Return why a group divided its partitions anew.

    Args:
        decided: all metadata records.
        group: as its coordinator describes it.
        generations: what the group's records say, oldest first.
        coordinated_by: the partition whose leader coordinates the group.
    """
    name = group.group_id
    if not generations:
        return Answer(
            f"Group {name} has not rebalanced: there is no record of any members of it.",
            tuple(coordinator_lines(decided, coordinated_by)),
        )
    told = diffs_of(generations)[-GENERATIONS_MAX:]
    last = generations[-1]
    since = 0 if len(generations) < 2 else generations[-min(len(told), len(generations))].time_ms
    lines = [diff.line() for diff in told]
    lines += topic_lines(decided, {t.topic for m in group.members for t in m.assignment}, since)
    lines += coordinator_lines(decided, coordinated_by, since)
    headline = (
        f"Group {name} rebalanced last into generation {last.number}, at "
        f"{time_text(last.time_ms)}: {group.rebalance_reason or told[-1].reason}."
    )
    return Answer(headline, in_order(lines), f"quorate groups describe {name} --members")


def why_lag(
    decided: Sequence[Decided],
    group: GroupDescription,
    lags: Sequence[PartitionLag],
    generations: Sequence[Generation],
    commits: Mapping[TopicPartition, Commit],
) -> Answer:
    """Return why a group is behind.

    Args:
        decided: all metadata records.
        group: as its coordinator describes it.
        lags: of the partitions in question.
        generations: what the group's records say, oldest first.
        commits: the newest commit of each partition.
    """
    behind = sorted((lag for lag in lags if lag.records), key=lambda lag: -(lag.records or 0))
    name = group.group_id
    newest_commits = [c.line() for p, c in commits.items() if any(p == g.partition for g in lags)]
    if not behind:
        return Answer(f"Group {name} is not behind.", in_order(newest_commits[:PARTITIONS_MAX]))
    worst = behind[:PARTITIONS_MAX]
    lines: list[Line] = []
    for lag in worst:
        lines += _lag_lines(decided, lag, commits)
    members = diffs_of(generations)[-1:] if generations else []
    lines += [diff.line() for diff in members]
    total = sum(lag.records or 0 for lag in behind)
    cause, hint = _lag_cause(decided, group, worst)
    records = "1 record" if total == 1 else f"{total} records"
    headline = f"Group {name} is {records} behind in {len(behind)} of {len(lags)} partitions"
    return Answer(f"{headline}: {cause}.", in_order(lines), hint)


def _lag_cause(
    decided: Sequence[Decided], group: GroupDescription, worst: Sequence[PartitionLag]
) -> tuple[str, str]:
    """Return what stands in the way, and what to do about it."""
    if not group.members:
        return "it has no members", "start its consumers"
    for lag in worst:
        past = past_of(decided, lag.partition)
        if past is not None and past.now.leader_id == NO_LEADER:
            return f"nobody leads {past.name}", f"quorate why offline {past.argument}"
    idle = [lag for lag in worst if lag.owner is None]
    if idle:
        return (
            f"no member reads {name_of(idle[0].partition)}",
            f"quorate groups describe {group.group_id} --members",
        )
    return (
        "its members read and commit more slowly than is written",
        f"quorate groups lag {group.group_id} -w; more consumers help, up to one a partition",
    )


def _lag_lines(
    decided: Sequence[Decided], lag: PartitionLag, commits: Mapping[TopicPartition, Commit]
) -> Iterator[Line]:
    commit = commits.get(lag.partition)
    if commit is not None:
        yield commit.line()
    if lag.unread_since_ms is not None and lag.first_unread is not None:
        name = name_of(lag.partition)
        text = f"the first of {lag.records} records that are to be read of {name}"
        yield Line(text, lag.first_unread, lag.unread_since_ms, name)
    past = past_of(decided, lag.partition)
    if past is not None and past.now.leader_id == NO_LEADER:
        yield cite(past.now.decided, f"nobody leads {past.name}: {past.now.cause}")
