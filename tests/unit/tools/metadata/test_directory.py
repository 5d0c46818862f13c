"""A controller's directory, read by somebody else."""

import os
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from quorate.broker.log.directory import META_NAME
from quorate.model import Endpoint
from quorate.quorum.directory import SUBDIRECTORY
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import EMPTY_IMAGE
from quorate.quorum.metadata.machine import encode_command
from quorate.quorum.metadata.snapshot import encode_image
from quorate.quorum.raft.configurations import encode_voters_command
from quorate.quorum.raft.engine import VOTERS
from quorate.quorum.raft.journal import Journal
from quorate.quorum.raft.journal_file import FILE_NAME, Entry, JournalDamagedError, SnapshotEnd
from quorate.quorum.raft.snapshots import FILE_NAME as SNAPSHOT
from quorate.quorum.raft.snapshots import Configuration, Snapshot, encode_snapshot
from quorate.quorum.raft.storage import FileStorage
from quorate.quorum.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet
from quorate.tools.arguments import GlobalOptions
from quorate.tools.dumping import verify
from quorate.tools.metadata.decided import Reader
from quorate.tools.metadata.directory import batches_of, controller_folder
from quorate.tools.problems import CommandError, ProblemFoundError

ID = b"t" * 16
CREATE = r.TopicCreated("c", 5, "appLogs", ID)
SET = r.ConfigSet("c", 6, "topic", "appLogs", "k", "v")


def command(expected_version: int, *records: r.MetadataRecord) -> bytes:
    return b"\0" + encode_command(expected_version, records)


def write_journal(folder: Path, commands: Iterable[bytes]) -> None:
    storage = FileStorage(folder)
    journal = Journal(storage, None, rng=Random(1), retained_entries=0)
    for index, content in enumerate(commands, 1):
        journal.append(Entry(content, index, 7))
    flush = journal.start_flush()
    assert flush is not None
    flush.run()
    journal.finish_flush(flush)
    storage.close()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_batches_come_with_offset_and_term_and_nothing_is_written(tmp_path: Path) -> None:
    write_journal(tmp_path, [b"\1", command(0, CREATE), command(2, SET)])
    before = files(tmp_path)
    batches = list(batches_of(tmp_path))
    assert [(b.offset, b.term, b.changes) for b in batches] == [(2, 7, (CREATE,)), (3, 7, (SET,))]
    assert files(tmp_path) == before


def test_what_was_decided_on_another_version_never_took_effect(tmp_path: Path) -> None:
    again = r.TopicCreated("c", 5, "other", b"o" * 16)
    write_journal(tmp_path, [command(0, CREATE), command(0, again), command(1, SET)])
    assert [b.changes for b in batches_of(tmp_path)] == [(CREATE,), (SET,)]


def test_who_votes_stands_between_the_records(tmp_path: Path) -> None:
    voters = VoterSet.of([Voter(ReplicaKey(2, b"d" * 16), Endpoint("c2", 9191))])
    change = VOTERS + encode_voters_command(voters)
    write_journal(tmp_path, [command(0, CREATE), change, command(1, SET)])
    batches = list(batches_of(tmp_path))
    reader = Reader()
    told = [decided.fields() for batch in batches for decided in reader.read(batch)]
    assert [record["type"] for record in told] == ["TopicCreated", "VotersChanged", "ConfigSet"]
    assert told[1]["voters"] == {"2-ZGRkZGRkZGRkZGRkZGRkZA": "c2:9191"}
    assert (told[1]["offset"], told[1]["term"], told[1]["time"]) == (2, 7, None)
    image = EMPTY_IMAGE
    for batch in batches:
        image = batch.applied_to(image)
    assert image.version == 3


def test_what_a_snapshot_covers_comes_as_one_and_the_rest_after_it(tmp_path: Path) -> None:
    commands = [b"\1", command(0, CREATE), command(2, SET)]
    write_journal(tmp_path, commands)
    image = apply_records(EMPTY_IMAGE, 2, (CREATE,))
    end = SnapshotEnd(Entry(commands[0], 1, 7), Entry(commands[1], 2, 7))
    snapshot = Snapshot(end, Configuration(0, NO_VOTERS), encode_image(image))
    (tmp_path / SNAPSHOT).write_bytes(encode_snapshot(snapshot))
    first, second = batches_of(tmp_path)
    assert (first.offset, first.term, first.image) == (2, 7, image)
    assert (second.offset, second.changes) == (3, (SET,))


def test_a_tail_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    write_journal(tmp_path, [command(0, CREATE)])
    with (tmp_path / FILE_NAME).open("ab") as journal:
        journal.write(b"\xa7QrJ half a rec")
    assert [b.changes for b in batches_of(tmp_path)] == [(CREATE,)]


def test_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    write_journal(tmp_path, [command(0, CREATE), command(1, SET)])
    path = tmp_path / FILE_NAME
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)
    with pytest.raises(JournalDamagedError):
        list(batches_of(tmp_path))


def test_the_journal_is_found_from_the_nodes_directory_and_from_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "controller"
    folder.mkdir()
    write_journal(folder, [command(0, CREATE)])
    for path in (tmp_path, folder, folder / FILE_NAME):
        assert controller_folder(path) == folder
    with pytest.raises(CommandError, match="no controller's journal"):
        controller_folder(tmp_path / "elsewhere")


def test_in_the_directory_of_a_cluster_it_is_the_controllers_that_wrote_last(
    tmp_path: Path,
) -> None:
    for number, name in enumerate(("controller-101", "controller-102", "broker-1")):
        folder = tmp_path / name / "controller" if number < 2 else tmp_path / name
        folder.mkdir(parents=True)
        if number < 2:
            write_journal(folder, [command(0, CREATE)])
            os.utime(folder / FILE_NAME, (number, number))
    assert controller_folder(tmp_path) == tmp_path / "controller-102" / "controller"
    os.utime(tmp_path / "controller-101" / "controller" / FILE_NAME, (9, 9))
    assert controller_folder(tmp_path) == tmp_path / "controller-101" / "controller"


def test_who_verifies_logs_hears_of_journals_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / META_NAME).touch()
    folder = tmp_path / SUBDIRECTORY
    folder.mkdir()
    write_journal(folder, [command(0, CREATE), command(1, SET)])
    verify(GlobalOptions(), [tmp_path])
    assert "2 records of metadata" in capsys.readouterr().out
    journal = folder / FILE_NAME
    content = bytearray(journal.read_bytes())
    content[-20] ^= 1
    journal.write_bytes(content)
    with pytest.raises(ProblemFoundError, match="1 problem") as raised:
        verify(GlobalOptions(), [tmp_path])
    assert "although it was synced" in raised.value.why
