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
from quorate.tools.shims.asking import administering, java_error, message_of, told

GROUPS: Final = options(
    "list describe delete reset-offsets delete-offsets all-groups all-topics members offsets"
    " verbose dry-run execute export to-earliest to-latest to-current",
    "group topic timeout to-offset to-datetime by-duration shift-by from-file",
    "state type",
)
ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
BELONGS_TO: Final = {
    "group": {"describe", "delete", "reset-offsets", "delete-offsets"},
    "all-groups": {"describe", "delete", "reset-offsets"},
    "topic": {"reset-offsets", "delete-offsets"},
    **{
        name: {"reset-offsets"}
        for name in (
            "all-topics", "to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest",
            "shift-by", "from-file", "to-current",
        )
    },
}  # fmt: skip
STATES: Final = (
    "Reconciling", "Dead", "Empty", "Assigning", "CompletingRebalance", "PreparingRebalance",
    "Stable",
)  # fmt: skip
TYPES: Final = ("Consumer", "Classic")
MISSING_EXECUTE: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this "
    "command will require either --dry-run or --execute to be specified. You should add the "
    "--dry-run option explicitly if you are scripting this command and want to keep the current "
    "default behavior without prompting."
)
WIDTH: Final = 15
TYPED_WIDTH: Final = 25
"""Of the groups beside their types."""


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
    _check(given, action)
    run = {
        "list": _list,
        "describe": _describe,
        "delete": _delete,
        "reset-offsets": _reset,
        "delete-offsets": _delete_offsets,
    }[action]
    async with administering(given, environment, lambda e: _failed(java_error(e))) as admin:
        return iter(await run(admin, given))


def _check(given: Given, action: str) -> None:
    """Refuse what Kafka's tool does: above all, to do more than was asked for.

    Raises:
        ShimError: an option is missing, or does not go with the action.
    """
    if action == "delete" and "topic" in given:
        raise ShimError(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )
    if action == "delete-offsets":
        if "topic" not in given or "group" not in given:
            raise ShimError("Option [delete-offsets] takes the following options: [topic], [group]")
    elif action != "list" and "group" not in given and "all-groups" not in given:
        raise ShimError(f"Option [{action}] takes one of these options: [all-groups], [group]")
    given.check_goes_with(action, BELONGS_TO)
    given.check_apart("group", "all-groups")
    if action == "describe":
        if given.all("state"):
            raise ShimError("Option [describe] does not take a value for [state]")
        if sum(name in given for name in ("members", "offsets", "state")) > 1:
            raise ShimError(
                "Option [describe] takes at most one of these options: [members], [offsets],"
                " [state]"
            )


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
    states = _named(given, "state", STATES, "states")
    types = _named(given, "type", TYPES, "types")
    groups = await admin.list_groups(states=states, types=[kind.lower() for kind in types])
    columns: list[tuple[str, list[str]]] = [("GROUP", [g.group_id for g in groups])]
    if "type" in given:
        columns.append(("TYPE", [g.type for g in groups]))
    if "state" in given:
        columns.append(("STATE", [g.state for g in groups]))
    if len(columns) == 1:
        return columns[0][1]
    least = TYPED_WIDTH if "type" in given else WIDTH
    width = max([least, *(len(g.group_id) for g in groups)])
    rows = zip(*([heading, *cells] for heading, cells in columns), strict=True)
    return [" ".join((row[0].ljust(width), *(c.ljust(20) for c in row[1:]))) for row in rows]


def _named(given: Given, option: str, known: Sequence[str], plural: str) -> list[str]:
    """Return what a list names, as Kafka writes it.

    Raises:
        ShimError: it names what there is not; nothing would be found.
    """
    by_name = {name.lower(): name for name in known}
    texts = [text for value in given.all(option) for text in value.split(",")]
    found = [by_name.get(text.strip().lower()) for text in texts]
    if None in found:
        kind = "state" if option == "state" else "types"
        raise ShimError(
            f"Invalid {kind} list '{','.join(texts)}'. Valid {plural} are: {', '.join(known)}"
        )
    return [name for name in found if name is not None]


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
            lines += await _state_lines(admin, group, verbose="verbose" in given)
        else:
            lags = await lags_of(admin, [group])
            lines += _offset_lines(lags, verbose="verbose" in given)
    return lines


def _existing(name: str, group: GroupDescription | QuorateError) -> GroupDescription:
    if isinstance(group, KafkaError) and group.code == ErrorCode.GROUP_ID_NOT_FOUND:
        error = KafkaError(f"Group {name} is not a consumer group.", code=group.code)
        raise _failed(java_error(error))
    return told(group)


def _cell(value: object) -> str:
    return "-" if value in (None, "") else str(value)


def _offset_lines(lags: Sequence[PartitionLag], *, verbose: bool) -> list[str]:
    if not lags:
        return []
    rows = [
        (
            lag.group_id, lag.partition.topic, str(lag.partition.partition),
            *([_leader_epoch(lag)] if verbose else ()),
            _cell(None if lag.committed is None else lag.committed.offset),
            _cell(None if lag.bounds is None else lag.bounds.end_offset), _cell(lag.records),
            _cell(None if lag.owner is None else lag.owner.member_id),
            _cell(None if lag.owner is None else lag.owner.host),
            _cell(None if lag.owner is None else lag.owner.client_id),
        )
        for lag in lags
    ]  # fmt: skip
    heading = (
        "GROUP", "TOPIC", "PARTITION", *(["LEADER-EPOCH"] if verbose else ()), "CURRENT-OFFSET",
        "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
    )  # fmt: skip
    grows = {"GROUP", "TOPIC", "CONSUMER-ID", "HOST"}
    fixed = {"PARTITION": 10, "CLIENT-ID": 0}
    widths = [
        max(WIDTH, *(len(row[at]) for row in rows)) if name in grows else fixed.get(name, WIDTH)
        for at, name in enumerate(heading)
    ]
    return ["", *(_line(row, widths) for row in (heading, *rows))]


def _leader_epoch(lag: PartitionLag) -> str:
    epoch = -1 if lag.committed is None else lag.committed.leader_epoch
    return "-" if epoch < 0 else str(epoch)


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
    if verbose:
        heading += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        for row, m in zip(rows, group.members, strict=True):
            target = None if m.target is None else _assigned(m.target)
            row += [
                _cell(m.member_epoch), _assigned(m.assignment), _cell(group.assignment_epoch),
                _cell(target),
            ]  # fmt: skip
        widths += [
            max([least, *(len(row[len(widths) + at]) for row in rows)])
            for at, least in enumerate((15, 20, 15, 20))
        ]
    end = "" if verbose else " "
    return ["", *(_line(row, widths) + end for row in (heading, *rows))]


def _assigned(partitions: Iterable[TopicPartition]) -> str:
    return assignment_text(partitions) or "-"


async def _state_lines(admin: Admin, group: GroupDescription, *, verbose: bool) -> list[str]:
    brokers = {b.broker_id: b.endpoint for b in (await admin.describe_cluster()).brokers}
    where = f"{brokers.get(group.coordinator_id, '-')}  ({group.coordinator_id})"
    heading = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    row = [group.group_id, where, _cell(group.assignor), group.state]
    widths = [max(WIDTH, len(group.group_id)), max(25, len(where)), 20, 20]
    if verbose:
        heading += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [_cell(group.epoch), _cell(group.assignment_epoch)]
        widths += [15, 25]
    heading.append("#MEMBERS")
    row.append(str(len(group.members)))
    widths.append(0)
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
    if isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        error = KafkaError("This server does not host this topic-partition.", code=error.code)
    return java_error(error)


async def _delete_offsets(admin: Admin, given: Given) -> list[str]:
    name = given.one("group")
    partitions, rows = await _to_forget(admin, _scope(given))
    words = f"Request succeeded for deleting offsets from group {name}."
    results: Mapping[TopicPartition, QuorateError | None] = {}
    try:
        results = await admin.delete_group_offsets(name, partitions) if partitions else {}
    except KafkaError as error:
        results = dict.fromkeys(partitions, error)
        words = f"\nError: {message_of(error)}"
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            words = "\nError: The group id does not exist."
    else:
        if any(error is not None for error in results.values()):
            words = "\nError: Encountered some partition-level error, see the follow-up details."
    rows += [
        (p.topic, str(p.partition), "Successful" if e is None else f"Error: {_deletion_error(e)}")
        for p, e in results.items()
    ]
    widths = (WIDTH, 10, WIDTH)
    return [words, "", *(_line(row, widths) for row in (("TOPIC", "PARTITION", "STATUS"), *rows))]


async def _to_forget(
    admin: Admin, scope: Mapping[str, tuple[int, ...] | None]
) -> tuple[list[TopicPartition], list[tuple[str, str, str]]]:
    """Return the partitions that are meant, and rows for the topics that there are not."""
    found = [TopicPartition(t, n) for t, numbers in scope.items() for n in numbers or ()]
    missing: list[tuple[str, str, str]] = []
    whole = [topic for topic, numbers in scope.items() if numbers is None]
    for topic, described in (await admin.describe_topics(whole) if whole else {}).items():
        if isinstance(described, QuorateError):
            missing.append((topic, "-", f"Error: {_deletion_error(described)}"))
        else:
            found += [TopicPartition(topic, each.partition) for each in described.partitions]
    return found, missing


def _scope(given: Given) -> dict[str, tuple[int, ...] | None]:
    """Return the topics of a command line, and their partitions.

    Raises:
        ShimError: one names no partitions.
    """
    try:
        return parse_scope(given.all("topic"))
    except UsageError as error:
        raise ShimError(f"{error.what}: {error.why}") from None


# --- reset


async def _reset(admin: Admin, given: Given) -> list[str]:
    executes = "execute" in given
    if executes and "dry-run" in given:
        raise ShimError("Option --execute and --dry-run can't be used together")
    if not executes and "dry-run" not in given:
        sys.stderr.write(MISSING_EXECUTE + "\n")
    names = await _names(admin, given)
    plans: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
    for name in names:
        found = (await admin.describe_groups([name]))[name]
        if not isinstance(found, QuorateError) and found.state not in {"Empty", "Dead"}:
            raise ShimError(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, but "
                f"the current state is {found.state}.",
                status=0,
                on_stdout=True,
            )
        plans[name] = planned = await _plan(admin, given, name)
        if executes:
            for error in (await admin.alter_group_offsets(name, planned)).values():
                if error is not None:
                    raise error
    if "export" in given:
        return [*_exported(plans, named=len(given.all("group")) != 1).splitlines(), ""]
    rows = [
        (name, p.topic, str(p.partition), str(at.offset))
        for name, planned in plans.items()
        for p, at in planned.items()
    ]
    widths = [max([WIDTH, *(len(row[column]) for row in rows)]) for column in (0, 1)]
    heading = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    return ["", *(_line(row, (*widths, 10, 0)) for row in (heading, *rows))]


def _exported(
    plans: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]], *, named: bool
) -> str:
    """Return what ``--from-file`` reads; unless it is of one group, lines begin with theirs."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        (*([name] if named else ()), p.topic, p.partition, at.offset)
        for name, planned in plans.items()
        for p, at in planned.items()
    )
    return out.getvalue()


async def _plan(admin: Admin, given: Given, name: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return where the group goes on.

    Raises:
        ShimError: it is not said, or no partition is.
    """
    chosen = {to: given.one(to.value[2:]) for to in To if to.value[2:] in given}
    if To.FILE in chosen:
        chosen[To.FILE] = _file(chosen[To.FILE])
    try:
        spec = parse_spec(chosen, name, time.time_ns() // 1_000_000)
    except UsageError as error:
        raise ShimError(f"{error.what}: {error.why}") from None
    scope = _scope(given)
    current = await admin.list_group_offsets(name)
    if spec.offsets is not None:
        partitions = list(spec.offsets)
    elif scope:
        partitions = await _scoped(admin, scope)
    elif "all-topics" in given:
        partitions = list(current)
    else:
        raise ShimError("One of the reset scopes should be defined: --all-topics, --topic.")
    bounds = {p: told(b) for p, b in (await bounds_of(admin, partitions)).items()}
    by_time: dict[TopicPartition, int] = {}
    if spec.time_ms is not None:
        found = await admin.list_offsets(dict.fromkeys(partitions, spec.time_ms))
        by_time = {p: at.offset for p, each in found.items() if (at := told(each)).offset >= 0}
    changes = plan_changes(spec, partitions, current, bounds, by_time)
    return {change.partition: change.new for change in changes if change.new is not None}


def _file(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ShimError(f"Unable to read file {path}: {error}") from None


async def _scoped(
    admin: Admin, scope: Mapping[str, tuple[int, ...] | None]
) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for topic, described in (await admin.describe_topics(scope)).items():
        numbers = [partition.partition for partition in told(described).partitions]
        missing = [f'"{topic}-{n}"' for n in scope[topic] or () if n not in numbers]
        if missing:
            raise QuorateError(f"The partitions {', '.join(missing)} do not exist")
        found += [TopicPartition(topic, n) for n in numbers if has(scope[topic], n)]
    return found
