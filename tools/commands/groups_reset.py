"""``quorate groups reset``, ``undo`` and ``delete-offsets``: where groups go on."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import options_of
from quorate.tools.problems import CommandError, UsageError
from quorate.tools.session import confirm, note, print_table, run, say, standard_input
from quorate.tools.topic_options import client_of

if TYPE_CHECKING:
    from quorate.tools.arguments import GlobalOptions
    from quorate.tools.groups.resetting import Spec
    from quorate.tools.groups_work import Planned
    from quorate.tools.topics import Client

GroupId = Annotated[str | None, typer.Argument(metavar="GROUP", help="The group.")]
Named = Annotated[str | None, typer.Option("--group", help="The same.")]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", "-t", help="A topic, or partitions of one: t:0,1.")
]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; else it is only shown.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show it; this is the default.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
NoUndo = Annotated[bool, typer.Option("--no-undo", help="Do not keep what there was.")]


def _group(positional: str | None, option: str | None) -> str:
    group_id = positional or option
    if not group_id:
        raise UsageError("name a group", why="none is named", hint="quorate groups list")
    return group_id


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def reset(
    context: typer.Context,
    group_id: GroupId = None,
    *,
    group: Named = None,
    all_groups: Annotated[
        bool, typer.Option("--all-groups", help="All groups without members.")
    ] = False,
    topic: Topics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All that it has read; this is the default.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Where logs begin.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Where logs end.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Where it is, within what logs have.")
    ] = False,
    to_offset: Annotated[str | None, typer.Option("--to-offset", help="This offset.")] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option("--to-datetime", help="The first record of a time: 2026-03-01T10:00, -1h."),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", help="So long ago: 90m, PT1H30M.")
    ] = None,
    shift_by: Annotated[
        str | None, typer.Option("--shift-by", help="So many records on, or back: -100.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option("--from-file", help="Lines of [group,]topic,partition,offset.")
    ] = None,
    export: Annotated[
        bool, typer.Option("--export", help="Print the plan as --from-file reads it.")
    ] = False,
    execute: Execute = False,
    dry_run: DryRun = False,
    no_undo: NoUndo = False,
) -> None:
    """Have a group go on elsewhere. Shows where; does it with --execute; "undo" takes it back.

    Offsets outside of a log become its nearest end. The group must have no members.
    """
    from quorate.tools.groups.resetting import To, parse_spec

    options = options_of(context)
    if all_groups:
        _check_all_groups(group_id or group, from_file)
    name = "" if all_groups else _group(group_id, group)
    flags = {To.EARLIEST: to_earliest, To.LATEST: to_latest, To.CURRENT: to_current}
    given: dict[To, str] = {to: "" for to, is_given in flags.items() if is_given}
    texts = {
        To.OFFSET: to_offset, To.DATETIME: to_datetime, To.DURATION: by_duration,
        To.SHIFT: shift_by, To.FILE: None if from_file is None else _read(from_file),
    }  # fmt: skip
    given |= {to: text for to, text in texts.items() if text is not None}
    spec: Spec = parse_spec(given, name, _now_ms())
    _check_scope(topic, all_topics=all_topics, execute=execute, dry_run=dry_run)
    plans = _plans(options, name, spec, topic or ())
    _show(options, plans, export=export)
    for planned in plans:
        if execute:
            _do(options, client_of(options), planned, f"reset {spec.to.value}", keep=not no_undo)
        else:
            _tell_preview(options, planned)


def _plans(
    options: "GlobalOptions", name: str, spec: "Spec", scope: Sequence[str]
) -> "list[Planned]":
    """Return what becomes of a group, or without a name of all that have no members."""
    from quorate.tools import groups_work as work

    client = client_of(options)
    if name:
        return [run(work.plan_reset, client, name, spec, scope)]
    plans: list[Planned] = run(work.plan_reset_of_all, client, spec, scope)
    for planned in plans:
        if planned.members:
            note(options, f"Group {planned.group_id} has members, and is left as it is.")
    return [planned for planned in plans if not planned.members]


def _show(options: "GlobalOptions", plans: "Sequence[Planned]", *, export: bool) -> None:
    from quorate.tools.groups.resetting import format_offsets, plan_table, plans_table

    if export:
        for planned in plans:
            group_id = planned.group_id if len(plans) > 1 else None
            sys.stdout.write(format_offsets(planned.changes, group_id))
    elif len(plans) == 1:
        print_table(options, plan_table(plans[0].group_id, plans[0].changes))
    else:
        print_table(options, plans_table({p.group_id: p.changes for p in plans}))


def _check_all_groups(name: str | None, from_file: Path | None) -> None:
    if name or from_file is not None:
        raise UsageError(
            "--all-groups goes with neither a group nor --from-file",
            why="they say which group is meant", hint="leave one out",
        )  # fmt: skip


def _check_scope(
    topic: list[str] | None, *, all_topics: bool, execute: bool, dry_run: bool
) -> None:
    if topic and all_topics:
        raise UsageError(
            "--topic and --all-topics exclude each other", why="one is part of the other",
            hint="leave one out",
        )  # fmt: skip
    if execute and dry_run:
        raise UsageError(
            "--execute and --dry-run exclude each other", why="one does what the other only shows",
            hint="leave one out",
        )  # fmt: skip


def _read(path: Path) -> str:
    try:
        return standard_input().read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {path}", why=str(error), hint="--export writes such a file"
        ) from None


def _tell_preview(options: "GlobalOptions", planned: "Planned") -> None:
    from quorate.tools.groups_work import check_idle
    from quorate.tools.problems import RefusedError

    try:
        check_idle(planned)
    except RefusedError as refused:
        note(options, f"This would be refused: {refused.why}; {refused.hint}.")
        return
    if planned.effective:
        note(options, "Nothing was done: add --execute to do it.")
    else:
        note(options, "It is so already.")


def _do(
    options: "GlobalOptions", client: "Client", planned: "Planned", why: str, *, keep: bool
) -> None:
    from quorate.tools import groups_work as work
    from quorate.tools.groups.undoing import before_of
    from quorate.tools.undo_files import UndoFiles, state_directory

    if not planned.effective:
        note(options, "It is so already.")
        return
    work.check_idle(planned)
    files = UndoFiles(state_directory(os.environ), planned.cluster_id, planned.group_id)
    if keep:
        files.keep(before_of(planned.group_id, _now_ms(), why, planned.changes))
    run(work.carry_out, client, planned)
    if keep:
        note(options, f"To take it back: quorate groups undo {planned.group_id} --execute")


def undo(
    context: typer.Context,
    group_id: GroupId = None,
    *,
    group: Named = None,
    listed: Annotated[bool, typer.Option("--list", help="Show what can be undone.")] = False,
    execute: Execute = False,
    dry_run: DryRun = False,
) -> None:
    """Take back the last change of a group's offsets that was made from this account.

    Shows what that would be; does it with --execute. Again, it takes back the change before.
    """
    from quorate.tools import groups_work as work
    from quorate.tools.groups.resetting import plan_table
    from quorate.tools.groups.undoing import kept_table, plan_undo
    from quorate.tools.undo_files import UndoFiles, state_directory

    options = options_of(context)
    name = _group(group_id, group)
    _check_scope(None, all_topics=False, execute=execute, dry_run=dry_run)
    client = client_of(options)
    cluster_id, described, current = run(work.offsets_now, client, name)
    files = UndoFiles(state_directory(os.environ), cluster_id, name)
    kept = files.read()
    if listed:
        print_table(options, kept_table(kept))
        return
    if not kept:
        raise CommandError(
            f"nothing of Consumer group '{name}' can be undone",
            why="no change of its offsets was made from this account",
            hint="quorate groups reset",
        )
    planned = work.Planned(cluster_id, name, described, tuple(plan_undo(kept[0], current)))
    print_table(options, plan_table(name, planned.changes))
    if not execute:
        _tell_preview(options, planned)
        return
    _do(options, client, planned, "undo", keep=False)
    files.forget(kept[0])


def delete_offsets(
    context: typer.Context,
    group_id: GroupId = None,
    *,
    group: Named = None,
    topic: Topics = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show it.")] = False,
    no_undo: NoUndo = False,
    yes: Yes = False,
) -> None:
    """Have a group forget how far it has read topics: of which no member is subscribed to."""
    from quorate.tools import groups_work as work
    from quorate.tools.groups.resetting import Change, parse_scope, plan_table
    from quorate.tools.groups.undoing import before_of
    from quorate.tools.undo_files import UndoFiles, state_directory

    options = options_of(context)
    name = _group(group_id, group)
    if not topic:
        raise UsageError(
            "name topics", why="none is named", hint=f"quorate groups delete-offsets {name} -t t"
        )
    client = client_of(options)
    cluster_id, described, current = run(work.offsets_now, client, name)
    if described is None:
        raise work.no_group(name)
    scope = parse_scope(topic)
    changes = [
        Change(partition, had, None)
        for partition, had in sorted(current.items())
        if partition.topic in scope and work.has(scope[partition.topic], partition.partition)
    ]
    if not changes:
        say(options, f"Consumer group '{name}' has read none of them.")
        return
    print_table(options, plan_table(name, changes))
    if dry_run:
        return
    confirm(f"Forget {len(changes)} offsets of {name}?", yes=yes)
    if not no_undo:
        files = UndoFiles(state_directory(os.environ), cluster_id, name)
        files.keep(before_of(name, _now_ms(), "delete-offsets", changes))
    run(work.forget, client, name, [change.partition for change in changes])
