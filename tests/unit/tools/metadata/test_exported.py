"""Metadata go to a file and come back as they were, or the file is refused."""

import json
import stat
from pathlib import Path

import pytest

from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.features import bootstrap_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.tools.metadata.decided import Batch
from quorate.tools.metadata.exported import (
    SUFFIXES,
    Exported,
    check_name,
    decode,
    encode,
    exported,
    read_exported,
    write_exported,
)
from quorate.tools.metadata.travel import Point, image_at
from quorate.tools.metadata_reading import File, read_root
from quorate.tools.problems import CommandError, RefusedError, UsageError

BATCHES = (
    Batch(1, 1, bootstrap_records("x", 100)),
    Batch(
        2,
        1,
        (
            r.TopicCreated("c", 200, "orders", b"t" * 16),
            r.PartitionCreated("c", 201, b"t" * 16, 0, (1, 2), (1,), 1),
            r.ScramCredentialSet("c", 202, "alice", 1, b"salt", b"stored", b"server", 4096),
        ),
    ),
    Batch(3, 1, (r.ConfigSet("c", 300, "topic", "orders", "k", "v"),)),
)


def image(offset: int = 3) -> MetadataImage:
    return image_at(BATCHES, Point(str(offset), offset=offset))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("offset", [1, 2, 3])
def test_what_was_written_comes_back(suffix: str, offset: int) -> None:
    one = exported(image(offset), BATCHES)
    assert one.time_ms == {1: 100, 2: 202, 3: 300}[offset]
    assert decode(encode(one, suffix)) == one


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_nobody_decided_yet_has_no_time(suffix: str) -> None:
    one = exported(EMPTY_IMAGE, BATCHES)
    assert one == Exported(EMPTY_IMAGE, None)
    assert decode(encode(one, suffix)) == one


def test_json_says_it_in_words() -> None:
    document = json.loads(encode(exported(image(), BATCHES), ".json"))
    assert (document["kind"], document["offset"], document["time_ms"]) == (
        "metadata-export",
        3,
        300,
    )
    assert document["cluster_id"] == "x"
    assert document["contents"]["configs"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_not_as_it_was_written_is_refused(suffix: str, tmp_path: Path) -> None:
    data = encode(exported(image(), BATCHES), suffix)
    path = tmp_path / f"m{suffix}"
    middle = data.index(b'"snapshot"' if suffix == ".json" else b"snapshot") + 30
    changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    for bad in (changed, data[:-10], b"", b"{}", b'{"kind": "x", "version": 1}', b"\xa0"):
        path.write_bytes(bad)
        with pytest.raises(CommandError, match="cannot read"):
            read_exported(path)
    with pytest.raises(CommandError, match="No such file"):
        read_exported(tmp_path / "nothing")


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "m.cbor"
    write_exported(path, b"one", overwrite=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(RefusedError, match="is there already"):
        write_exported(path, b"two", overwrite=False)
    assert path.read_bytes() == b"one"
    write_exported(path, b"two", overwrite=True)
    assert path.read_bytes() == b"two"
    folder = tmp_path / "folder.cbor"
    folder.mkdir()
    with pytest.raises(CommandError, match="cannot write"):
        write_exported(folder, b"three", overwrite=True)
    assert {each.name for each in tmp_path.iterdir()} == {"m.cbor", "folder.cbor"}


def test_the_name_says_what_to_write() -> None:
    with pytest.raises(UsageError, match="does not say"):
        check_name(Path("metadata.xml"))


def test_a_file_is_walked_through_as_a_cluster_is(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    write_exported(path, encode(exported(image(), BATCHES), ".json"), overwrite=False)
    assert "topics" in read_root(File(path)).entries()
