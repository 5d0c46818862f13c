"""A node that ended by itself is found out, whatever is about to be done to it."""

import sys
import time
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorate.jepsen.lab.hosts import DiedError, Host


def _nothing(*_: object) -> int:
    return 0


def test_a_power_cut_does_not_hide_that_a_node_had_ended_by_itself(tmp_path: Path) -> None:
    words = ["-c", "raise SystemExit('a bug of ours')"]
    host = Host("broker-101", 101, tmp_path, ("127.0.0.1", 1), words, (sys.executable,))
    disk = SimpleNamespace(cut_power=_nothing, settle=_nothing)
    host.disk = cast("Any", disk)
    host.start()
    while not host.has_ended:
        time.sleep(0.01)
    with pytest.raises(DiedError, match="a bug of ours"):
        host.cut_power(Random(1))
    host.close()
