"""quorate quorum and quorate metadata against three real controllers, as people use them."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.integration.controllers import (
    COMMAND,
    TIMEOUT_S,
    Node,
    Quorum,
    broker_of,
    environment,
    quorate,
)

pytestmark = pytest.mark.integration

SILENT_MS = 2000
SHOW_CURSOR = b"\x1b[?25h"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Generator[Quorum]:
    """Three controllers that no test changes."""
    with Quorum(tmp_path_factory.mktemp("three"), 3) as quorum:
        quorum.wait_for(lambda status: status["leader_id"] is not None)
        yield quorum


@pytest.fixture(scope="module")
def bootstrap(three: Quorum) -> Generator[str]:
    """A broker of these three, with a topic."""
    with broker_of(three) as address:
        assert quorate("topics", "create", "appLogs", "-p", "2", "-b", address).code == 0
        yield address


@pytest.fixture
def quorum(tmp_path: Path) -> Generator[Quorum]:
    """Three controllers of the test's own."""
    with Quorum(tmp_path, 3) as own:
        own.wait_for(lambda status: status["leader_id"] is not None)
        yield own


def ids(replicas: list[dict[str, Any]]) -> list[int]:
    return [replica["node_id"] for replica in replicas]


# --- looking


def test_controllers_and_brokers_tell_the_same_story(three: Quorum, bootstrap: str) -> None:
    seen = [
        three.status(),
        quorate("quorum", "status", "--json", "-C", three.addresses[3]).items()[0],
        quorate("quorum", "status", "--json", "-b", bootstrap).items()[0],
    ]
    for name in ("leader_id", "leader_epoch", "cluster_id", "majority"):
        assert len({status[name] for status in seen}) == 1, name
    for status in seen:
        assert ids(status["voters"]) == [1, 2, 3]
        assert status["observers"] == []
        assert [v["endpoint"] for v in status["voters"]] == list(three.addresses.values())
        assert len({v["directory_id"] for v in status["voters"]}) == 3
        assert all(v["log_bytes"] > 0 and v["uptime_ms"] > 0 for v in status["voters"])
        assert [v["role"] for v in status["voters"]].count("leader") == 1
        assert status["high_watermark"] > 0


def test_followers_were_heard_lately_and_have_nearly_everything(
    three: Quorum, bootstrap: str
) -> None:
    quorate("topics", "create", "more", "-b", bootstrap)
    three.wait_for(lambda s: all(v["lag"] == 0 and v["last_fetch_ms"] for v in s["voters"]))
    rows = three.run("quorum", "replication", "--json").items()
    assert [row["lag"] for row in rows] == [0, 0, 0]
    now_ms = time.time_ns() // 1_000_000
    assert all(0 <= now_ms - row["last_fetch_ms"] < TIMEOUT_S * 1000 for row in rows)


def test_people_and_programs_get_it_in_their_format(three: Quorum) -> None:
    told = three.run("quorum", "status").out
    assert re.search(r"^leader +[123] at 127\.0\.0\.1:\d+, term \d+$", told, re.MULTILINE)
    assert "voters     1, 2, 3; 2 decide, 1 more may fail" in told
    assert three.run("quorum", "replication", "--format", "name").out == "1\n2\n3\n"
    lines = three.run("quorum", "replication", "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["node_id"] for line in lines] == [1, 2, 3]
    wide = three.run("quorum", "replication", "--format", "wide").out.splitlines()[0]
    assert {"DIRECTORY-ID", "SNAPSHOT-BYTES", "UPTIME-MS"} <= set(wide.split())
    assert '"kind": "quorums"' in three.run("quorum", "status", "--format", "yaml").out


def test_a_watch_that_nobody_sees_prints_a_line_each_time(three: Quorum) -> None:
    watched = three.run("quorum", "watch", "-i", "0.1", "-n", "3")
    assert (watched.code, len(watched.out.splitlines())) == (0, 3)
    for line in watched.out.splitlines():
        assert re.fullmatch(r"\S+Z leader=\d term=\d+ high_watermark=\d+ lag=1:\d+,2:\S+", line)
    words = ("quorum", "watch", "-i", "0.1", "-n", "2", "--format", "jsonl")
    items = [json.loads(line) for line in three.run(*words).out.splitlines()]
    assert [ids(item["voters"]) for item in items] == [[1, 2, 3]] * 2
    assert items[0]["time_ms"] < items[1]["time_ms"]


def test_a_watch_on_a_terminal_ends_cleanly_with_ctrl_c(three: Quorum) -> None:
    main, other = pty.openpty()
    command = [*COMMAND, "quorum", "watch", "-i", "0.1", "-C", three.join]
    with subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, env=environment(TERM="xterm")
    ) as process:
        os.close(other)
        shown = read_until(main, b"Ctrl-C ends")
        process.send_signal(signal.SIGINT)
        shown += read_until(main, SHOW_CURSOR)
        assert process.wait(TIMEOUT_S) == 0
    os.close(main)
    assert b"leader" in shown
    assert b"Traceback" not in shown


def is_silent(status: dict[str, Any], node_id: int) -> bool:
    """Whether the leader has not heard from a voter for long enough to count it as gone."""
    heard_ms: int = status["voters"][node_id - 1]["last_fetch_ms"]
    return time.time_ns() // 1_000_000 - heard_ms > SILENT_MS


def read_until(descriptor: int, wanted: bytes) -> bytes:
    """Read what a terminal shows, until it has shown something."""
    shown = b""
    deadline = time.monotonic() + TIMEOUT_S
    while wanted not in shown:
        ready, _, _ = select.select([descriptor], [], [], deadline - time.monotonic())
        assert ready, shown
        try:
            shown += os.read(descriptor, 65_536)
        except OSError:  # how a terminal ends whose other side is closed
            break
    assert wanted in shown
    return shown


def test_controllers_that_do_not_run_are_not_reached() -> None:
    told = quorate("quorum", "status", "-C", "127.0.0.1:1,127.0.0.1:2")
    assert (told.code, told.out) == (4, "")
    assert [line.split(":")[0].strip() for line in told.err.splitlines()] == ["error", "why", "try"]


def test_controllers_with_tls_are_asked_with_a_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    identity = authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
    identity.write_to_path(str(tmp_path / "own.pem"))
    served = [
        "quorate.controller.security.protocol=SSL",
        f"listener.name.controller.ssl.keystore.location={tmp_path / 'own.pem'}",
        f"listener.name.controller.ssl.truststore.location={tmp_path / 'ca.pem'}",
    ]
    asked = [
        "security.protocol=SSL",
        f"ssl.keystore.location={tmp_path / 'own.pem'}",
        f"ssl.truststore.location={tmp_path / 'ca.pem'}",
    ]
    words = ["controller", "start", "--listen", "127.0.0.1:0", "--dir", str(tmp_path / "c")]
    node = Node([*words, *properties(served)], tmp_path / "c.log")
    try:
        where = ["-C", node.wait_ready()["listeners"]["CONTROLLER"]]
        for question in (["quorum", "status"], ["metadata", "cat"], ["metadata", "shell", "ls"]):
            done = quorate(*question, *where, *properties(asked))
            assert (done.code, done.err) == (0, ""), done
        for wrong in ([], asked[:1]):
            done = quorate("quorum", "status", *where, *properties(wrong), "--timeout", "3")
            assert done.code == 4, done
        node.stop()
    finally:
        node.kill()


def properties(texts: list[str]) -> list[str]:
    """Return properties as words of a command line."""
    return [word for text in texts for word in ("-X", text)]


# --- metadata


def test_records_are_shown_with_offset_term_time_and_cause(three: Quorum, bootstrap: str) -> None:
    del bootstrap
    done = three.run("metadata", "cat", "--type", "TopicCreated,PartitionCreated", "--json")
    records = [r for line in done.out.splitlines() if (r := json.loads(line))["topic"] == "appLogs"]
    assert [r["type"] for r in records] == ["TopicCreated"] + ["PartitionCreated"] * 2
    for record in records:
        assert record["offset"] > 0
        assert record["term"] >= 1
        assert record["cause"] == "CreateTopics by User:ANONYMOUS"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["time"])
    topic = three.run("metadata", "cat", "--topic", "appLogs", "--since-offset", "999999999")
    assert (topic.code, topic.out) == (0, "")


def test_every_controllers_directory_holds_the_same_records(three: Quorum, bootstrap: str) -> None:
    del bootstrap
    three.wait_for(lambda status: all(voter["lag"] == 0 for voter in status["voters"]))
    kept = [
        quorate("metadata", "cat", "--topic", "appLogs", "--json", "--dir", str(three.directory(n)))
        for n in three.addresses
    ]
    told = three.run("metadata", "cat", "--topic", "appLogs", "--json").out
    assert [done.out for done in kept] == [told] * 3
    dumped = quorate("log", "dump", "--metadata", str(three.directory(1)), "--format", "jsonl").out
    assert set(told.splitlines()) <= set(dumped.splitlines())


def test_the_metadata_is_a_tree_to_walk_in(three: Quorum, bootstrap: str) -> None:
    def shell(*words: str, stdin: str = "") -> str:
        done = quorate("metadata", "shell", *words, "-b", bootstrap, stdin=stdin)
        assert done.code == 0, done.err
        return done.out

    assert shell("ls", "/topics/appLogs") == "0/\n1/\nid\n"
    assert shell("cat", "/topics/appLogs/0/leader_id") == "100\n"
    assert shell("ls", "/quorum/voters") == "1/\n2/\n3/\n"
    assert shell("cat", "/quorum/leader_id") == f"{three.status()['leader_id']}\n"
    assert "appLogs" in shell("records", "/topics/appLogs")
    walked = shell(stdin="cd topics/appLogs\npwd\ncat 1/isr\nexit\ncat never\n")
    assert walked == "/topics/appLogs\n[\n  100\n]\n"
    wrong = quorate("metadata", "shell", "cat", "/nowhere", "-b", bootstrap)
    assert (wrong.code, wrong.out) == (1, "")
    assert "no such place" in wrong.err


def test_records_are_followed_across_the_death_of_the_leader(quorum: Quorum) -> None:
    with broker_of(quorum) as address:
        command = [*COMMAND, "metadata", "cat", "--follow", "--type", "TopicCreated", "--json"]
        with subprocess.Popen(
            [*command, "-C", quorum.join], stdout=subprocess.PIPE, text=True, env=environment()
        ) as follower:
            assert follower.stdout is not None
            quorate("topics", "create", "before", "-b", address)
            assert json.loads(follower.stdout.readline())["topic"] == "before"
            leader_id = quorum.status()["leader_id"]
            quorum.nodes[leader_id].kill()
            quorum.wait_for(lambda status: status["leader_id"] not in (None, leader_id))
            assert quorate("topics", "create", "after", "-b", address).code == 0
            record = json.loads(follower.stdout.readline())
            assert record["topic"] == "after"
            follower.send_signal(signal.SIGINT)
            assert follower.wait(TIMEOUT_S) == 130


# --- changing


@pytest.mark.parametrize("way", ["controllers", "broker"])
def test_a_controller_is_added_and_removed(quorum: Quorum, way: str) -> None:
    quorum.start(4).wait_ready()
    quorum.wait_for(lambda status: ids(status["observers"]) == [4])
    with broker_of(quorum) as address:
        where = ["-b", address] if way == "broker" else ["-C", quorum.join]
        planned = quorate("quorum", "add", "4", "--dry-run", "--json", *where)
        (plan,) = planned.items()
        assert (plan["voters_before"], plan["voters_after"]) == ([1, 2, 3], [1, 2, 3, 4])
        assert ids(quorum.status()["voters"]) == [1, 2, 3]
        added = quorate("quorum", "add", "4", *where)
        assert (added.code, added.err) == (0, "")
        assert "Controller 4 votes now; the voters are 1, 2, 3, 4." in added.out
        assert ids(quorum.status()["voters"]) == [1, 2, 3, 4]
        again = quorate("quorum", "add", "4", *where)
        assert again.code == 5
        assert "DUPLICATE_VOTER" in again.err
        unasked = quorate("quorum", "remove", "4", *where)
        assert unasked.code == 2
        assert ids(quorum.status()["voters"]) == [1, 2, 3, 4]
        removed = quorate("quorum", "remove", "4", "-y", *where)
        assert removed.code == 0, removed.err
        assert "Controller 4 does not vote any more; the voters are 1, 2, 3." in removed.out
        after = quorum.status()
        assert (ids(after["voters"]), ids(after["observers"])) == ([1, 2, 3], [4])


def test_the_leader_can_be_removed_and_another_one_takes_over(quorum: Quorum) -> None:
    leader_id = quorum.status()["leader_id"]
    assert quorum.run("quorum", "remove", str(leader_id), "-y").code == 0
    after = quorum.wait_for(lambda status: status["leader_id"] not in (None, leader_id))
    assert ids(after["voters"]) == [node_id for node_id in (1, 2, 3) if node_id != leader_id]


def test_what_would_not_be_safe_is_refused_with_the_reason(quorum: Quorum) -> None:
    leader_id = quorum.status()["leader_id"]
    victim, other = [node_id for node_id in (1, 2, 3) if node_id != leader_id]
    quorum.nodes[victim].kill()
    quorum.wait_for(lambda status: is_silent(status, victim))
    refused = quorum.run("quorum", "remove", str(other), "-y")
    assert refused.code == 5, (refused.out, refused.err)
    lines = [line.split(":")[0].strip() for line in refused.err.splitlines()]
    assert lines == ["error", "why", "try"]
    assert ids(quorum.status()["voters"]) == [1, 2, 3]
    nobody = quorum.run("quorum", "add", "9")
    assert nobody.code == 1
    assert "no controller 9 follows" in nobody.err


def test_the_leadership_is_handed_over(quorum: Quorum) -> None:
    before = quorum.status()
    target = next(node_id for node_id in (1, 2, 3) if node_id != before["leader_id"])
    planned = quorum.run("quorum", "transfer", "--to", str(target), "--dry-run")
    assert planned.out.strip().endswith(f"would hand over to controller {target}.")
    assert quorum.status()["leader_id"] == before["leader_id"]
    done = quorum.run("quorum", "transfer", "--to", str(target))
    assert done.code == 0, done.err
    assert done.out.startswith(f"Controller {target} leads now, in term ")
    after = quorum.status()
    assert (after["leader_id"], after["leader_epoch"]) == (target, before["leader_epoch"] + 1)
    anyone = quorum.run("quorum", "transfer", "--format", "json")
    assert anyone.items()[0]["leader_id"] != target


def test_without_a_majority_nobody_leads_and_that_is_said(quorum: Quorum) -> None:
    with broker_of(quorum) as address:
        leader_id = quorum.status()["leader_id"]
        survivor, victim = [node_id for node_id in (1, 2, 3) if node_id != leader_id]
        quorum.nodes[leader_id].kill()
        quorum.nodes[victim].kill()
        quorum.wait_for(lambda status: status["leader_id"] is None)
        told = quorum.run("quorum", "status")
        assert told.code == 3
        assert "nobody leads the quorum" in told.err
        assert re.search(rf"^{survivor} +follower", told.out, re.MULTILINE)
        refused = quorum.run("quorum", "transfer")
        assert refused.code == 5
        soon = ["--timeout", "3", "-X", "request.timeout.ms=3000"]
        asked = quorate("quorum", "status", "-b", address, *soon)
        assert asked.code in (1, 4)
        assert "Traceback" not in asked.err
        whole = quorate("status", "-b", address)
        assert whole.code == 3
        assert "no controller leads" in whole.err
        assert "in service" in whole.out
        quorum.start(victim).wait_ready()
        again = quorum.wait_for(lambda status: status["leader_id"] is not None)
        assert quorate("status", "-b", address).code == 0
        never_heard = again["voters"][leader_id - 1]
        assert never_heard["behind_ms"] is None or never_heard["behind_ms"] < TIMEOUT_S * 1000
