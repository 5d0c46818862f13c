"""Whatever ends the harness, what it started ends, and what it did is undone."""

import subprocess
import sys
from pathlib import Path

from quorate.jepsen.lab.reaper import Reaper

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]


def test_what_was_started_ends_and_what_was_not_called_off_is_undone(tmp_path: Path) -> None:
    kept, gone = tmp_path / "kept", tmp_path / "gone"
    kept.touch()
    gone.touch()
    with Reaper() as reaper:
        sleeper = subprocess.Popen(SLEEP)
        reaper.undo("rm", str(kept))
        reaper.undo("rm", str(gone))
        reaper.forget("rm", str(kept))
    assert sleeper.wait(10) == -9
    assert (kept.exists(), gone.exists()) == (True, False)


def test_others_go_on() -> None:
    with subprocess.Popen(SLEEP) as other:
        with Reaper():
            pass
        assert other.poll() is None
        other.kill()
