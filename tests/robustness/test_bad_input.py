"""What a person gets who starts a node in a wrong way: a line that says what, and an exit code."""

import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.robustness.node import Done, run_command, start_node

pytestmark = [pytest.mark.integration, pytest.mark.slow]

EXIT_FAILED = 1
EXIT_USAGE = 2
LINE = re.compile(r" *(error|why|try): \S.*")
SECONDS_MAX = 20.0


def up(*words: str) -> Done:
    return run_command(["up", *words], variables={}, seconds_max=SECONDS_MAX)


def told(done: Done, exit_code: int) -> str:
    """Check the form of what is told, and return the line that says what happened."""
    lines = done.stderr.splitlines()
    assert done.returncode == exit_code, done.stderr
    assert all(LINE.fullmatch(line) for line in lines), done.stderr
    assert [line.split(":")[0].strip() for line in lines].count("error") == 1, done.stderr
    assert done.stdout == ""
    return lines[0]


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def formatted(tmp_path: Path) -> Path:
    """A data directory of a node that was stopped properly."""
    return format_directory(tmp_path / "data")


def format_directory(path: Path) -> Path:
    log = path.with_name(f"{path.name}.log")
    with start_node(path, log, properties={}, variables={}) as node:
        assert node.stop() == 0
    return path


def test_a_port_that_is_used(tmp_path: Path, used_port: int) -> None:
    line = told(up("--dir", str(tmp_path / "data"), "--port", str(used_port)), EXIT_FAILED)
    assert f"cannot listen on 127.0.0.1:{used_port}" in line
    assert "Address already in use" in line


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    line = told(up("--dir", str(file / "data"), "--port", "0"), EXIT_FAILED)
    assert str(file) in line
    assert "Not a directory" in line


def test_a_directory_that_cannot_be_written() -> None:
    # Nobody, not even root, makes folders there.
    line = told(up("--dir", "/proc/quorate", "--port", "0"), EXIT_FAILED)
    assert "/proc/quorate" in line


def test_a_directory_that_another_process_uses(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_node(data, tmp_path / "log", properties={}, variables={}):
        line = told(up("--dir", str(data), "--port", "0"), EXIT_FAILED)
    assert str(data) in line
    assert "in use by another" in line


def test_logs_of_another_cluster(tmp_path: Path, formatted: Path) -> None:
    other = format_directory(tmp_path / "other")
    shutil.copy(other / "meta.json", formatted / "meta.json")
    line = told(up("--dir", str(formatted), "--port", "0"), EXIT_FAILED)
    assert re.search(r"belongs to cluster \S+, not to \S+", line)


def test_a_directory_of_another_node(formatted: Path) -> None:
    line = told(up("--dir", str(formatted), "--port", "0", "-X", "node.id=7"), EXIT_FAILED)
    assert re.search(r"belongs to node 1, not to (node )?7$", line)


def test_a_directory_of_another_broker_is_told_though_no_controller_answers(
    formatted: Path, used_port: int
) -> None:
    words = ["broker", "start", "--id", "7", "--dir", str(formatted), "--port", "0"]
    silent = f"127.0.0.1:{used_port}"  # who listens there never says anything
    done = run_command([*words, "--controllers", silent], variables={}, seconds_max=SECONDS_MAX)
    assert re.search(r"belongs to node 1, not to node 7$", told(done, EXIT_FAILED))


@pytest.mark.parametrize("name", ["meta.json", "controller/meta.json", "controller/journal"])
def test_a_damaged_file_that_says_whose_directory_it_is(formatted: Path, name: str) -> None:
    (formatted / name).write_bytes(b"\0" * 100)
    told(up("--dir", str(formatted), "--port", "0"), EXIT_FAILED)


@pytest.mark.parametrize(
    ("property_text", "hint"),
    [
        ("log.retention.houres=1", "did you mean log.retention."),
        ("num.partitions=0", "num.partitions: expected from 1"),
        ("log.segment.bytes=big", "expected a number of bytes such as"),
        ("log.retention.ms", "log.retention.ms"),
    ],
)
def test_properties_that_are_unknown_or_out_of_range(
    tmp_path: Path, property_text: str, hint: str
) -> None:
    done = up("--dir", str(tmp_path / "data"), "-X", property_text)
    assert hint in told(done, EXIT_USAGE)
    assert not (tmp_path / "data").exists()


def test_a_config_file_with_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('"num.partition" = 3\n')
    line = told(up("--dir", str(tmp_path / "data"), "--config", str(file)), EXIT_USAGE)
    assert "num.partition" in line
    assert str(file) in line
