"""Which leader epoch began where, and where histories diverge."""

from random import Random

import pytest

from quorate.broker.log.documents import CorruptDocumentError, encode_document
from quorate.broker.log.epochs import KIND, VERSION, LeaderEpochs, load_epochs
from quorate.broker.log.files import replace_file
from tests.simulation.disk import SimDisk

PATH = "/leader-epochs"


def new_epochs(*starts: tuple[int, int]) -> tuple[LeaderEpochs, SimDisk]:
    disk = SimDisk(Random(0))
    epochs = load_epochs(disk, PATH)
    for leader_epoch, start_offset in starts:
        epochs.assign(leader_epoch, start_offset)
    return epochs, disk


def test_epochs_are_durable_as_soon_as_they_are_assigned() -> None:
    epochs, disk = new_epochs((0, 0), (3, 10))
    disk.lose_power()
    assert load_epochs(disk, PATH).entries == epochs.entries == ((0, 0), (3, 10))
    assert epochs.latest_epoch == 3


def test_older_epochs_and_repeats_change_nothing() -> None:
    epochs, disk = new_epochs((0, 0), (3, 10))
    syncs = disk.syncs
    epochs.assign(3, 20)
    epochs.assign(2, 20)
    assert epochs.entries == ((0, 0), (3, 10))
    assert disk.syncs == syncs


def test_an_epoch_without_records_gives_way_to_the_next() -> None:
    epochs, _ = new_epochs((0, 0), (3, 10), (4, 10))
    assert epochs.entries == ((0, 0), (4, 10))


@pytest.mark.parametrize(
    ("leader_epoch", "expected"),
    [
        (-1, (-1, -1)),
        (1, (1, 5)),
        (2, (2, 20)),
        (3, (2, 20)),
        (5, (5, 30)),
        (7, (7, 99)),
        (8, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_larger_one_begins(
    leader_epoch: int, expected: tuple[int, int]
) -> None:
    epochs, _ = new_epochs((2, 5), (5, 20), (7, 30))
    assert epochs.end_offset_for(leader_epoch, 99) == expected


def test_without_epochs_nothing_is_known() -> None:
    epochs, _ = new_epochs()
    assert epochs.latest_epoch == -1
    assert epochs.end_offset_for(0, 99) == (-1, -1)
    assert epochs.epoch_for(0) == -1


@pytest.mark.parametrize(("offset", "expected"), [(4, -1), (5, 2), (19, 2), (20, 5), (1000, 7)])
def test_an_offset_belongs_to_the_last_epoch_that_began_before(offset: int, expected: int) -> None:
    epochs, _ = new_epochs((2, 5), (5, 20), (7, 30))
    assert epochs.epoch_for(offset) == expected


@pytest.mark.parametrize(("offset", "left"), [(31, 3), (30, 2), (21, 2), (5, 0), (0, 0)])
def test_truncation_forgets_epochs_that_begin_behind_the_end(offset: int, left: int) -> None:
    epochs, disk = new_epochs((2, 5), (5, 20), (7, 30))
    epochs.truncate_from_end(offset)
    assert epochs.entries == ((2, 5), (5, 20), (7, 30))[:left]
    assert load_epochs(disk, PATH).entries == epochs.entries


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (3, ((2, 5), (5, 20), (7, 30))),
        (5, ((2, 5), (5, 20), (7, 30))),
        (6, ((2, 6), (5, 20), (7, 30))),
        (20, ((5, 20), (7, 30))),
        (50, ((7, 50),)),
    ],
)
def test_the_epoch_of_the_first_record_begins_there(
    offset: int, expected: tuple[tuple[int, int], ...]
) -> None:
    epochs, disk = new_epochs((2, 5), (5, 20), (7, 30))
    before = epochs.entries
    epochs.truncate_from_start(offset)
    assert epochs.entries == expected
    assert load_epochs(disk, PATH).entries == before

    epochs.forget_deleted()
    assert epochs.entries == load_epochs(disk, PATH).entries == expected


def test_epochs_of_deleted_records_stay_written_until_the_deletion_is_durable() -> None:
    epochs, disk = new_epochs((2, 5), (5, 20))
    epochs.truncate_from_start(25)
    epochs.assign(7, 30)

    assert epochs.entries == ((5, 25), (7, 30))
    assert load_epochs(disk, PATH).entries == ((2, 5), (5, 20), (7, 30))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        encode_document(KIND, VERSION, [[1, 0], [1, 5]]),
        encode_document(KIND, VERSION, [[1, 5], [2, 5]]),
        encode_document(KIND, VERSION, [[1, 0]]).replace(b"[1,0]", b"[2,0]"),
        encode_document(KIND, VERSION + 1, [[1, 0]]),
    ],
)
def test_a_damaged_file_is_refused(content: bytes) -> None:
    disk = SimDisk(Random(0))
    replace_file(disk, PATH, content)
    with pytest.raises(CorruptDocumentError):
        load_epochs(disk, PATH)


def test_all_epochs_can_be_replaced() -> None:
    epochs, disk = new_epochs((2, 5))
    epochs.replace([])
    assert load_epochs(disk, PATH).entries == epochs.entries == ()
