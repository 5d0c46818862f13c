"""quorate groups and quorate consume -g against a node, as people use them."""

import contextlib
import io
import json
import os
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from quorate.client import TopicPartition
from quorate.client.sync import Consumer, Producer
from quorate.tools.cli import run_command
from tests.compat import serving
from tests.integration.controllers import COMMAND, TIMEOUT_S, Done, environment

pytestmark = pytest.mark.integration

POLL_S = 0.1
HOUR_MS = 3_600_000
PROPERTIES = {"log.retention.check.interval.ms": "100"}
Run = Callable[..., Done]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with serving.quorate(PROPERTIES, tmp_path_factory.mktemp("node")) as node:
        yield node.server.bootstrap


@pytest.fixture(scope="module")
def surroundings(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    state = tmp_path_factory.mktemp("state")
    return environment(QUORATE_BOOTSTRAP=bootstrap, XDG_STATE_HOME=str(state))


@pytest.fixture(scope="module")
def run(surroundings: dict[str, str]) -> Run:
    """Run commands in this process: very many of their own would take their time to start."""

    def on_node(*words: str) -> Done:
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
        with (
            patch.dict(os.environ, surroundings),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = run_command(list(words))
        out.seek(0)
        return Done(code, out.read(), err.getvalue())

    return on_node


@pytest.fixture(scope="module")
def topic(bootstrap: str, run: Run) -> str:
    """Two partitions: records 0 to 9 in the first, an hour apart, ending now; 10 to 14 now."""
    assert run("topics", "create", "t", "-p", "2").code == 0
    now_ms = time.time_ns() // 1_000_000
    with Producer(bootstrap) as producer:
        for number in range(10):
            value, ago_ms = b"%d" % number, (9 - number) * HOUR_MS
            producer.enqueue("t", value, partition=0, timestamp_ms=now_ms - ago_ms)
        for number in range(10, 15):
            producer.enqueue("t", b"%d" % number, partition=1)
    return "t"


@contextmanager
def member(surroundings: dict[str, str], group_id: str, *words: str) -> Generator[None]:
    """Somebody who consumes until the block ends."""
    command = [*COMMAND, "consume", "t", "-g", group_id, *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings
    ) as process:
        try:
            yield
        finally:
            process.terminate()
            process.communicate(timeout=TIMEOUT_S)


def wait_for(look: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(POLL_S)
    return seen


def offsets(run: Run, group_id: str) -> dict[int, int | None]:
    items = run("groups", "describe", group_id, "--json").items()
    return {row["partition"]: row["current_offset"] for row in items}


def test_who_consumes_in_a_group_goes_on_where_it_was(run: Run, topic: str) -> None:
    first = run("consume", topic, "-g", "shop", "--from-beginning", "-n", "4")
    assert (first.code, len(first.out.split())) == (0, 4), first.err
    rest = run("consume", topic, "--group", "shop", "--from-beginning", "-e")
    assert rest.code == 0, rest.err
    assert sorted(map(int, [*first.out.split(), *rest.out.split()])) == list(range(15))
    assert offsets(run, "shop") == {0: 10, 1: 5}
    described = run("groups", "describe", "shop")
    lines = described.out.splitlines()
    assert lines[0].split() == [
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
        "HOST", "CLIENT-ID",
    ]  # fmt: skip
    assert lines[1].split() == ["shop", "t", "0", "10", "10", "0", "-", "-", "-"]
    assert lines[-1] == "Consumer group 'shop' has no active members."
    assert "shop" in run("groups", "ls", "--format", "name").out.split()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_patterns_name_topics_in_either_protocol(run: Run, topic: str, protocol: str) -> None:
    words = ("-g", f"by-{protocol}", "--group-protocol", protocol, "--pattern", "[t]")
    done = run("consume", *words, "--from-beginning", "-n", "15")
    assert (done.code, len(done.out.split())) == (0, 15), done.err
    listed = run("groups", "list", "--json").items()
    assert protocol in [g["type"].lower() for g in listed if g["group"] == f"by-{protocol}"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--pattern", "t"), "--pattern and --group-protocol need -g"),
        (("-g", "g", "-t", "t", "--pattern", "t"), "--pattern does not go with topics"),
        (("-g", "g", "--pattern", "("), "is no pattern"),
        (("-g", "g", "-t", "t", "--group-protocol", "best"), "no group protocol 'best'"),
    ],
)
def test_patterns_that_make_no_sense_are_refused(
    run: Run, words: tuple[str, ...], told: str
) -> None:
    done = run("consume", *words)
    assert (done.code, told in done.err) == (2, True), done.err


def test_two_shells_split_the_partitions(
    run: Run, topic: str, surroundings: dict[str, str]
) -> None:
    def members() -> list[dict[str, Any]]:
        done = run("groups", "describe", "pair", "--members", "--json")
        return done.items() if done.code == 0 else []

    def shares(rows: list[dict[str, Any]]) -> list[int]:
        return sorted(row["partitions"] for row in rows)

    with member(surroundings, "pair", "-X", "client.id=one"):
        wait_for(members, lambda rows: shares(rows) == [2])
        with member(surroundings, "pair", "-X", "client.id=two"), member(surroundings, "pair"):
            rows = wait_for(members, lambda rows: shares(rows) == [0, 1, 1])
            assigned = [row["current_assignment"] for row in rows if row["partitions"]]
            assert sorted(assigned) == ["t:0", "t:1"]
            assert {"one", "two"} <= {row["client_id"] for row in rows}
            (state,) = run("groups", "describe", "pair", "--state", "--json").items()
            assert (state["state"], state["members"], state["type"]) == ("Stable", 3, "Classic")
            refused = run("groups", "reset", "pair", "--to-earliest", "-t", topic, "--execute")
            assert (refused.code, "is Stable: nothing was done" in refused.err) == (5, True)
            busy = run("groups", "delete", "pair", "-y")
            assert (busy.code, "NON_EMPTY_GROUP" in busy.err) == (1, True), busy.err
            assert run("groups", "kick", "pair", "nobody", "-y").code == 2
            assert run("groups", "kick", "pair", "one").code == 2, "nobody is there to ask"
            shown = run("groups", "kick", "pair", "one", "--dry-run", "--json").items()
            assert [row["client_id"] for row in shown] == ["one"]
            done = run("groups", "kick", "pair", "one", "-y", "--reason", "a test", "--json")
            assert [row["result"] for row in done.items()] == ["removed"], done.err
        wait_for(members, lambda rows: shares(rows) in ([], [2]))


def test_a_reset_shows_does_and_is_taken_back(run: Run, topic: str, tmp_path: Path) -> None:
    preview = run("groups", "reset", "re", "--to-offset", "3", "-t", f"{topic}:0")
    assert preview.out.splitlines()[0].split()[:4] == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    assert preview.out.splitlines()[1].split()[:4] == ["re", "t", "0", "3"]
    assert "Nothing was done: add --execute" in preview.err
    assert run("groups", "describe", "re").code == 1, "nothing was done"

    words = ("groups", "reset", "re", "-t", topic, "--to-datetime", "-150m", "--execute")
    done = run(*words)
    assert (done.code, "groups undo re --execute" in done.err) == (0, True), done.err
    assert offsets(run, "re") == {0: 7, 1: 0}
    replayed = run("consume", topic, "-g", "re", "-e")
    assert sorted(map(int, replayed.out.split())) == [7, 8, 9, *range(10, 15)]

    assert run("groups", "reset", "re", "--shift-by", "-100", "--execute").code == 0
    assert offsets(run, "re") == {0: 0, 1: 0}
    (last, first) = run("groups", "undo", "re", "--list", "--json").items()
    assert (last["what"], first["what"]) == ("reset --shift-by", "reset --to-datetime")
    shown = run("groups", "undo", "re", "--json")
    assert [row["new_offset"] for row in shown.items()] == [10, 5]
    assert run("groups", "undo", "re", "--execute").code == 0
    assert offsets(run, "re") == {0: 10, 1: 5}

    kept = tmp_path / "offsets.csv"
    kept.write_text(run("groups", "reset", "re", "--by-duration", "PT4H30M", "--export").out)
    assert kept.read_text() == "t,0,5\nt,1,0\n"
    assert run("groups", "reset", "re", "--from-file", str(kept), "--execute").code == 0
    assert offsets(run, "re") == {0: 5, 1: 0}

    asked = run("groups", "delete-offsets", "re", "-t", f"{topic}:1")
    assert (asked.code, "Nobody is there to ask" in asked.err) == (2, True)
    assert run("groups", "delete-offsets", "re", "-t", f"{topic}:1", "-y").code == 0
    assert offsets(run, "re") == {0: 5}
    assert run("groups", "undo", "re", "--execute").code == 0
    assert offsets(run, "re") == {0: 5, 1: 0}
    assert run("groups", "delete", "re", "-y").code == 0
    assert run("groups", "describe", "re").code == 1


def test_lag_is_told_in_records_and_in_seconds(run: Run, topic: str) -> None:
    words = ("groups", "reset", "slow", "-t", topic, "--to-datetime", "-150m", "--execute")
    assert run(*words, "--no-undo").code == 0
    (row,) = run("groups", "lag", "slow", "--json").items()
    assert (row["topic"], row["partitions"], row["lag"], row["lost"]) == (topic, 2, 8, 0)
    assert 7200 <= row["lag_seconds"] < 9000, "the oldest unread record is of two hours ago"
    each = run("groups", "lag", "slow", "--partitions", "--json").items()
    assert [(part["partition"], part["lag"]) for part in each] == [(0, 3), (1, 5)]
    behind = run("groups", "lag", "slow", "--max", "5")
    assert (behind.code, "slow is 8 behind in t" in behind.err) == (3, True), behind.err
    looks = run("groups", "lag", "slow", "-w", "-i", "0.1", "-n", "2", "--format", "jsonl")
    first, second = map(json.loads, looks.out.splitlines())
    assert "trend" not in first
    assert (second["trend"], second["read_per_s"], second["eta_s"]) == ("steady", 0.0, None)
    assert run("groups", "undo", "slow").code == 1, "it was not to be kept"


def test_what_was_deleted_before_it_was_read_is_told(run: Run, bootstrap: str) -> None:
    assert run("topics", "create", "gone", "-p", "1").code == 0
    with Producer(bootstrap) as producer:
        for _ in range(10):
            producer.enqueue("gone", b"x")
    assert run("consume", "gone", "-g", "late", "--from-beginning", "-n", "2").code == 0
    assert run("topics", "trim", "gone", "--before", "7", "-y").code == 0
    described = run("groups", "describe", "late")
    assert (
        "Consumer group 'late' lost 5 records of gone-0: it has read up to 2, the log begins at 7."
        in described.out.splitlines()
    )
    (row,) = run("groups", "describe", "late", "--json").items()
    assert (row["lag"], row["lost"], row["log_start_offset"]) == (8, 5, 7)


def test_two_groups_at_different_places_are_nothing_to_each_other(run: Run, topic: str) -> None:
    for group, offset in (("a", "9"), ("b", "7")):
        words = ("groups", "reset", group, "-t", f"{topic}:0", "--to-offset", offset, "--execute")
        assert run(*words).code == 0
    assert run("consume", topic, "-g", "a", "-n", "1").out == "9\n"
    assert run("consume", topic, "-g", "b", "-n", "2").out == "7\n8\n"
    assert (offsets(run, "a")[0], offsets(run, "b")[0]) == (10, 9)


def test_who_is_away_for_longer_than_records_are_kept_loses_them(run: Run, bootstrap: str) -> None:
    assert run("topics", "create", "day", "-p", "1", "-c", "segment.bytes=1024").code == 0
    now_ms = time.time_ns() // 1_000_000
    with Producer(bootstrap) as producer:
        for number in range(8):  # five a day old, three an hour; each in a segment of its own
            stamp_ms = now_ms - (25 if number < 5 else 1) * HOUR_MS
            producer.send("day", b"%d" % number + bytes(600), timestamp_ms=stamp_ms)
    for group, count in (("a-day", "2"), ("an-hour", "6")):
        assert run("consume", "day", "-g", group, "--from-beginning", "-n", count).code == 0
    assert run("configs", "set", "topic/day", "retention.ms=1d").code == 0
    with Consumer(bootstrap) as consumer:
        place = TopicPartition("day", 0)
        wait_for(lambda: consumer.beginning_offsets([place])[place], lambda begin: begin == 5)
    rows = {g: run("groups", "describe", g, "--json").items()[0] for g in ("a-day", "an-hour")}
    assert {group: row["lost"] for group, row in rows.items()} == {"a-day": 3, "an-hour": 0}
    assert "lost 3 records of day-0" in run("groups", "describe", "a-day").out
    for group, read in (("a-day", "567"), ("an-hour", "67")):
        consumed = run("consume", "day", "-g", group, "--from-beginning", "-e").out
        assert "".join(line[0] for line in consumed.splitlines()) == read


def test_all_groups_without_members_are_reset_at_once(
    run: Run, topic: str, surroundings: dict[str, str]
) -> None:
    for group_id in ("all-1", "all-2"):
        words = ("groups", "reset", group_id, "-t", topic, "--to-offset", "3", "--execute")
        assert run(*words).code == 0
    with member(surroundings, "all-busy"):
        look = partial(run, "groups", "describe", "all-busy", "--state", "--json")
        wait_for(look, lambda done: done.code == 0 and done.items()[0]["members"] == 1)
        everything = ("groups", "reset", "--all-groups", "-t", f"{topic}:0", "--to-offset", "4")
        shown = run(*everything)
        assert shown.code == 0, shown.err
        assert "Group all-busy has members, and is left as it is." in shown.err
        assert offsets(run, "all-1")[0] == 3
        assert run(*everything, "--execute").code == 0
    assert [offsets(run, each)[0] for each in ("all-1", "all-2")] == [4, 4]
    assert "all-2,t,0,4\n" in run(*everything, "--export").out
    assert run("groups", "undo", "all-2", "--execute").code == 0
    assert offsets(run, "all-2")[0] == 3
    refused = run("groups", "reset", "all-1", "--all-groups", "--to-latest")
    assert (refused.code, "goes with neither" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("describe", "nosuch"), 1, "Consumer group 'nosuch' does not exist"),
        (("describe",), 2, "name groups, or say --all"),
        (("describe", "g", "--members", "--state"), 2, "exclude each other"),
        (("reset", "g"), 2, "nothing says where to go"),
        (("reset", "nosuch", "--to-latest"), 2, "has read nothing"),
        (("reset", "g", "-t", "t:9", "--to-latest"), 2, "has no partition 9"),
        (("reset", "g", "-t", "no-topic", "--to-latest"), 1, "no-topic"),
        (("reset", "g", "--to-latest", "--execute", "--dry-run"), 2, "exclude each other"),
        (("undo", "nosuch"), 1, "can be undone"),
        (("delete", "nosuch", "-y"), 1, "There is no such group"),
        (("delete-offsets", "nosuch", "-t", "t", "-y"), 1, "does not exist"),
        (("kick", "nosuch", "--all", "-y"), 1, "does not exist"),
        (("kick", "nosuch"), 2, "name members, or say --all"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told_in_three_lines(
    run: Run, topic: str, words: tuple[str, ...], code: int, told: str
) -> None:
    done = run("groups", *words)
    assert (done.code, told in done.err) == (code, True), done.err
    labels = [line.split(":")[0].strip() for line in done.err.splitlines()]
    assert labels == ["error", "why", "try"]


@pytest.mark.parametrize("words", [("-p", "0"), ("-o", "5"), ("-o", "@-1h:end")])
def test_groups_do_not_read_from_places(run: Run, topic: str, words: tuple[str, ...]) -> None:
    done = run("consume", topic, "-g", "g", *words)
    assert (done.code, "does not go with -g" in done.err) == (2, True), done.err
