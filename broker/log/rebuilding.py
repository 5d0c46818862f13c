"""Producers and aborted transactions made anew from the log: a snapshot, and what came since."""

from collections.abc import Iterable

from quorate.broker.log.aborted import pack_aborted, trusted_part
from quorate.broker.log.epochs import LeaderEpochs
from quorate.broker.log.files import File, OpenFiles
from quorate.broker.log.lookup import batches_from
from quorate.broker.log.producers import ProducerStates
from quorate.broker.log.scan import PlacedBatch
from quorate.broker.log.segments import Segments
from quorate.broker.log.snapshots import Snapshots
from quorate.broker.log.transactions import AbortedTransaction
from quorate.records.control import MARKER_BYTES_MAX, EndMarker, find_end_marker


def rebuild_producers(
    files: OpenFiles,
    snapshots: Snapshots,
    segments: Segments,
    epochs: LeaderEpochs,
    end_offset: int,
) -> ProducerStates:
    """Return the producers as of the offset; segments say again which transactions were aborted.

    What they say of markers below the snapshot can be relied on: it is on disk before the snapshot.

    Raises:
        OSError: the disk fails.
    """
    states = snapshots.load(end_offset, epochs)
    if states is None:
        states = ProducerStates(segments.first_offset)
    start_offset = max(states.end_offset, segments.first_offset)
    mark = states.index_mark
    for number in range(segments.number_of(min(start_offset, end_offset)), len(segments) - 1):
        closed = segments.closed[number]
        data = closed.read_aborted(files)
        kept = trusted_part(data, closed.base_offset, mark, start_offset)
        position = closed.position_of(start_offset)
        aborted = note_batches(states, closed.file, batches_from(closed, position))
        closed.rewrite_aborted(files, kept + pack_aborted(aborted))
    active = segments.active
    if active.aborted is not None:
        active.aborted.keep_trusted(active.base_offset, mark, start_offset)
    if start_offset < end_offset:
        position = active.position_of(start_offset)
        for each in note_batches(states, active.file, batches_from(active, position)):
            active.note_aborted(each)
    states.end_offset = end_offset
    segments.note_aborted()
    return states


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
