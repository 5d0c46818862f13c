"""The shim sees every change, and what it forgets is what was not synced."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from quorate.jepsen.clients.wire import Client, create_topic
from quorate.jepsen.lab.disks import Shim
from quorate.jepsen.lab.native import compiler
from quorate.jepsen.lab.power import Disk, copy_tree, cut_power
from tests.robustness.node import start_node

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="needs a C compiler, for shim.c"),
]

CUTS = 30


class Lab:
    """A directory over a shim, and Python programs that work in it."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.root = work / "data"
        self.safe = work / "safe"
        self.root.mkdir()
        self.shim = Shim(self.root, work, journal=True)

    def do(self, program: str) -> int:
        """Run a program in the directory; return its exit code."""
        copy_tree(self.root, self.safe)
        self.shim.journal_path.unlink(missing_ok=True)
        lines = f"import os\nroot = {str(self.root)!r}\n{program}"
        environment = {**os.environ, **self.shim.environment()}
        return subprocess.run(
            [sys.executable, "-c", lines], env=environment, check=False
        ).returncode

    def outcomes(self) -> set[tuple[tuple[str, bytes], ...]]:
        """Return what may be left after a power cut."""
        found: set[tuple[tuple[str, bytes], ...]] = set()
        journal = self.shim.journal_path.read_bytes()
        for seed in range(CUTS):
            target = self.work / "cut"
            copy_tree(self.root, target)
            self.shim.journal_path.write_bytes(journal)
            disk = Disk(self.root, self.safe)
            disk.replay(journal)
            disk.lose_power(Random(seed))
            shutil.rmtree(target)
            disk.store(target)
            found.add(tuple(sorted((x.name, x.read_bytes()) for x in target.iterdir())))
        return found


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.shim.close()


WRITE = """
fd = os.open(f"{root}/file", os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b"A", 0)
"""
SYNC = "os.fsync(fd)\n"
SYNC_FOLDER = "os.fsync(os.open(root, os.O_RDONLY))\n"


def test_a_file_that_was_not_synced_may_be_gone_empty_zero_or_there(lab: Lab) -> None:
    assert lab.do(WRITE) == 0
    contents = (b"", b"\0", b"A")  # the size may be there without the page
    assert lab.outcomes() == {(), *((("file", content),) for content in contents)}


def test_a_synced_file_without_a_synced_name_may_be_gone(lab: Lab) -> None:
    assert lab.do(WRITE + SYNC) == 0
    assert lab.outcomes() == {(), (("file", b"A"),)}


def test_a_synced_file_with_a_synced_name_is_there(lab: Lab) -> None:
    assert lab.do(WRITE + SYNC + SYNC_FOLDER) == 0
    assert lab.outcomes() == {(("file", b"A"),)}


def test_what_is_written_after_a_sync_may_be_gone(lab: Lab) -> None:
    assert lab.do(WRITE + SYNC + SYNC_FOLDER + "os.write(fd, b'B')\n") == 0
    assert lab.outcomes() == {(("file", b"A"),), (("file", b"B"),)}


def test_a_replaced_file_is_the_old_one_or_the_new_one(lab: Lab) -> None:
    assert lab.do(WRITE + SYNC + SYNC_FOLDER) == 0
    replaced = WRITE.replace("file", "next").replace('"A"', '"B"') + SYNC
    assert lab.do(replaced + "os.rename(f'{root}/next', f'{root}/file')\n") == 0
    old, new = ("file", b"A"), ("file", b"B")
    assert lab.outcomes() == {(old,), (old, ("next", b"B")), (new,)}


def test_a_process_can_be_killed_at_a_change(lab: Lab) -> None:
    lab.shim.set("kill_at_change", 2)  # creating the file is the first
    assert lab.do(WRITE.replace('b"A"', 'b"AAAA"')) == -9
    assert (lab.root / "file").read_bytes() == b"AA"


MOVE_AND_MAKE = """
import threading

def move():
    for _ in range(500):
        os.rename(f"{root}/a", f"{root}/b")
        os.rename(f"{root}/b", f"{root}/a")

os.mkdir(f"{root}/a")
mover = threading.Thread(target=move)
mover.start()
number = 0
while mover.is_alive():
    number += 1
    try:
        os.close(os.open(f"{root}/a/{number}", os.O_WRONLY | os.O_CREAT))
    except FileNotFoundError:
        pass
"""


def test_what_two_threads_do_is_noted_in_the_order_in_which_it_happened(lab: Lab) -> None:
    assert lab.do(MOVE_AND_MAKE) == 0
    disk = Disk(lab.root, lab.safe)
    disk.replay(lab.shim.journal_path.read_bytes())
    assert set(disk.seen()) == {f"a/{path.name}" for path in (lab.root / "a").iterdir()}


def test_the_shim_sees_every_change_that_a_node_makes(lab: Lab) -> None:
    copy_tree(lab.root, lab.safe)
    variables = lab.shim.environment()
    properties = {"log.flush.offset.checkpoint.interval.ms": "50"}
    with start_node(
        lab.root, lab.work / "node.log", properties=properties, variables=variables
    ) as node:
        with Client(node.port) as client:
            assert create_topic(client, "seen", 12, {}) == 0
        assert node.stop() == 0
    disk = Disk(lab.root, lab.safe)
    disk.replay(lab.shim.journal_path.read_bytes())
    on_disk = {
        str(path.relative_to(lab.root)): path.read_bytes()
        for path in lab.root.rglob("*")
        if path.is_file()
    }
    assert disk.seen() == on_disk
    # Closed cleanly, nothing of it is lost, except perhaps what nobody relies on.
    cut_power(lab.root, lab.safe, lab.shim.journal_path, Random(1))
    with start_node(lab.root, lab.work / "node.log", properties={}, variables={}) as node:
        assert node.stop() == 0
