"""The benchmark of the log, on a small one: what it prints, it writes."""

import json
from pathlib import Path
from typing import Any

import pytest

from quorate.tools.bench import storage


def test_what_is_printed_is_written_into_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "storage.json"
    storage.main(["--gigabytes", "0.01", "--segments", "20", "--json", str(path)])
    told: dict[str, Any] = json.loads(path.read_text())
    seeks, appends = told["seeks"], told["appends"]
    printed = capsys.readouterr().out.splitlines()
    assert f"seeks in {seeks['segments']} segments: median {seeks['p50_us']:.1f} us" in printed[0]
    assert f"appends of {appends['batch_bytes']} bytes, to 0.01 GB" in printed[1]
    assert printed[3:] == [storage.line_of(tenth) for tenth in appends["tenths"]]
    assert seeks["segments"] >= 20
    assert len(appends["tenths"]) == storage.SLICES
    assert told["machine"]["cores"]
