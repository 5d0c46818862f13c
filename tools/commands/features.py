"""``quorate features``."""

from typing import TYPE_CHECKING, Annotated

import typer

from quorate.tools.command_line import Command, DryRun, Yes, noun_app, options_of
from quorate.tools.session import confirm, print_table, run, say
from quorate.tools.topic_options import client_of

if TYPE_CHECKING:
    from quorate.client.admin_results import FeatureUpgrade
    from quorate.tools.arguments import GlobalOptions
    from quorate.tools.features import Feature, LevelChange

app = noun_app("Show and change the levels of features that a cluster works at.")

Levels = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME=LEVEL]...", help="Features, and their levels.")
]
Named = Annotated[list[str] | None, typer.Option("--feature", help="NAME=LEVEL, as Kafka says it.")]


@app.command("describe", cls=Command)
def describe(context: typer.Context) -> None:
    """Show each feature: what all brokers support, what the cluster works at.

    Brokers that support less than others hold it back: upgrade them, then the level.
    """
    from quorate.tools.features import features_table, look

    options = options_of(context)
    print_table(options, features_table(run(look, client_of(options))))


@app.command("upgrade", cls=Command)
def upgrade(
    context: typer.Context,
    levels: Levels = None,
    *,
    named: Named = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Work at higher levels: all features at the highest of every broker, if none are named.

    To be said when the last node of a rolling upgrade runs the new version.
    """
    from quorate.client.admin_results import FeatureUpgrade

    del yes  # nothing is lost, so nobody is asked; scripts may say so all the same
    options = options_of(context)
    changes = _plan(options, [*(levels or ()), *(named or ())])
    _change(options, changes, FeatureUpgrade.UPGRADE, dry_run=dry_run)


@app.command("downgrade", cls=Command)
def downgrade(
    context: typer.Context,
    levels: Levels = None,
    *,
    named: Named = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Even if something is lost by it, where that can be.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Work at lower levels; 0 switches a feature off."""
    from quorate.client.admin_results import FeatureUpgrade
    from quorate.tools.problems import UsageError

    options = options_of(context)
    wanted = [*(levels or ()), *(named or ())]
    if not wanted:
        raise UsageError(
            "name a feature and a level",
            why="nothing is lowered by itself",
            hint="quorate features downgrade transaction.version=1",
        )
    changes = _plan(options, wanted)
    way = FeatureUpgrade.UNSAFE_DOWNGRADE if unsafe else FeatureUpgrade.SAFE_DOWNGRADE
    if changes and not dry_run:
        confirm("Work at lower levels?", yes=yes)
    _change(options, changes, way, dry_run=dry_run)


def _plan(options: "GlobalOptions", wanted: list[str]) -> list["LevelChange"]:
    from quorate.tools.features import changes_table, look, plan_changes

    found: list[Feature] = run(look, client_of(options))
    changes = plan_changes(found, wanted)
    if not options.quiet and (changes or options.format not in {"table", "wide"}):
        print_table(options, changes_table(changes))
    return changes


def _change(
    options: "GlobalOptions",
    changes: list["LevelChange"],
    way: "FeatureUpgrade",
    *,
    dry_run: bool,
) -> None:
    from quorate.tools.features import change

    if not changes:
        say(options, "nothing to do: the levels are so already")
        return
    run(change, client_of(options), changes, way, validate_only=dry_run)
    for each in changes:
        verb = "would work" if dry_run else "works"
        said = (
            f"{verb} at {each.after}" if each.after else ("would be off" if dry_run else "is off")
        )
        say(options, f"{each.name} {said}")
