"""``quorate profile``."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from quorate.tools.arguments import parse_properties
from quorate.tools.command_line import Command, noun_app, options_of
from quorate.tools.output import document_text
from quorate.tools.problems import UsageError
from quorate.tools.profiles import (
    Profile,
    profiles_path,
    read_profiles,
    shown,
    write_profiles,
)
from quorate.tools.session import print_table, say

app = noun_app("Keep clusters under names: addresses, TLS, other client properties.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the cluster is called here.")]


@app.command(
    "add",
    cls=Command,
)
def add(
    context: typer.Context,
    name: Name,
    *,
    use: Annotated[bool, typer.Option("--use", help="Use it from now on.")] = False,
) -> None:
    """Keep what -b, -C, -F and -X say under a name; another one of that name goes.

    quorate --profile NAME ... is then the same as to write it all; quorate profile use NAME spares
    that, too. Options and QUORATE_BOOTSTRAP still win over the profile in use.
    """
    options = options_of(context)
    if not (options.bootstrap or options.controllers or options.command_config):
        raise UsageError(
            "say where the cluster is", why="a profile is what -b, -C, -F and -X say",
            hint=f"quorate profile add {name} -b HOST:PORT",
        )  # fmt: skip
    if not name.strip() or name.startswith("-"):
        raise UsageError(f"{name!r} is no name", why="it is empty, or an option", hint="prod")
    config = str(Path(options.command_config).absolute()) if options.command_config else ""
    profile = Profile(
        options.bootstrap, options.controllers, config, _properties(options.properties)
    )
    path = profiles_path(os.environ)
    profiles = read_profiles(path).with_profile(name, profile)
    write_profiles(path, profiles.used(name) if use else profiles)
    how = "it is in use" if use else f"quorate profile use {name}, or --profile {name}, uses it"
    say(options, f"Kept profile {name}; {how}.")


app.command("create", cls=Command, hidden=True)(add)


def _properties(texts: tuple[str, ...]) -> dict[str, str]:
    """Return properties that some command knows.

    Raises:
        UsageError: None knows one.
    """
    from quorate.tools.client_properties import CONSUMER, PRODUCER, check_properties

    properties = parse_properties(texts)
    check_properties(properties, {**PRODUCER, **CONSUMER})
    return properties


@app.command("list", cls=Command)
def list_profiles(context: typer.Context) -> None:
    """List the profiles; the one in use says so."""
    options = options_of(context)
    profiles = read_profiles(profiles_path(os.environ))
    if not profiles.by_name:
        say(options, "No profiles yet; quorate profile add prod -b HOST:PORT keeps one.")
    if profiles.by_name or options.format not in {"table", "wide"}:
        print_table(options, profiles.table())


@app.command("use", cls=Command)
def use(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Which.")] = "",
    *,
    none: Annotated[bool, typer.Option("--none", help="Use none from now on.")] = False,
) -> None:
    """Use a profile from now on, in all shells."""
    options = options_of(context)
    if bool(name) == none:
        raise UsageError("name a profile, or say --none", why="one of them", hint="profile list")
    path = profiles_path(os.environ)
    profiles = read_profiles(path).used(name)
    write_profiles(path, profiles)
    where = profiles.get(name).bootstrap or profiles.get(name).controllers if name else ""
    say(options, f"Using {name}: {where}." if name else "Using no profile.")


@app.command("show", cls=Command)
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The one in use.")] = "",
) -> None:
    """Show what a profile says; passwords are left out."""
    options = options_of(context)
    profiles = read_profiles(profiles_path(os.environ))
    wanted = name or options.profile or profiles.current
    if not wanted:
        raise UsageError(
            "no profile is in use", why="none was named either", hint="quorate profile list"
        )
    profile = profiles.get(wanted)
    said = {
        "name": wanted,
        "in_use": wanted == profiles.current,
        "bootstrap": profile.bootstrap,
        "controllers": profile.controllers,
        "command_config": profile.command_config,
        "properties": {key: shown(key, value) for key, value in profile.properties.items()},
    }
    if options.format in {"table", "wide", "name"}:
        for key, value in said.items():
            if isinstance(value, dict):
                sys.stdout.writelines(f"{inner}: {text}\n" for inner, text in value.items())
            elif value != "":
                print(f"{key}: {str(value).lower() if isinstance(value, bool) else value}")
    else:
        sys.stdout.write(document_text(said, options.format))


@app.command("remove", cls=Command)
def remove(context: typer.Context, name: Name) -> None:
    """Forget a profile."""
    options = options_of(context)
    path = profiles_path(os.environ)
    write_profiles(path, read_profiles(path).without(name))
    say(options, f"Removed profile {name}.")
