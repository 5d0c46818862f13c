"""Log files read without a broker."""

import io
import json
from pathlib import Path

import pytest

from quorate.broker.log.aborted import pack_aborted
from quorate.broker.log.directory import META_NAME
from quorate.broker.log.index import OFFSET_ENTRY, TIME_ENTRY
from quorate.broker.log.transactions import AbortedTransaction
from quorate.records.batch import assign_offset
from quorate.records.compression import Codec
from quorate.records.control import EndMarker, TransactionEnd, end_marker_batch
from quorate.records.record import NO_PRODUCER, RecordBatchBuilder
from quorate.tools.arguments import GlobalOptions
from quorate.tools.dumping import dump, verify
from quorate.tools.log_files import find_files, topic_partition_of, verify_segment
from quorate.tools.problems import CommandError, ProblemFoundError

COUNT = 3


def batch(base_offset: int, codec: Codec = Codec.NONE) -> bytearray:
    builder = RecordBatchBuilder()
    for number in range(COUNT):
        builder.append(1000 + number, b"key", b"value %d" % number, b"", 40)
    data = builder.build(codec, NO_PRODUCER)
    assign_offset(data, 0, base_offset, 5)
    return data


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    folder = tmp_path / "app-logs-2"
    folder.mkdir()
    path = folder / f"{0:020d}.log"
    first, second = batch(0), batch(3, Codec.GZIP)
    path.write_bytes(first + second)
    path.with_suffix(".index").write_bytes(OFFSET_ENTRY.pack(5, len(first)))
    path.with_suffix(".timeindex").write_bytes(TIME_ENTRY.pack(1002, 5))
    return path


def dumped(path: Path, *, style: str = "jsonl", with_records: bool = False) -> str:
    out = io.StringIO()
    dump(GlobalOptions(format=style), [path], out, with_records=with_records)
    return out.getvalue()


def test_a_sound_segment_has_no_problems(segment: Path) -> None:
    report = verify_segment(segment)
    assert (report.first_offset, report.next_offset, report.batches, report.records) == (0, 6, 2, 6)
    assert report.problems == ()


def test_the_partition_is_known_from_the_folder(segment: Path) -> None:
    assert topic_partition_of(segment) == ("app-logs", 2)


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("a.b-3.0123456789abcdef0123456789abcdef-stray", ("a.b", 3)),
        ("a.b-3.0123456789abcdef0123456789abcdef.2-delete", ("a.b", 3)),
        ("of-12.a-stray-4", ("of-12.a-stray", 4)),
        ("elsewhere", ("", 0)),
    ],
)
def test_the_partition_is_known_from_a_folder_that_was_set_aside(
    folder: str, expected: tuple[str, int]
) -> None:
    assert topic_partition_of(Path(folder) / "00000000000000000000.log") == expected


def test_a_changed_byte_is_found(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    (problem,) = verify_segment(segment).problems
    assert "offset 0" in problem
    assert "checksum" in problem


def test_a_torn_tail_is_found_and_what_stands_before_it_is_counted(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes()[:-1])
    report = verify_segment(segment)
    assert report.records == COUNT
    (problem,) = report.problems  # the indexes speak of what was torn, too
    assert "no batch at byte" in problem


def test_an_offset_that_goes_back_is_found(segment: Path) -> None:
    segment.write_bytes(batch(0) + batch(2))
    assert any("offset 3 was to be next" in problem for problem in verify_segment(segment).problems)


def test_an_index_that_points_between_batches_is_found(segment: Path) -> None:
    segment.with_suffix(".index").write_bytes(OFFSET_ENTRY.pack(5, 17))
    segment.with_suffix(".timeindex").write_bytes(TIME_ENTRY.pack(9, 4) + TIME_ENTRY.pack(8, 5))
    problems = verify_segment(segment).problems
    assert len(problems) == 3


def test_a_segment_without_indexes_is_read_all_the_same(segment: Path) -> None:
    segment.with_suffix(".index").unlink()
    segment.with_suffix(".timeindex").unlink()
    assert verify_segment(segment).problems == ()


def test_a_dump_shows_batches_and_records(segment: Path) -> None:
    lines = [json.loads(line) for line in dumped(segment, with_records=True).splitlines()]
    batches = [line for line in lines if line["kind"] == "batch"]
    records = [line for line in lines if line["kind"] == "record"]
    assert [(b["base_offset"], b["codec"], b["leader_epoch"]) for b in batches] == [
        (0, "none", 5), (3, "gzip", 5),
    ]  # fmt: skip
    assert [(r["offset"], r["key"], r["value"]) for r in records][-1] == (5, "key", "value 2")


def test_a_dump_for_people_leaves_out_what_is_not_there(segment: Path) -> None:
    text = dumped(segment, style="table", with_records=True)
    assert str(segment) in text
    assert "producer_id" not in text
    assert "record offset=4" in text


def test_the_entries_of_indexes_are_shown_with_absolute_offsets(segment: Path) -> None:
    assert json.loads(dumped(segment.with_suffix(".index")))["last_offset"] == 5
    assert json.loads(dumped(segment.with_suffix(".timeindex"))) == {
        "timestamp_ms": 1002, "last_offset": 5,
    }  # fmt: skip


def test_a_dump_ends_at_what_is_no_batch(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes() + b"garbage" * 20)
    with pytest.raises(ProblemFoundError, match=r"magic|batch"):
        dumped(segment)


def test_verify_reports_and_fails_if_something_is_wrong(
    segment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verify(GlobalOptions(), [segment.parents[1]])
    assert "6 records" in capsys.readouterr().out
    document: dict[str, object] = {"kind": "leader-epochs", "version": 1, "crc32c": 1, "body": ()}
    (segment.parent / "leader-epochs").write_text(json.dumps(document, separators=(",", ":")))
    with pytest.raises(ProblemFoundError, match="checksum"):
        verify(GlobalOptions(), [segment.parents[1]])


def test_a_data_directory_without_segments_says_where_metadata_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / META_NAME).touch()
    assert dumped(tmp_path) == ""
    assert "--metadata" in capsys.readouterr().err


def test_paths_without_segments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="does not exist"):
        find_files([tmp_path / "none"], [".log"])
    with pytest.raises(CommandError, match="there is no"):
        find_files([tmp_path], [".log"])
    (tmp_path / "meta.json").touch()
    assert find_files([tmp_path], [".log"]) == [], "a data directory without records"


@pytest.fixture
def transactions(segment: Path) -> Path:
    """A segment with records of a transaction that was aborted, and the end of another one."""
    ends = [
        end_marker_batch(TransactionEnd(7, 1, EndMarker(committed, 4), 1), 1000)
        for committed in (False, True)
    ]
    for number, end in enumerate(ends):
        assign_offset(end, 0, 6 + number, 5)
    segment.write_bytes(segment.read_bytes() + b"".join(ends))
    index = pack_aborted([AbortedTransaction(7, 3, 6, 7)])
    segment.with_suffix(".txnindex").write_bytes(index)
    return segment


def test_markers_are_shown_as_what_they_say(transactions: Path) -> None:
    lines = [json.loads(line) for line in dumped(transactions, with_records=True).splitlines()]
    told = [(b["marker"], b["coordinator_epoch"]) for b in lines if b.get("control")]
    assert told == [("ABORT", 4), ("COMMIT", 4)]
    assert len([line for line in lines if line["kind"] == "record"]) == 2 * COUNT
    text = dumped(transactions, style="table")
    assert "producer_id=7 producer_epoch=1" in text
    assert "marker=ABORT" in text


def test_an_index_of_aborted_transactions_is_shown_and_checked(transactions: Path) -> None:
    index = transactions.with_suffix(".txnindex")
    assert json.loads(dumped(index)) == {
        "producer_id": 7, "first_offset": 3, "last_offset": 6, "last_stable_offset": 7,
    }  # fmt: skip
    assert verify_segment(transactions).problems == ()
    index.write_bytes(pack_aborted([AbortedTransaction(7, 7, 7, 7)]))
    wrong = verify_segment(transactions).problems
    assert [text.split(": ")[1] for text in wrong] == [
        "no ABORT of producer 7 at 7",
        "7 to 7 after -1",
    ]
