"""The quickstart and the operations page, pasted line by line as a person would."""

import json
import os
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINE_S_MAX = 120.0
ENDS = {
    "quorate partitions list --under-replicated --exit-code": (0, 3),
    "quorate doctor machine": (0, 3),
}
"""Exit codes other than 0 that are no mistake: how this machine is, or what is not in sync yet."""


def commands_of(page: str) -> list[str]:
    """Return what a page has somebody type."""
    blocks = BLOCK.findall((ROOT / "docs" / page).read_text())
    return [line[2:] for block in blocks for line in block.splitlines() if line[:2] == "$ "]


class Shell:
    """Runs commands in a folder, with quorate on its path and ports that are free."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "bin" / "quorate"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m quorate.tools.cli "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def run(self, command: str) -> str:
        """Run one; return what it printed."""
        words = command.replace("--controllers 3 --detach", "--controllers 3 --detach --port 0")
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **self.bootstrap()}
        done = subprocess.run(
            ["bash", "-c", words], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=LINE_S_MAX, check=False,
        )  # fmt: skip
        assert done.returncode in ENDS.get(command, (0,)), f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout

    def bootstrap(self) -> dict[str, str]:
        """The ports are others than those of the page, which are the ones that nobody names."""
        try:
            nodes = json.loads((self.folder / ".quorate" / "cluster.json").read_text())["nodes"]
        except FileNotFoundError:
            return {}
        brokers = [f"127.0.0.1:{node['port']}" for node in nodes if node["role"] == "broker"]
        return {"QUORATE_BOOTSTRAP": ",".join(brokers)}


def paste(page: str, folder: Path) -> dict[str, str]:
    """Run the commands of a page, one after the other; return what each printed."""
    folder.mkdir()
    shell = Shell(folder)
    commands = commands_of(page)
    assert commands[-1].startswith(("quorate down", "quorate log verify"))
    try:
        return {command: shell.run(command) for command in commands}
    finally:
        subprocess.run(
            [folder / "bin" / "quorate", "down"], cwd=folder, check=False, capture_output=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=LINE_S_MAX,
        )  # fmt: skip


def test_the_pages_can_be_pasted(tmp_path: Path) -> None:
    pages = ("quickstart.md", "operations.md")
    with ThreadPoolExecutor() as pool:  # they wait most of the time
        start, operate = pool.map(paste, pages, [tmp_path / page for page in pages])
    assert start["quorate consume numbers --from-beginning -e | wc -l"].strip() == "2000"
    assert "2 is missing" in start["quorate why isr numbers:0"]
    assert start["quorate partitions verify numbers"].count("  same ") == 3
    assert operate["quorate partitions verify orders"].count("  same ") == 6
    assert operate["quorate brokers list"].count("in service") == 4
