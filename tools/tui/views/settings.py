"""Settings as a table, and what an edit of them changes."""

from collections.abc import Mapping
from typing import Final

from quorate.client.admin_results import ConfigChange, ConfigEntry, ConfigOperation, ResourceType
from quorate.dataclass import dataclass
from quorate.tools.configs import SOURCES, parse_resource
from quorate.tools.tui.views.cells import Column, Frame, Line, Part, Row, Tone, text_cell
from quorate.tools.tui.views.snapshot import Snapshot

HIDDEN: Final = "(hidden)"
OWN_SOURCES: Final = {ResourceType.TOPIC: 1, ResourceType.BROKER: 2, ResourceType.GROUP: 8}
"""The protocol's numbers of values that were set on a resource itself."""

ALL_BROKERS_SOURCE: Final = 3

CONFIG_COLUMNS: Final = (
    Column("name", shrinks=True), Column("value", shrinks=True), Column("source"),
    Column("access", wide_only=True), Column("meaning", wide_only=True),
)  # fmt: skip


def configs_frame(snapshot: Snapshot, resource: str) -> Frame:
    """Return a row for each setting; those that somebody made come first."""
    entries = snapshot.configs.get(resource, {})
    ordered = sorted(entries.values(), key=lambda entry: (entry.is_default, entry.name))
    rows = tuple(_config_row(entry) for entry in ordered)
    return Frame(f"configs of {resource}", CONFIG_COLUMNS, rows, f"nothing known of {resource}")


def _config_row(entry: ConfigEntry) -> Row:
    source = SOURCES.get(entry.source, str(entry.source))
    cells = (
        text_cell(entry.name, Tone.PLAIN if entry.is_default else Tone.STRONG),
        text_cell(value_shown(entry), Tone.PLAIN if entry.is_default else Tone.ACCENT),
        text_cell(source, Tone.DIM if entry.is_default else Tone.ACCENT),
        text_cell("read-only" if entry.is_read_only else "", Tone.DIM),
        text_cell(entry.documentation, Tone.DIM),
    )
    return Row(entry.name, cells, entry.name)


def value_shown(entry: ConfigEntry) -> str:
    """Return a value as a person may see it."""
    return HIDDEN if entry.is_sensitive else entry.value or ""


def own_values(resource: str, entries: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """Return what was set on a resource itself, by name; secrets are left out."""
    whose = parse_resource(resource)
    of_all = whose.type is ResourceType.BROKER and not whose.name
    own = ALL_BROKERS_SOURCE if of_all else OWN_SOURCES[whose.type]
    return {
        entry.name: entry.value or ""
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if entry.source == own and not entry.is_sensitive
    }


def editable_text(values: Mapping[str, str]) -> str:
    """Return settings as a text that somebody edits: a line each."""
    return "".join(f"{name}={value}\n" for name, value in values.items())


class EditError(Exception):
    """An edited text cannot be read."""


def parse_edited(text: str) -> dict[str, str]:
    """Return the settings of an edited text.

    Raises:
        EditError: a line is no setting, or a name comes twice.
    """
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (word.strip() for word in line.partition("="))
        if not equals or not name:
            raise EditError(f"line {number} is no name=value: {line.strip()}")
        if name in values:
            raise EditError(f"line {number} sets {name} a second time")
        values[name] = value
    return values


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that an edit changes; None is "not set here"."""

    name: str
    before: str | None
    after: str | None

    @property
    def change(self) -> ConfigChange:
        """What to ask a broker for."""
        if self.after is None:
            return ConfigChange(self.name, None, ConfigOperation.DELETE)
        return ConfigChange(self.name, self.after)


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return what an edit changes, by name."""
    return tuple(
        Difference(name, before.get(name), after.get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


def diff_lines(found: tuple[Difference, ...]) -> list[Line]:
    """Return differences as ``diff`` writes them: what goes, what comes."""
    lines: list[Line] = []
    for each in found:
        if each.before is not None:
            lines.append((Part(f"- {each.name}={each.before}", Tone.BAD),))
        if each.after is None:
            lines.append((Part(f"  {each.name} goes back to its default", Tone.DIM),))
        else:
            lines.append((Part(f"+ {each.name}={each.after}", Tone.GOOD),))
    return lines
