"""Producers and aborted transactions made anew from the log: a snapshot, and what came since."""

from collections.abc import Iterable

from quorate.broker.log.aborted import pack_aborted, trusted_part
from quorate.broker.log.epochs import LeaderEpochs
from quorate.broker.log.files import File, OpenFiles
from quorate.broker.log.lookup import Searchable, batches_from
from quorate.broker.log.producers import ProducerStates
from quorate.broker.log.scan import PlacedBatch
from quorate.broker.log.segments import Segments
from quorate.broker.log.snapshots import Snapshots
from quorate.broker.log.transactions import AbortedTransaction
from quorate.errors import CorruptRecordError, InvalidRecordError
from quorate.records.control import MARKER_BYTES_MAX, EndMarker, find_end_marker


def rebuild_producers(
    files: OpenFiles,
    snapshots: Snapshots,
    segments: Segments,
    epochs: LeaderEpochs,
    end_offset: int,
) -> tuple[ProducerStates, bool]:
    """Return the producers as of the offset; segments say again which transactions were aborted.

    What they say of markers below the snapshot can be relied on: it is on disk before the snapshot.
    Synced batches that were damaged since are passed over, and so is the rest of their segment;
    returned with the producers is whether there were none.

    Raises:
        OSError: the disk fails.
    """
    is_whole = True
    states = snapshots.load(end_offset, epochs)
    if states is None:
        states = ProducerStates(segments.first_offset)
    start_offset = max(states.end_offset, segments.first_offset)
    mark = states.index_mark
    for number in range(segments.number_of(min(start_offset, end_offset)), len(segments) - 1):
        closed = segments.closed[number]
        data = closed.read_aborted(files)
        kept = trusted_part(data, closed.base_offset, mark, start_offset)
        try:
            aborted = _note_from(states, closed, start_offset)
        except (CorruptRecordError, InvalidRecordError):
            is_whole = False
            continue
        closed.rewrite_aborted(files, kept + pack_aborted(aborted))
    active = segments.active
    try:
        aborted = _note_from(states, active, start_offset) if start_offset < end_offset else []
    except (CorruptRecordError, InvalidRecordError):
        is_whole = False
    else:
        if active.aborted is not None:
            active.aborted.keep_trusted(active.base_offset, mark, start_offset)
        for each in aborted:
            active.note_aborted(each)
    states.end_offset = end_offset
    segments.note_aborted()
    return states, is_whole


def _note_from(
    states: ProducerStates, segment: Searchable, offset: int
) -> list[AbortedTransaction]:
    """Take over the batches of a segment from an offset on; see :func:`note_batches`.

    Raises:
        CorruptRecordError, InvalidRecordError: one is damaged; those before it were taken over.
    """
    return note_batches(states, segment.file, batches_from(segment, segment.position_of(offset)))


def note_batches(
    states: ProducerStates, file: File, batches: Iterable[PlacedBatch]
) -> list[AbortedTransaction]:
    """Take over batches of a segment's file; return the transactions that they aborted."""
    found: list[AbortedTransaction] = []
    for batch in batches:
        header = batch.header
        marker = marker_at(file, batch) if header.is_control else None
        aborted = states.note(header, header.base_offset, marker)
        if aborted is not None:
            found.append(aborted)
    return found


def marker_at(file: File, batch: PlacedBatch) -> EndMarker | None:
    """Read the marker of a control batch; None if there is none that can be read."""
    size_bytes = min(batch.header.size_bytes, MARKER_BYTES_MAX)
    return find_end_marker(file.read_at(size_bytes, batch.position), batch.header)
