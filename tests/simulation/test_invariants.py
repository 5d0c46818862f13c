"""docs/invariants.md says what is checked, and everything that it says is."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "simulation"


def test_each_invariant_is_explained_and_each_explanation_is_one() -> None:
    sources = [path.read_text() for path in sorted(SOURCES.glob("*/*.py"))]
    checked = {
        name
        for text in sources
        for name in re.findall(r'(?:violated\(\s*|all_of_it, )"(\w+)"', text)
    }
    page = (ROOT / "docs" / "invariants.md").read_text()
    assert set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == checked
