"""``kafka-consumer-groups``."""

import csv
import io
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from quorate.client.admin import Admin
from quorate.client.groups.results import GroupDescription, OffsetAndMetadata
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import TopicPartition
from quorate.tools.groups.lag import PartitionLag
from quorate.tools.groups.resetting import To, parse_scope, parse_spec, plan_changes
from quorate.tools.groups.tables import assignment_text
from quorate.tools.groups_work import bounds_of, has, lags_of
from quorate.tools.problems import UsageError
from quorate.tools.shims.arguments import Given, ShimError, options
from quorate.tools.shims.asking import administering, java_error, told

GROUPS: Final = options(
    "list describe delete reset-offsets delete-offsets all-groups all-topics members offsets"
    " verbose dry-run execute export to-earliest to-latest to-current",
    "group topic timeout to-offset to-datetime by-duration shift-by from-file",
    "state type",
)
ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
MISSING_EXECUTE: Final = (
    "WARN: No action will be performed as the --execute option is missing. In a future major "
    "release, the default behavior of this command will be to prompt the user before executing "
    "the reset rather than doing a dry run. You should add the --dry-run option explicitly if you "
    "are scripting this command and want to keep the current default behavior without prompting."
)
WIDTH: Final = 15


async def consumer_groups(given: Given, environment: Mapping[str, str]) -> Iterator[str]:
    """Carry out ``kafka-consumer-groups``; return the lines to print.

    Raises:
        ShimError: it failed.
    """
    given.check("bootstrap-server")
    action = given.one_of(
        ACTIONS,
        "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, "
        "--delete-offsets.",
    )
    if action != "list" and "group" not in given and "all-groups" not in given:
        raise ShimError(f"Option [{action}] takes one of these options: [all-groups], [group]")
    run = {
        "list": _list,
        "describe": _describe,
        "delete": _delete,
        "reset-offsets": _reset,
        "delete-offsets": _delete_offsets,
    }[action]
    async with administering(given, environment, lambda e: _failed(java_error(e))) as admin:
        return iter(await run(admin, given))


def _failed(text: str) -> ShimError:
    """Return the error as Kafka's tool prints it: on standard output, with a status of 0."""
    what = f"\nError: Executing consumer group command failed due to {text}"
    return ShimError(what, status=0, on_stdout=True)


async def _names(admin: Admin, given: Given) -> list[str]:
    if "all-groups" in given:
        return [group.group_id for group in await admin.list_groups()]
    return list(dict.fromkeys(given.all("group")))


# --- list


async def _list(admin: Admin, given: Given) -> list[str]:
    states = [state.strip() for text in given.all("state") for state in text.split(",")]
    types = [kind.strip().lower() for text in given.all("type") for kind in text.split(",")]
    groups = await admin.list_groups(states=states, types=types)
    columns: list[tuple[str, list[str]]] = [("GROUP", [g.group_id for g in groups])]
    if "type" in given:
        columns.append(("TYPE", [g.type for g in groups]))
    if "state" in given:
        columns.append(("STATE", [g.state for g in groups]))
    if len(columns) == 1:
        return columns[0][1]
    width = max(WIDTH, *(len(g.group_id) for g in groups)) if groups else WIDTH
    rows = zip(*([heading, *cells] for heading, cells in columns), strict=True)
    return [" ".join((row[0].ljust(width), *(c.ljust(20) for c in row[1:]))) for row in rows]


# --- describe


async def _describe(admin: Admin, given: Given) -> list[str]:
    lines: list[str] = []
    names = await _names(admin, given)
    found = await admin.describe_groups(names)
    for name in names:
        group = _existing(name, found[name])
        if not group.members and group.state == "Empty":
            sys.stderr.write(f"\nConsumer group '{name}' has no active members.\n")
        elif group.state == "Dead":
            raise ShimError(f"\nError: Consumer group '{name}' does not exist.", on_stdout=True)
        if "members" in given:
            lines += _member_lines(group, verbose="verbose" in given)
        elif "state" in given:
            lines += await _state_lines(admin, group)
        else:
            lines += _offset_lines(await lags_of(admin, [group]))
    return lines


def _existing(name: str, group: GroupDescription | QuorateError) -> GroupDescription:
    if isinstance(group, KafkaError) and group.code == ErrorCode.GROUP_ID_NOT_FOUND:
        error = KafkaError(f"Group {name} is not a consumer group.", code=group.code)
        raise _failed(java_error(error))
    return told(group)


def _cell(value: object) -> str:
    return "-" if value in (None, "") else str(value)


def _offset_lines(lags: Sequence[PartitionLag]) -> list[str]:
    if not lags:
        return []
    rows = [
        (
            lag.group_id, lag.partition.topic, str(lag.partition.partition),
            _cell(None if lag.committed is None else lag.committed.offset),
            _cell(None if lag.bounds is None else lag.bounds.end_offset), _cell(lag.records),
            _cell(None if lag.owner is None else lag.owner.member_id),
            _cell(None if lag.owner is None else lag.owner.host),
            _cell(None if lag.owner is None else lag.owner.client_id),
        )
        for lag in lags
    ]  # fmt: skip
    heading = (
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
        "HOST", "CLIENT-ID",
    )  # fmt: skip
    grows = {0, 1, 6, 7}
    widths = [
        max(WIDTH, *(len(row[at]) for row in rows)) if at in grows else 10 if at == 2 else WIDTH
        for at in range(8)
    ]
    widths.append(0)
    return ["", *(_line(row, widths) for row in (heading, *rows))]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))


def _member_lines(group: GroupDescription, *, verbose: bool) -> list[str]:
    named = any(member.instance_id for member in group.members)
    heading = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    rows = [
        [group.group_id, m.member_id, m.host, m.client_id, str(len(m.assignment))]
        for m in group.members
    ]
    if named:
        heading.insert(2, "GROUP-INSTANCE-ID")
        for row, member in zip(rows, group.members, strict=True):
            row.insert(2, _cell(member.instance_id))
    widths = [max(WIDTH, *(len(r[at]) for r in (heading, *rows))) for at in range(len(heading))]
    lines = [_line(row, widths) + " " for row in (heading, *rows)]
    if verbose:
        extra = ["CURRENT-ASSIGNMENT", *(_assigned(m.assignment) for m in group.members)]
        lines = [line + text for line, text in zip(lines, extra, strict=True)]
    return ["", *lines]


def _assigned(partitions: Iterable[TopicPartition]) -> str:
    return assignment_text(partitions) or "-"


async def _state_lines(admin: Admin, group: GroupDescription) -> list[str]:
    brokers = {b.broker_id: b.endpoint for b in (await admin.describe_cluster()).brokers}
    where = f"{brokers.get(group.coordinator_id, '-')}  ({group.coordinator_id})"
    heading = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    row = (group.group_id, where, _cell(group.assignor), group.state, str(len(group.members)))
    widths = (max(WIDTH, len(group.group_id)), max(25, len(where)), 20, 20, 0)
    return ["", _line(heading, widths), _line(row, widths)]


# --- delete


async def _delete(admin: Admin, given: Given) -> list[str]:
    results = await admin.delete_groups(await _names(admin, given))
    failed = {name: error for name, error in results.items() if error is not None}
    gone = ", ".join(f"'{name}'" for name in results if name not in failed)
    if not failed:
        return [f"Deletion of requested consumer groups ({gone}) was successful."]
    lines = ["", "Error: Deletion of some consumer groups failed:"]
    for name, error in failed.items():
        lines.append(f"* Group '{name}' could not be deleted due to: {_deletion_error(error)}")
    if gone:
        lines += ["", f"These consumer groups were deleted successfully: {gone}"]
    return lines


def _deletion_error(error: QuorateError) -> str:
    if isinstance(error, KafkaError) and error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        error = KafkaError("The group id does not exist.", code=error.code)
    return java_error(error)


async def _delete_offsets(admin: Admin, given: Given) -> list[str]:
    name = given.one("group")
    wanted = parse_scope(given.all("topic"))
    committed = await admin.list_group_offsets(name)
    partitions = [p for p in committed if p.topic in wanted and has(wanted[p.topic], p.partition)]
    results = await admin.delete_group_offsets(name, partitions)
    failed = any(error is not None for error in results.values())
    said = (
        f"Request succeeded for deleting offsets from group {name}."
        if not failed
        else "Encountered some partition-level error, see the follow-up details:"
    )
    heading = ("TOPIC", "PARTITION", "STATUS")
    widths = (WIDTH, 10, WIDTH)
    rows = [
        (p.topic, str(p.partition), "Successful" if e is None else f"Error: {java_error(e)}")
        for p, e in results.items()
    ]
    return [said, "", *(_line(row, widths) for row in (heading, *rows))]


# --- reset


async def _reset(admin: Admin, given: Given) -> list[str]:
    executes = "execute" in given
    if executes and "dry-run" in given:
        raise ShimError("Option --execute and --dry-run can't be used together")
    if not executes and "dry-run" not in given:
        sys.stderr.write(MISSING_EXECUTE + "\n")
    lines: list[str] = []
    for name in await _names(admin, given):
        found = (await admin.describe_groups([name]))[name]
        if not isinstance(found, QuorateError) and found.state not in {"Empty", "Dead"}:
            raise ShimError(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, but "
                f"the current state is {found.state}.",
                status=0,
                on_stdout=True,
            )
        planned = await _plan(admin, given, name)
        if executes:
            for error in (await admin.alter_group_offsets(name, planned)).values():
                if error is not None:
                    raise error
        lines += _reset_lines(name, planned, export="export" in given)
    return lines


def _reset_lines(
    name: str, planned: Mapping[TopicPartition, OffsetAndMetadata], *, export: bool
) -> list[str]:
    if export:
        out = io.StringIO()
        exported = [(p.topic, p.partition, at.offset) for p, at in planned.items()]
        csv.writer(out, lineterminator="\n").writerows(exported)
        return [*out.getvalue().splitlines(), ""]
    widths = (max(WIDTH, len(name)), max([WIDTH, *(len(p.topic) for p in planned)]), 10, 0)
    rows = [(name, p.topic, str(p.partition), str(at.offset)) for p, at in planned.items()]
    heading = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    return ["", *(_line(row, widths) for row in (heading, *rows))]


async def _plan(admin: Admin, given: Given, name: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return where the group goes on.

    Raises:
        ShimError: it is not said, or no partition is.
    """
    chosen = {to: given.one(to.value[2:]) for to in To if to.value[2:] in given}
    if To.FILE in chosen:
        chosen[To.FILE] = Path(chosen[To.FILE]).read_text()  # noqa: ASYNC240
    try:
        spec = parse_spec(chosen, name, time.time_ns() // 1_000_000)
        scope = parse_scope(given.all("topic"))
    except UsageError as error:
        raise ShimError(f"{error.what}: {error.why}") from None
    current = await admin.list_group_offsets(name)
    if spec.offsets is not None:
        partitions = list(spec.offsets)
    elif "all-topics" in given:
        partitions = list(current)
    elif scope:
        partitions = await _scoped(admin, scope)
    else:
        raise ShimError("One of the reset scopes should be defined: --all-topics, --topic.")
    bounds = {p: told(b) for p, b in (await bounds_of(admin, partitions)).items()}
    by_time: dict[TopicPartition, int] = {}
    if spec.time_ms is not None:
        found = await admin.list_offsets(dict.fromkeys(partitions, spec.time_ms))
        by_time = {p: at.offset for p, each in found.items() if (at := told(each)).offset >= 0}
    changes = plan_changes(spec, partitions, current, bounds, by_time)
    return {change.partition: change.new for change in changes if change.new is not None}


async def _scoped(
    admin: Admin, scope: Mapping[str, tuple[int, ...] | None]
) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for topic, described in (await admin.describe_topics(scope)).items():
        numbers = [partition.partition for partition in told(described).partitions]
        found += [TopicPartition(topic, n) for n in numbers if has(scope[topic], n)]
    return found
