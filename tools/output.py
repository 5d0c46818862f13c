"""What commands print: a table for people, or JSON, JSON lines, YAML or names for programs."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from quorate.dataclass import dataclass

SCHEMA_VERSION: Final = 1
"""Of the JSON and YAML forms; grows when a column of theirs changes its meaning or goes."""

_GAP: Final = "  "
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``name`` is the key in JSON and, in capitals, the heading of a table.

    ``title`` is a heading that is written otherwise.
    """

    name: str
    wide_only: bool = False
    title: str = ""

    @property
    def heading(self) -> str:
        """The heading in a table."""
        return self.title or self.name.upper().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values under columns; ``kind`` names what a row is, in the plural."""

    kind: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]

    def items(self) -> list[dict[str, Any]]:
        """Return each row as a mapping by column name."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]


def render(table: Table, style: str) -> str:
    """Return a table as text that ends in a newline, or is empty."""
    match style:
        case "json":
            document = {"kind": table.kind, "version": SCHEMA_VERSION, "items": table.items()}
            return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        case "jsonl":
            return "".join(json.dumps(i, ensure_ascii=False) + "\n" for i in table.items())
        case "yaml":
            document = {"kind": table.kind, "version": SCHEMA_VERSION, "items": table.items()}
            return "\n".join(_yaml(document, "")) + "\n"
        case "name":
            return "".join(f"{row[0]}\n" for row in table.rows)
        case _:
            return _aligned(table, wide=style == "wide")


def document_text(document: dict[str, Any], style: str) -> str:
    """Return a document, which is no table, as JSON, as JSON in one line, or as YAML."""
    # As JSON has it, so that YAML has nothing that JSON lacks.
    plain = json.loads(json.dumps(document, default=str))
    match style:
        case "yaml":
            return "\n".join(_yaml(plain, "")) + "\n"
        case "jsonl":
            return json.dumps(plain, ensure_ascii=False) + "\n"
        case _:
            return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _aligned(table: Table, *, wide: bool) -> str:
    shown = [i for i, column in enumerate(table.columns) if wide or not column.wide_only]
    lines = [[table.columns[i].heading for i in shown]]
    lines += [[cell_text(row[i]) for i in shown] for row in table.rows]
    widths = [max(text_width(line[at]) for line in lines) for at in range(len(shown))]
    padded = (
        _GAP.join(
            cell + " " * (width - text_width(cell))
            for cell, width in zip(line, widths, strict=True)
        )
        for line in lines
    )
    return "".join(line.rstrip() + "\n" for line in padded)


def text_width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # what most commands show needs nothing of it

    return cell_len(text)


def cell_text(value: object) -> str:
    """Return a value as a cell of a table shows it."""
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return ",".join(cell_text(item) for item in cast("list[object]", value))
        case _:
            return harmless(str(value))


def harmless(text: str, keep: str = "") -> str:
    """Return a text for people, with control characters but those of ``keep`` as escapes.

    Any client may call itself or its group what it likes; a terminal would do what that says.
    """

    def escaped(found: re.Match[str]) -> str:
        return found[0] if found[0] in keep else found[0].encode("unicode_escape").decode()

    return _CONTROLS.sub(escaped, text)


def _yaml(value: Any, indent: str) -> Iterator[str]:
    """YAML is JSON for scalars and empty containers, which spares all questions of quoting."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _yaml_entry(f"{indent}{json.dumps(key)}:", inner, indent)
    elif isinstance(value, list | tuple) and value:
        for inner in value:  # pyright: ignore[reportUnknownVariableType]
            lines = list(_yaml(inner, indent + "  "))
            yield f"{indent}- {lines[0].lstrip()}"
            yield from lines[1:]
    else:
        yield indent + json.dumps(value, ensure_ascii=False)


def _yaml_entry(lead: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict | list | tuple) and value:
        yield lead
        yield from _yaml(value, indent + "  ")
    else:
        yield f"{lead} {json.dumps(value, ensure_ascii=False)}"


def bytes_text(size_bytes: float) -> str:
    """Return a number of bytes as people read it, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


def id_text(value: bytes) -> str:
    """Return an id of 16 bytes as Kafka writes it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def topic_config_text(configs: Sequence[tuple[str, str]]) -> str:
    """Return a topic's own properties as Kafka's tools print them."""
    return ",".join(f"{name}={value}" for name, value in configs)
