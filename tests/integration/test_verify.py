"""``quorate verify run``: a cluster, a fault, a verdict; and what happens if it cannot be."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quorate.jepsen.lab.namespaces import missing
from quorate.tools.cli import run_command
from tests.robustness.node import ROOT, environment

RUN_S_MAX = 150.0
READY = "brokers are up"
NOT_ROOT = "this is not root, who alone may cut the network of a machine"
LITTLE = ("--brokers", "1", "--controllers", "1")
VALID, UNKNOWN = 0, 4

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def words(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "quorate.tools.cli", "verify", "run", "--dir", str(folder), *more]


def verify(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words(folder, *more),
        capture_output=True,
        text=True,
        env=environment({}),
        cwd=folder,
        timeout=RUN_S_MAX,
        check=False,
    )


@contextmanager
def under_way(folder: Path, *more: str) -> Generator[subprocess.Popen[str]]:
    """Start a run, wait until its cluster is up."""
    with subprocess.Popen(
        words(folder, *more),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environment({}),
        cwd=ROOT,
    ) as process:
        assert process.stderr is not None
        try:
            said = next((line for line in process.stderr if READY in line), "")
            assert said, "it ended before its cluster was up"
            yield process
        finally:
            process.kill()


def processes_of(folder: Path) -> list[int]:
    """Return the processes that were started for runs in this folder."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


def wait_until_all_have_ended(folder: Path) -> None:
    for pid in processes_of(folder):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with open(descriptor, "rb", buffering=0):  # noqa: PTH123 - a descriptor, no path
            assert select.select([descriptor], [], [], 30.0)[0], f"{pid} goes on"


def networks_of(process: subprocess.Popen[str]) -> list[str]:
    """Return the namespaces and tables that a harness has made."""
    if missing():
        return []
    listed = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for command in (("ip", "netns", "list"), ("nft", "list", "tables"))
    ]
    return [word for words in listed for word in words if str(process.pid) in word]


def wait_until_networks_are_gone(process: subprocess.Popen[str]) -> None:
    deadline_s = time.monotonic() + 30.0
    while networks_of(process):
        assert time.monotonic() < deadline_s, networks_of(process)
        time.sleep(0.05)


def only_run(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def test_a_cluster_that_loses_a_leader_is_valid_and_nothing_is_left_behind(tmp_path: Path) -> None:
    options = ("--time", "5", "--faults", "kill:leader", "--schedule", "single", "--seed", "5")
    done = verify(tmp_path, "append", *options)
    assert (done.returncode, "VALID" in done.stdout) == (0, True), done.stdout + done.stderr
    run = only_run(tmp_path)
    verdict = json.loads((run / "verdict.json").read_text())
    assert (verdict["validity"], verdict["anomalies"], verdict["faults"]) == ("valid", {}, 1)
    about = json.loads((run / "run.json").read_text())
    assert about["repeat"].endswith(
        "run append --time 5 --faults kill:leader --seed 5 --schedule single"
    )
    assert about["header"]["brokers"] == about["header"]["controllers"] == 3
    assert (run / "report.html").stat().st_size > 10_000
    logs = sorted(path.parent.name for path in (run / "nodes").glob("*/log"))
    assert logs == [f"broker-{n}" for n in (101, 102, 103)] + [f"controller-{n}" for n in (1, 2, 3)]
    assert not list((run / "nodes").glob("*/data"))
    assert processes_of(tmp_path) == []


def test_what_a_killed_leader_took_along_is_not_lost_if_nobody_was_told_of_it(
    tmp_path: Path,
) -> None:
    cluster = ("--brokers", "2", "--controllers", "1", "--replication-factor", "2")
    options = ("--acks", "0", "--min-insync", "1", "--schedule", "single", "--time", "3")
    done = verify(tmp_path, "append", *cluster, *options, "--faults", "kill:leader", "--seed", "28")
    assert done.returncode in (VALID, UNKNOWN), done.stdout + done.stderr
    verdict = json.loads((only_run(tmp_path) / "verdict.json").read_text())
    assert (verdict["anomalies"], verdict["allowed"], verdict["faults"]) == ({}, {}, 1)
    figures = verdict["figures"]
    assert figures["acknowledged"] == 0
    assert figures["unknown"] == figures["sends"] - figures["failed"]
    assert figures["unknown"] >= figures["unknown and read"] > 0


def test_all_ends_with_a_harness_that_is_killed_and_the_history_stays(tmp_path: Path) -> None:
    with under_way(tmp_path, "append", *LITTLE, "--faults", "partition", "--seed", "1") as process:
        assert len(processes_of(tmp_path)) >= 3
        assert bool(networks_of(process)) == (missing() == "")
        process.kill()
        process.wait()
        wait_until_all_have_ended(tmp_path)
        wait_until_networks_are_gone(process)
    assert (only_run(tmp_path) / "history.cbor").stat().st_size > 0


def test_an_interrupted_run_ends_its_nodes_and_says_where_its_history_is(tmp_path: Path) -> None:
    with under_way(tmp_path, "append", *LITTLE, "--faults", "partition", "--seed", "1") as process:
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        said = process.stderr.read()
        assert (process.wait(), str(only_run(tmp_path)) in said) == (130, True)
        assert processes_of(tmp_path) == []
        assert networks_of(process) == []


def test_a_network_of_namespaces_is_refused_to_who_is_not_root(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing() not in ("", NOT_ROOT):
        pytest.skip("its tools are not here")
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    asked = ["--network", "namespaces", "--faults", "partition", "--dir", str(tmp_path)]
    assert run_command(["verify", "run", *asked]) == 2
    said = capsys.readouterr().err
    assert NOT_ROOT in said
    assert "--network proxy" in said
    assert list(tmp_path.iterdir()) == []


def test_a_node_that_does_not_come_up_is_named_with_what_it_said_last(tmp_path: Path) -> None:
    done = verify(tmp_path, "append", *LITTLE, "--property", "no.such.property=1")
    assert done.returncode == 4
    assert "controller-1 ended with 2" in done.stderr
    assert "unknown configuration 'no.such.property'" in done.stderr


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["apend"], "did you mean append?"),
        (["--faults", "kil"], "did you mean kill?"),
        (["--faults", "kill:leder"], "did you mean leader?"),
        (["--schedule", "rotate"], "did you mean rotation?"),
        (["--client", "librdkafa"], "did you mean librdkafka?"),
        (["--inject-bug", "ack-before-is"], "did you mean ack-before-isr?"),
        (["--property", "flush.messages"], "it is NAME=VALUE"),
        (["--against", "here"], "'here' is no host:port"),
    ],
)
def test_what_is_not_known_is_refused_with_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[str], said: str
) -> None:
    assert run_command(["verify", "run", "--dir", str(tmp_path), *asked]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
