"""The demo's bookkeeping, and where it finds log lines."""

import io
import json
from pathlib import Path

from rich.console import Console

from quorate.model import TopicPartition
from quorate.records.record import Record
from quorate.tools.demo import DemoReport, Passage
from quorate.tools.demo_failover import Failover, Recovery
from quorate.tools.demo_ledger import Ledger, Sent, Tally, differing, make_ledger, tally_records
from quorate.tools.demo_report import mistakes, print_report, report_json
from quorate.tools.log_lines import (
    APP,
    DB,
    INGRESS,
    TOPICS,
    GrowingFile,
    find_sources,
    is_text,
    read_lines,
    topic_of,
)
from quorate.tools.partitions.comparing import Compared, Range, ReplicaHash

A = TopicPartition("appLogs", 0)
B = TopicPartition("appLogs", 1)


def sent(partition: TopicPartition, offset: int, value: bytes, *, late: bool = False) -> Sent:
    return Sent(partition, offset, b"k", value, late)


def received(partition: TopicPartition, offset: int, value: bytes) -> Record:
    return Record(partition, offset, 0, b"k", value, ())


LEDGER = make_ledger([sent(A, 0, b"x"), sent(B, 0, b"y"), sent(A, 1, b"z", late=True)], [A, B])


def tallied(*records: Record) -> dict[TopicPartition, Tally]:
    found = {A: Tally(), B: Tally()}
    tally_records(records, found)
    return found


FAILOVER = Failover(broker_id=2, partition=A, led=4, sent_before=1500, seconds=0.5)


def replica(data: bytes) -> ReplicaHash:
    hashed = ReplicaHash(Range(0, 1))
    hashed.add(data)
    return hashed


def compared(*replicas: bytes) -> Compared:
    hashes = {number: replica(data) for number, data in enumerate(replicas, 1)}
    return Compared(A, Range(0, 1), hashes, {})


RECOVERY = Recovery(2.0, [compared(b"", b"", b"")])


def report(
    *passages: Passage, recovery: Recovery = RECOVERY, ledger: Ledger = LEDGER
) -> DemoReport:
    return DemoReport(0.5, [], 2, ledger, 1.0, passages, FAILOVER, recovery)


def test_the_ledger_knows_the_whole_the_later_half_and_the_tail() -> None:
    assert [LEDGER.whole[A].records, LEDGER.whole[B].records] == [2, 1]
    assert LEDGER.later[A].matches(tallied(received(A, 1, b"z"))[A])
    assert LEDGER.middle_offsets == {A: 1, B: 0}
    assert LEDGER.tail[B].records == 1
    assert LEDGER.gaps == 0


def test_an_offset_that_is_not_the_next_one_is_noticed() -> None:
    assert make_ledger([sent(A, 0, b"x"), sent(A, 2, b"y")], [A]).gaps == 1
    assert make_ledger([sent(A, 1, b"x"), sent(A, 0, b"y")], [A]).gaps == 2


def test_what_comes_back_the_same_does_not_differ() -> None:
    found = tallied(received(B, 0, b"y"), received(A, 0, b"x"), received(A, 1, b"z"))
    assert list(differing(LEDGER.whole, found)) == []


def test_another_order_another_value_and_a_missing_record_differ() -> None:
    swapped = tallied(received(A, 0, b"z"), received(A, 1, b"x"), received(B, 0, b"Y"))
    assert list(differing(LEDGER.whole, swapped)) == [A, B]
    assert list(differing(LEDGER.whole, tallied(received(B, 0, b"y")))) == [A]


def test_where_a_value_ends_makes_a_difference() -> None:
    one, other = Tally(), Tally()
    one.add(b"a", b"b")
    one.add(b"", b"c")
    other.add(b"a", b"")
    other.add(b"b", b"c")
    assert one.size_bytes == other.size_bytes
    assert not one.matches(other)


def test_a_report_says_whether_all_is_well() -> None:
    same = tallied(received(B, 0, b"y"), received(A, 0, b"x"), received(A, 1, b"z"))
    good = report(Passage("to the end", LEDGER.whole, same, 0.1))
    assert good.ok
    out = io.StringIO()
    print_report(good, Console(file=out, width=100))
    assert "nothing is left running" in out.getvalue()
    assert json.loads(report_json(good))["ok"] is True


def test_a_report_says_which_partition_is_wrong() -> None:
    bad = report(Passage("by offset", LEDGER.whole, tallied(received(B, 0, b"y")), 0.1))
    assert not bad.ok
    assert mistakes(bad) == "by offset: appLogs-0"
    out = io.StringIO()
    print_report(bad, Console(file=out, width=100))
    assert "WRONG" in out.getvalue()


def test_gaps_alone_are_a_mistake() -> None:
    gappy = report(ledger=make_ledger([sent(A, 5, b"x")], [A]))
    assert not gappy.ok
    assert "not the next one" in mistakes(gappy)


def test_replicas_that_were_not_compared_or_are_not_the_same_are_a_mistake() -> None:
    unread = Compared(A, Range(0, 1), {}, {3: "it does not answer"})
    for results, told in (([], "no replicas"), ([unread], "it does not answer on 3")):
        wrong = report(recovery=Recovery(1.0, results))
        assert not wrong.ok
        assert told in mistakes(wrong)


def test_a_report_tells_of_the_broker_that_was_killed_and_came_back() -> None:
    out = io.StringIO()
    print_report(report(), Console(file=out, width=300))
    assert (
        "after 1,500 records, broker 2 was killed (-9), which led 4 partitions, appLogs-0 among"
        " them. The next record there was acknowledged 0.50 s later."
    ) in out.getvalue()
    assert "2.0 s later all replicas were in sync. The three replicas of all 1" in out.getvalue()
    told = json.loads(report_json(report()))
    assert (told["failover"]["seconds"], told["recovery"]["replicas_same"]) == (0.5, True)


def test_files_go_to_the_topic_that_their_name_tells() -> None:
    topics = {
        "/var/log/dpkg.log": DB,
        "/var/log/apt/term.log": DB,
        "/var/log/postgresql/pg.log": DB,
        "/var/log/syslog": INGRESS,
        "/var/log/nginx/access.log": INGRESS,
        "/var/log/my-app.log": APP,
    }
    assert {name: topic_of(Path(name)) for name in topics} == topics


def test_readable_text_files_are_sources_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "apt").mkdir()
    (tmp_path / "apt" / "term.log").write_text("a\n\nb\n")
    (tmp_path / "syslog").write_text("c\n")
    (tmp_path / "app.log").write_text("d\n")
    (tmp_path / "wtmp").write_bytes(b"a\0b")
    (tmp_path / "old.log.gz").write_bytes(b"x")
    (tmp_path / "empty").touch()
    (tmp_path / "README").write_text("not a log")
    found = {s.topic: s.path.name for s in find_sources(tmp_path, TOPICS)}
    assert found == {APP: "app.log", INGRESS: "syslog", DB: "term.log"}
    assert read_lines(tmp_path / "apt" / "term.log") == [b"a", b"b"]


def test_a_machine_without_log_files_has_other_text(tmp_path: Path) -> None:
    sources = find_sources(tmp_path / "none", TOPICS)
    assert {s.topic for s in sources} >= {APP, INGRESS}
    assert all(read_lines(s.path) for s in sources if s.topic == INGRESS)


def test_files_that_go_away_are_no_text_and_have_no_lines(tmp_path: Path) -> None:
    assert not is_text(tmp_path / "gone")
    assert read_lines(tmp_path / "gone") == []


def test_a_growing_file_gives_each_line_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\nb")
    growing = GrowingFile(path)
    assert growing.new_lines() == [b"a"]
    assert growing.new_lines() == []
    path.write_text("a\nbc\nd\n")
    assert growing.new_lines() == [b"bc", b"d"]
