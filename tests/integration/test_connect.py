"""Connectors on a real node: every line and every record once, whenever they are killed."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from quorate.client import TopicPartition
from quorate.client.sync import Admin, Consumer, Producer
from quorate.tools.cli import run_command

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60.0
KILLS = int(os.environ.get("EXACTLY_ONCE_KILLS", "2"))
LINES_A_KILL = 300

CONFIG = """
bootstrap = "{bootstrap}"

[connectors.app-log]
type = "file-source"
path = "{folder}/app.log"
topic = "app-log"
key = "app-1"
poll_interval_ms = 10
rotation_wait_ms = 20
batch_bytes = 300

[connectors.app-db]
type = "sqlite-sink"
topics = ["app-log"]
database = "{folder}/app.db"
table = "lines"
batch_records_max = 25
"""


@contextmanager
def running(config: Path) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "quorate.tools.cli", "connect", "run", str(config)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


def rows_in(path: Path, query: str = "SELECT count(*) FROM lines") -> list[tuple[object, ...]]:
    if not path.exists():
        return [(0,)]
    with closing(sqlite3.connect(path, timeout=TIMEOUT_S)) as database:
        try:
            return database.execute(query).fetchall()
        except sqlite3.OperationalError:  # no such table, yet
            return [(0,)]


def write_lines(path: Path, turn: int) -> None:
    numbers = range(turn * LINES_A_KILL, (turn + 1) * LINES_A_KILL)
    with path.open("a") as file:
        file.writelines(f"line {number}\n" for number in numbers)


def test_lines_and_rows_are_there_once_however_often_it_is_killed(
    bootstrap: str, tmp_path: Path
) -> None:
    config, log, database = (tmp_path / name for name in ("c.toml", "app.log", "app.db"))
    config.write_text(CONFIG.format(bootstrap=bootstrap, folder=tmp_path))
    total = LINES_A_KILL * (KILLS + 1)
    with Admin(bootstrap) as admin:
        admin.create_topic("app-log", partitions=2)
    with Consumer(bootstrap, auto_offset_reset="earliest") as unsettled:
        unsettled.assign_topics("app-log")
        for turn in range(KILLS):
            write_lines(log, turn)
            before = rows_in(database)
            unsettled.seek_to_end()
            for partition in unsettled.assignment:
                unsettled.position(partition)  # before there is more
            with running(config) as process:
                while not unsettled.poll(timeout_ms=20):
                    assert process.poll() is None
                if turn == 1:
                    wait_for(lambda: rows_in(database) != before)  # noqa: B023
                process.kill()  # what it has just written may not be committed yet
            if turn == 0:
                log.rename(tmp_path / "app.log.1")
    write_lines(log, KILLS)
    with running(config) as process:
        wait_for(lambda: rows_in(database) == [(total,)])
        process.send_signal(signal.SIGINT)
        told, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, said
    assert [line.split()[1] for line in told.splitlines()] == ["STATE", "stopped", "stopped"]
    assert "Traceback" not in said
    expected = [f"line {number}" for number in range(total)]
    with Consumer(
        bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign_topics("app-log")
        read: list[str] = []
        while records := consumer.poll(timeout_ms=300):
            read += [(record.value or b"").decode() for record in records]
    assert read == expected
    rows = rows_in(database, 'SELECT value, key FROM lines ORDER BY "offset"')
    assert rows == [(line, "app-1") for line in expected]


def test_json_becomes_columns_and_what_is_none_is_refused_or_skipped(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, database = tmp_path / "c.toml", tmp_path / "orders.db"
    text = f"""
bootstrap = "{bootstrap}"
[connectors.orders]
type = "sqlite-sink"
topics = "orders.in"
database = "{database}"
[connectors.orders.columns]
amount = "amount"
city = "address.city"
"""
    config.write_text(text)
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic("orders.in", partitions=1)
        producer.send("orders.in", b'{"amount": 7, "address": {"city": "Ulm"}}', key=b"o-1")
        assert run_command(["connect", "run", str(config), "--once"]) == 0
        producer.send("orders.in", b"broken")
        producer.send("orders.in", b'{"amount": 8}', key=b"o-2")
    capsys.readouterr()
    assert run_command(["connect", "run", str(config), "--once", "--format", "json"]) == 1
    captured = capsys.readouterr()
    assert "orders.in-0 at offset 1: its value is no JSON" in captured.err
    (item,) = json.loads(captured.out)["items"]
    assert (item["name"], item["state"], item["records"]) == ("orders", "failed", 0)
    config.write_text(text.replace('topics = "', 'unreadable = "skip"\ntopics = "'))
    assert run_command(["connect", "run", str(config), "--once"]) == 0
    assert "orders: skipped: orders.in-0 at offset 1" in capsys.readouterr().err
    query = 'SELECT "offset", key, amount, city FROM orders'
    assert rows_in(database, query) == [(0, "o-1", 7, "Ulm"), (2, "o-2", 8, None)]


SINK = """
bootstrap = "{bootstrap}"
[connectors.kept]
type = "sqlite-sink"
topics = ["{topic}"]
database = "{folder}/app.db"
table = "lines"
"""


def values_in(path: Path) -> list[tuple[object, ...]]:
    return rows_in(path, 'SELECT value FROM lines ORDER BY "offset"')


def test_records_that_were_deleted_before_they_were_carried_are_told(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, topic = tmp_path / "c.toml", "sunk.trimmed"
    config.write_text(SINK.format(bootstrap=bootstrap, topic=topic, folder=tmp_path))
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic(topic, partitions=1)
        producer.send(topic, b"0")
        assert run_command(["connect", "run", str(config), "--once"]) == 0
        for number in range(1, 5):
            producer.send(topic, str(number).encode())
        admin.delete_records({TopicPartition(topic, 0): 3})
    capsys.readouterr()
    assert run_command(["connect", "run", str(config), "--once"]) == 0
    assert f"offsets 1 to 2 of {topic}-0 were deleted before" in capsys.readouterr().err
    assert values_in(tmp_path / "app.db") == [("0",), ("3",), ("4",)]


@pytest.mark.parametrize("again", [1, 5], ids=["shorter", "longer"])
def test_a_topic_that_is_another_one_now_is_not_mixed_with_the_old_one(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], again: int
) -> None:
    config, topic = tmp_path / "c.toml", f"sunk.again.{again}"
    config.write_text(SINK.format(bootstrap=bootstrap, topic=topic, folder=tmp_path))
    for name, count in (("old", 3), ("new", again)):
        with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
            if name == "new":
                admin.delete_topics([topic])
            admin.create_topic(topic, partitions=1)
            for _ in range(count):
                producer.send(topic, name.encode())
        capsys.readouterr()
        assert run_command(["connect", "run", str(config), "--once"]) == int(name == "new")
    assert f"topic '{topic}' was deleted and created again" in capsys.readouterr().err
    assert values_in(tmp_path / "app.db") == [("old",)] * 3


def test_a_second_runner_ends_the_first_ones_source(bootstrap: str, tmp_path: Path) -> None:
    config, log = tmp_path / "c.toml", tmp_path / "one.log"
    config.write_text(f"""
bootstrap = "{bootstrap}"
[connectors.twice]
type = "file-source"
path = "{log}"
topic = "twice"
poll_interval_ms = 10
""")
    with Admin(bootstrap) as admin:
        admin.create_topic("twice", partitions=1)
    log.write_text("1\n")
    with running(config) as process, Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign_topics("twice")
        wait_for(lambda: bool(consumer.poll(timeout_ms=50)))
        assert run_command(["connect", "run", str(config), "--once"]) == 0
        with log.open("a") as file:
            file.write("2\n")
        _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert "twice: failed: " in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read"),
        ("[", "is not TOML"),
        ("[connectors.c]\ntyp = 1", "makes no sense"),
    ],
)
def test_a_file_that_makes_no_sense_is_told(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.toml"
    if text is not None:
        config.write_text(text)
    for command in ("check", "run"):
        assert run_command(["connect", command, str(config)]) == 2
        assert said in capsys.readouterr().err
