"""Profiles: clusters under names, so that nobody types their addresses and settings again.

One file for all, ``~/.config/quorate/profiles.json`` unless the environment says otherwise; only
its owner may read it, because passwords of keys may stand in it.
"""

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.tools.arguments import GlobalOptions
from quorate.tools.output import Column, Table
from quorate.tools.problems import CommandError, UsageError
from quorate.tools.whole_files import replace_file

FILE_VARIABLE: Final = "QUORATE_PROFILES"
"""Where the file is, if it is elsewhere."""

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Profile:
    """What the options -b, -C, -F and -X say, kept under a name.

    Attributes:
        bootstrap: Brokers, ``host:port[,...]``; empty: not said.
        controllers: Controllers, in the same form.
        command_config: A file with client properties; absolute.
        properties: Client properties by name; they win over those of the file.
    """

    bootstrap: str = ""
    controllers: str = ""
    command_config: str = ""
    properties: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles, and the one in use; empty: none."""

    current: str = ""
    by_name: Mapping[str, Profile] = field(default_factory=dict[str, Profile])

    def get(self, name: str) -> Profile:
        """Return a profile.

        Raises:
            UsageError: There is none of that name.
        """
        if name in self.by_name:
            return self.by_name[name]
        near = difflib.get_close_matches(name, self.by_name, n=1, cutoff=0.5)
        known = ", ".join(self.by_name) or "none yet"
        raise UsageError(
            f"there is no profile {name!r}",
            why=f"did you mean {near[0]}?" if near else f"profiles: {known}",
            hint=f"quorate profile add {name} -b HOST:PORT",
        )

    def with_profile(self, name: str, profile: Profile) -> "Profiles":
        """Return them with one more, or another of that name."""
        return replace(self, by_name={**self.by_name, name: profile})

    def without(self, name: str) -> "Profiles":
        """Return them without one, which is not in use any more, either."""
        self.get(name)
        kept = {other: profile for other, profile in self.by_name.items() if other != name}
        return Profiles("" if self.current == name else self.current, kept)

    def used(self, name: str) -> "Profiles":
        """Return them with another in use; none, if the name is empty."""
        if name:
            self.get(name)
        return replace(self, current=name)

    def table(self) -> Table:
        """Return them for people and programs; the first column is the name."""
        columns = (
            Column("name"), Column("in_use"), Column("bootstrap"), Column("controllers"),
            Column("properties", wide_only=True),
        )  # fmt: skip
        rows = (
            (name, name == self.current, p.bootstrap or None, p.controllers or None,
             [f"{key}={shown(key, value)}" for key, value in sorted(p.properties.items())])
            for name, p in sorted(self.by_name.items())
        )  # fmt: skip
        return Table("profiles", columns, tuple(rows))


def shown(name: str, value: str) -> str:
    """Return a property's value as it may be shown."""
    return "********" if "password" in name.lower() else value


def profiles_path(environment: Mapping[str, str]) -> Path:
    """Return where profiles are kept."""
    if environment.get(FILE_VARIABLE):
        return Path(environment[FILE_VARIABLE])
    home = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME") or "~", ".config")
    return Path(home, "quorate", "profiles.json").expanduser()


def read_profiles(path: Path) -> Profiles:
    """Return the profiles of a file; none, if it is not there.

    Raises:
        CommandError: It is no file of profiles.
    """
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        named = {name: Profile(**said) for name, said in document["profiles"].items()}
        return Profiles(str(document["current"]), named)
    except FileNotFoundError:
        return Profiles()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(
            f"cannot read the profiles in {path}",
            why=str(error),
            hint="mend the file, or remove it",
        ) from None


def write_profiles(path: Path, profiles: Profiles) -> None:
    """Replace the file as a whole; only its owner can read it.

    Raises:
        CommandError: It cannot be written.
    """
    said = {name: asdict(profile) for name, profile in profiles.by_name.items()}
    document = {"version": VERSION, "current": profiles.current, "profiles": said}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(document, indent=2) + "\n", mode=0o600)
    except OSError as error:
        raise CommandError(
            f"cannot write {path}", why=error.strerror or str(error), hint=f"{FILE_VARIABLE}=FILE"
        ) from None


def profile_of(options: GlobalOptions, environment: Mapping[str, str]) -> Profile | None:
    """Return the profile that holds for a command, if one does.

    One that is named does; the one in use does if neither the options nor the environment say where
    a cluster is. So nobody's TLS settings go to another cluster.

    Raises:
        UsageError: There is none of that name.
    """
    path = profiles_path(environment)
    if options.profile:
        return read_profiles(path).get(options.profile)
    elsewhere = any(text.startswith("bootstrap.servers") for text in options.properties)
    if options.bootstrap or elsewhere or options.controllers or options.command_config:
        return None
    if environment.get("QUORATE_BOOTSTRAP"):
        return None
    profiles = read_profiles(path)
    return profiles.get(profiles.current) if profiles.current else None
