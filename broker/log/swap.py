"""Swap: a compacted segment takes the place of those it was made of, whenever the power goes.

1. its files are on disk, the log file as ``.log.cleaned``: a crash forgets them;
2. the log file becomes ``.log.swap``, durably: from now on a crash brings the swap to its end;
3. the old files are set aside, durably, and removed;
4. all three files get their usual names.

Nothing waits for the disk on the event loop: ``sync`` and ``remove`` run in worker threads, between
steps that rename.  Whoever shortens the log meanwhile has it ``settle`` first, there and then.
"""

import re
from collections.abc import Collection
from enum import IntEnum
from typing import Final

from quorate.broker.log.compacting import CompactedSegment
from quorate.broker.log.context import LogContext, paths_of
from quorate.broker.log.files import FileSystem
from quorate.broker.log.rewriting import CLEANED_SUFFIX
from quorate.broker.log.scan import scan_headers
from quorate.broker.log.segment import (
    ALL_SUFFIXES,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    closed_segment,
    segment_stem,
)
from quorate.broker.log.trash import DELETED_SUFFIX

INDEX_SUFFIXES: Final = (TXN_INDEX_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)
"""Of the files beside the log file, all of which a compacted segment has."""

_SEGMENT_NAME: Final = re.compile(rf"[0-9]{{20}}{re.escape(LOG_SUFFIX)}")


class Stage(IntEnum):
    """How far a swap has come."""

    BEGUN = 1
    """The log reads from the new segment."""
    ASIDE = 2
    """The names of the old segments are gone."""
    DONE = 3


class Swap:
    """One swap.  State: its stage, which only the event loop changes."""

    def __init__(self, context: LogContext, directory: str, compacted: CompactedSegment) -> None:
        """Begin: from now on the log reads from ``segment``, no longer from its sources.

        Raises:
            OSError: the disk failed; the sources stand, for all that is known.
        """
        self._context = context
        self._directory = directory
        self._sources = compacted.sources
        base_offset = compacted.sources[0].base_offset
        log_path = segment_stem(directory, base_offset) + LOG_SUFFIX
        context.fs.rename(log_path + CLEANED_SUFFIX, log_path + SWAP_SUFFIX)
        self.segment = closed_segment(
            context.files,
            directory,
            base_offset,
            SWAP_SUFFIX,
            txn_index_bytes=compacted.txn_index_bytes,
        )
        self.stage = Stage.BEGUN
        self._aside: list[str] = []
        self._taken = [path for source in self._sources for path in paths_of(source)]
        self._unnamed = [
            segment_stem(directory, base_offset) + each for each in self.segment.suffixes
        ]
        for source in self._sources:
            source.replace()
            for suffix in source.suffixes:
                context.files.forget(source.path(suffix))

    @property
    def is_done(self) -> bool:
        """Whether the new segment is like any other."""
        return self.stage is Stage.DONE

    def sync(self) -> None:
        """Make the names durable; may run in a worker thread."""
        self._context.fs.sync_directory(self._directory)

    def set_aside(self) -> None:
        """Take the names of the old segments away, after a sync; tried again, it goes on."""
        fs = self._context.fs
        while self._taken:
            path = self._taken[0]
            fs.rename(path, path + DELETED_SUFFIX)
            self._aside.append(path + DELETED_SUFFIX)
            del self._taken[0]
        self.stage = max(self.stage, Stage.ASIDE)

    def remove(self) -> None:
        """Make that durable, and give the space of the old segments back; may run in a thread."""
        self.sync()
        fs = self._context.fs
        for path in self._aside:
            try:
                fs.remove(path)
            except FileNotFoundError:
                continue  # the log was deleted, or settled, meanwhile
        fs.close_removed()

    def finish(self) -> None:
        """Give the new segment's files their usual names, after the old ones are gone for good.

        Tried again, it goes on.
        """
        if self.stage is not Stage.ASIDE:
            return
        segment, context = self.segment, self._context
        while self._unnamed:
            path = self._unnamed[0]
            context.files.forget(path + SWAP_SUFFIX)
            context.fs.rename(path + SWAP_SUFFIX, path)
            del self._unnamed[0]
        segment.call_files("")
        self.stage = Stage.DONE

    def settle(self) -> None:
        """Do what is left to do, here and now, or try to; the old files are removed later."""
        if self.stage is Stage.BEGUN:
            self.sync()
            self.set_aside()
        if self.stage is Stage.ASIDE:
            self.sync()
            self._context.trash.add(self._aside, 0)
            self.finish()


def recover_swaps(fs: FileSystem, directory: str) -> None:
    """Bring what a crash left of swaps to its end, or take it back.

    Raises:
        OSError: the disk fails.
    """
    names = set(fs.list_directory(directory))
    bases = {int(name[:20]) for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))}
    for base in sorted(bases):
        stem = f"{base:020d}"
        if stem + LOG_SUFFIX + SWAP_SUFFIX in names:
            _complete(fs, directory, base, names)
        else:
            _clear(fs, directory, stem, names)


def _complete(fs: FileSystem, directory: str, base: int, names: Collection[str]) -> None:
    """Put a segment in the place of all that lie in its range."""
    stem = segment_stem(directory, base)
    covered = _bases_between(names, base, _end_of(fs, stem + LOG_SUFFIX + SWAP_SUFFIX, base))
    for other in covered:
        for suffix in reversed(ALL_SUFFIXES):
            if f"{other:020d}{suffix}" in names:
                fs.remove(segment_stem(directory, other) + suffix)
    for suffix in INDEX_SUFFIXES:
        if f"{base:020d}{suffix}{SWAP_SUFFIX}" in names:
            fs.rename(stem + suffix + SWAP_SUFFIX, stem + suffix)
    # With the log file's name goes what says that there is something to complete.
    fs.sync_directory(directory)
    fs.rename(stem + LOG_SUFFIX + SWAP_SUFFIX, stem + LOG_SUFFIX)
    fs.sync_directory(directory)


def _bases_between(names: Collection[str], base: int, end_offset: int) -> list[int]:
    found = [int(name[:20]) for name in names if _SEGMENT_NAME.fullmatch(name)]
    return [other for other in found if base < other < end_offset]


def _end_of(fs: FileSystem, path: str, base: int) -> int:
    """Return the offset behind the last batch of a segment."""
    file = fs.open(path, create=False)
    end_offset = base
    for batch in scan_headers(file, 0, file.size_bytes()):
        end_offset = batch.header.next_offset
    return end_offset


def _clear(fs: FileSystem, directory: str, stem: str, names: Collection[str]) -> None:
    """Remove a segment that was not ready; or finish one of which only indexes lack their names."""
    not_ready = stem + LOG_SUFFIX + CLEANED_SUFFIX in names
    for suffix in INDEX_SUFFIXES:
        name = stem + suffix
        if name + SWAP_SUFFIX not in names:
            continue
        if not_ready or name in names:
            fs.remove(f"{directory}/{name}{SWAP_SUFFIX}")
        else:
            fs.rename(f"{directory}/{name}{SWAP_SUFFIX}", f"{directory}/{name}")
    if not_ready:
        fs.remove(f"{directory}/{stem}{LOG_SUFFIX}{CLEANED_SUFFIX}")
