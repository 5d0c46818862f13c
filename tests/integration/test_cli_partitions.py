"""quorate partitions and brokers against three real brokers, as people use them."""

import json
import re
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.controllers import TIMEOUT_S, Done, quorate

pytestmark = pytest.mark.integration

POLL_S = 0.2
KNOWN = ("broker-1", "broker-2", "broker-3", "brokers")
"""Who answers what is measured."""

Run = Callable[..., Done]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Generator[Run]:
    """Run commands on a cluster with a topic of three replicas and records in it."""
    directory = str(tmp_path_factory.mktemp("cluster") / "data")
    words = ("--brokers", "3", "--controllers", "1", "--racks", "a,b,c", "--port", "0")
    try:
        started = quorate("up", *words, "--detach", "--dir", directory)
        assert started.code == 0, started.err
        (status,) = quorate("status", "--json", "--dir", directory).items()

        def on_cluster(*words: str, stdin: str = "") -> Done:
            return quorate(*words, "-b", status["bootstrap"], stdin=stdin)

        assert on_cluster("topics", "create", "t", "-p", "3", "-r", "3").code == 0
        lines = "".join(f"line {number}\n" for number in range(3000))
        assert on_cluster("produce", "t", stdin=lines).code == 0
        yield on_cluster
    finally:
        ended = quorate("down", "--dir", directory)
    assert ended.code == 0, ended.err


def wait_for(look: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(POLL_S)
    return seen


def test_partitions_in_sync_are_listed_and_none_is_in_trouble(run: Run) -> None:
    def look() -> list[dict[str, Any]]:
        return run("partitions", "list", "--json").items()

    rows = wait_for(look, lambda rows: all(row["state"] == "ok" for row in rows))
    assert [row["partition"] for row in rows] == ["t-0", "t-1", "t-2"]
    assert all(sorted(row["isr"]) == [1, 2, 3] for row in rows)
    done = run("partitions", "list", "--under-replicated", "--offline", "--exit-code")
    assert (done.code, done.out) == (0, "none of 3 partitions is under-replicated or offline\n")


def test_a_description_tells_where_each_replica_stands(run: Run) -> None:
    def look() -> list[dict[str, Any]]:
        return run("partitions", "describe", "t:0", "--json").items()

    (each,) = wait_for(look, lambda items: all(r["lag"] == 0 for r in items[0]["replicas"]))
    assert each["log_end_offset"] == each["high_watermark"] > 0
    assert {replica["log_end_offset"] for replica in each["replicas"]} == {each["log_end_offset"]}
    assert [r["role"] for r in each["replicas"]].count("in sync") == 2
    assert "BROKER  ROLE" in run("partitions", "describe", "t:0").out
    assert run("partitions", "describe", "t:7").code == 2


def test_replicas_are_read_from_their_brokers_and_hold_the_same(run: Run) -> None:
    done = run("partitions", "verify", "--json")
    assert done.code == 0, done.err
    rows = done.items()
    assert [row["result"] for row in rows] == ["same"] * 3
    assert sum(row["to"] for row in rows) == 3000
    assert all(len(row["hashes"]) == 3 for row in rows)
    assert "the replicas of 3 partitions hold the same" in done.err


def test_a_broker_is_drained_and_leads_again_when_it_is_asked_to(run: Run) -> None:
    dry = run("brokers", "drain", "1", "--dry-run")
    assert "broker 1 leads 1 partitions that others can lead" in dry.out
    assert run("brokers", "drain", "1").code == 2, "nobody is there to ask"
    assert run("brokers", "drain", "1", "-y").out.endswith("is drained: it leads nothing\n")
    first = run("brokers", "list", "--json").items()[0]
    assert (first["state"], first["leads"], first["replicas"], first["rack"]) == (
        "draining",
        0,
        3,
        "a",
    )
    assert run("brokers", "undrain", "1", "-y").out == "broker 1 may lead again\n"
    assert run("partitions", "elect", "--all", "--json").items()[0]["result"] == "elected"
    assert run("partitions", "elect", "--all").out == "the preferred ones lead already\n"
    described = run("brokers", "describe", "1").out
    assert "broker 1 at 127.0.0.1:" in described
    assert re.search(r"directory  /.*, [0-9.]+ [kMGT]B free$", described, re.MULTILINE)
    assert run("brokers", "describe", "1", "-q").out, "that is data"
    assert "Topic: t\t" in run("topics", "describe", "t", "-q").out
    assert run("brokers", "describe", "9").code == 2


def test_why_cites_records_that_are_in_the_log(run: Run) -> None:
    partition = "t:0"
    records = run("metadata", "cat", "--json").out.splitlines()
    there = {(told["offset"], told["time_ms"]) for told in map(json.loads, records)}
    for question in ("leader", "isr", "offline"):
        (answer,) = [json.loads(run("why", question, partition, "--json").out)]
        assert (answer["question"], answer["subject"]) == (question, partition)
        cited = {(line["offset"], line["time_ms"]) for line in answer["lines"]}
        assert cited
        assert cited <= there
    for words in (("stuck", partition), ("rejected", partition), ("rejected", "t")):
        answer = json.loads(run("why", *words, "--json").out)
        assert "not" in answer["headline"]
        lines = answer["lines"]
        measured = {line["log"] for line in lines if line["offset"] is None}
        assert all(who.partition("/")[0] in KNOWN for who in measured), measured
        assert measured
        assert {(o["offset"], o["time_ms"]) for o in lines if o["log"] == "metadata"} <= there
    assert run("consume", "t", "--from-beginning", "-g", "g", "-n", "5", "-q").code == 0
    commits = run("why", "rejected", "--group", "g")
    assert "__consumer_offsets-" in commits.out, commits
    rebalance, lag = (run("why", question, "g") for question in ("rebalance", "lag"))
    assert "__consumer_offsets-" in rebalance.out, rebalance
    assert "it has no members" in lag.out, lag


def test_partitions_move_by_plan_and_by_name(run: Run, tmp_path: Path) -> None:
    assert run("topics", "create", "moving", "--replica-assignment", "1:2,1:2,1:2").code == 0
    assert run("produce", "moving", stdin="one\ntwo\nthree\n").code == 0
    planned = run("partitions", "reassign", "plan", "moving")
    targets = {p["partition"]: p["replicas"] for p in json.loads(planned.out)["partitions"]}
    had = [b for n in range(3) for b in targets.get(n, [1, 2])]
    assert sorted(had.count(b) for b in (1, 2, 3)) == [2, 2, 2]
    assert "broker 3: replicas 0 -> 2" in planned.err

    plan = tmp_path / "plan.json"
    plan.write_text(planned.out)
    assert run("partitions", "reassign", "apply", str(plan), "--dry-run").code == 0
    done = run("partitions", "reassign", "apply", str(plan), "-y", "--wait")
    assert (done.code, done.out.endswith("all moves are done\n")) == (0, True), done.err
    for row in run("partitions", "list", "moving", "--json").items():
        wanted = targets.get(row["number"], [1, 2])
        assert (row["replicas"], sorted(row["isr"])) == (wanted, sorted(wanted))
    assert run("partitions", "reassign", "plan", "moving", "--json").items() == []

    assert run("partitions", "reassign", "apply", "moving:0=3,1", "-y", "-w").code == 0
    assert run("partitions", "reassign", "status").out == "nothing is being moved\n"
    assert run("partitions", "reassign", "cancel", "-y").out == "nothing is being moved\n"
    assert run("partitions", "verify", "moving").code == 0
    assert run("topics", "delete", "moving", "-y").code == 0


def test_moves_are_called_off_and_throttles_stay_as_long_as_others_need_them(run: Run) -> None:
    def moving() -> list[str]:
        return [
            row["partition"] for row in run("partitions", "reassign", "status", "--json").items()
        ]

    assert run("topics", "create", "slow", "--replica-assignment", "1:2,1:2").code == 0
    large = ("x" * 900_000 + "\n") * 4  # more than is fetched at once, as it may be at any rate
    for number in ("0", "1"):
        assert run("produce", "slow", "-p", number, stdin=large).code == 0
    apply = ("partitions", "reassign", "apply", "slow:0=1,3", "slow:1=1,3")
    assert run(*apply, "--throttle", "1B", "-y").code == 0

    cancel = ("brokers", "decommission", "2", "--cancel")
    assert run(*cancel, "--dry-run").out == "would call off: slow-0, slow-1\n"
    assert run(*cancel).code == 2, "nobody is there to ask"
    assert moving() == ["slow-0", "slow-1"]

    one = run("partitions", "reassign", "cancel", "slow:0", "-y")
    assert one.out == "called off: slow-0\n", "the other is still throttled"
    assert moving() == ["slow-1"]
    rest = run(*cancel, "-y").out.splitlines()
    assert rest == ["called off 1 moves away from broker 2", "took back the throttles"]
    assert moving() == []
    assert run("topics", "delete", "slow", "-y").code == 0


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("partitions", "reassign", "apply", "t:0=1,9", "-y"), 2, "t-0 cannot be on broker 9"),
        (("partitions", "reassign", "apply", "t:9=1", "-y"), 2, "there is no partition t-9"),
        (("partitions", "reassign", "plan", "--to", "1,2"), 5, "there are too few brokers"),
        (("partitions", "reassign", "plan", "--to", "a"), 2, "names no brokers"),
        (("partitions", "reassign", "apply", "nofile"), 2, "cannot read nofile"),
        (("partitions", "elect",), 2, "name partitions, or say --all"),
        (("partitions", "elect", "t", "--preferred", "--unclean"), 2, "exclude each other"),
        (("topics", "delete", "nosuch", "--dry-run"), 1, "there is no topic 'nosuch'"),
        (("partitions", "list", "nosuch"), 2, "there is no topic 'nosuch'"),
        (("brokers", "drain", "9", "-y"), 2, "there is no broker 9"),
        (("brokers", "decommission", "1", "--dry-run"), 5, "there are too few brokers"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told_in_three_lines(
    run: Run, words: tuple[str, ...], code: int, told: str
) -> None:
    done = run(*words)
    assert (done.code, told in done.err) == (code, True), done.err
    labels = [line.split(":")[0].strip() for line in done.err.splitlines()]
    assert labels == ["error", "why", "try"]
