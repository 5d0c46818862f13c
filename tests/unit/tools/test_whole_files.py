"""Files are replaced as a whole, and an error tells which."""

import os
from pathlib import Path

import pytest

from quorate.tools.problems import explain
from quorate.tools.whole_files import replace_file


def test_what_was_there_stays_when_the_disk_is_full_and_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, full = tmp_path / "listening.json", os.open("/dev/full", os.O_WRONLY)
    replace_file(path, "before", mode=0o600)

    def opened(_path: Path, _flags: int, _mode: int) -> int:
        return full

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(OSError, match="No space") as caught:
        replace_file(path, "after")
    monkeypatch.undo()
    assert path.read_text() == "before"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
    assert explain(caught.value).lines() == [
        f"error: {path}: No space left on device",
        "  try: make room on the disk, or another place",
    ]
