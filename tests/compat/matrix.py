"""Who can do what with this broker: the outcomes of the compatibility tests as a page."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

INTRODUCTION = """\
# Compatibility

Unmodified clients of other people against one Quorate node.  Every mark is the outcome of a test in
`tests/compat`; `make compat` runs them and writes this page.

More programs, and what was tried with them by hand: [ecosystem](ecosystem.md).

✓ works · ✗ does not · n/a: not offered by the client · ?: not tested, the client was missing
"""


class Outcome(IntEnum):
    """What came of the tests of a feature with a client; a higher one decides."""

    UNAVAILABLE = 0
    NOT_OFFERED = 1
    PASSED = 2
    FAILED = 3


MARKS = {
    Outcome.UNAVAILABLE: "?",
    Outcome.NOT_OFFERED: "n/a",
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
}


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one test; `section` is what its file is about."""

    section: str
    feature: str
    client: str
    outcome: Outcome


def render(results: Iterable[Result], versions: Mapping[str, str]) -> str:
    """Return the page: a table for each section, features by clients."""
    sections: dict[str, dict[str, dict[str, Outcome]]] = {}
    for result in results:
        row = sections.setdefault(result.section, {}).setdefault(result.feature, {})
        row[result.client] = max(result.outcome, row.get(result.client, Outcome.UNAVAILABLE))
    parts = [INTRODUCTION, _table(["Client", "Version"], sorted(map(list, versions.items())))]
    columns = {
        section: list(dict.fromkeys(client for row in rows.values() for client in row))
        for section, rows in sections.items()
    }
    for section in sorted(sections, key=lambda section: -len(columns[section])):
        rows, clients = sections[section], columns[section]
        lines = [
            [feature, *(MARKS[row[c]] if c in row else " " for c in clients)]
            for feature, row in rows.items()
        ]
        parts += [f"## {section}\n", _table(["", *clients], lines)]
    return "\n".join(parts)


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---", *([":-:"] * (len(head) - 1))], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
