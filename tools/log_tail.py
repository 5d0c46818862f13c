"""``quorate log tail-segments``: what is appended to a partition's files, without a broker."""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

from quorate.broker.log.files import File, OsFileSystem
from quorate.broker.log.scan import PlacedBatch, is_cut_short, scan_headers
from quorate.dataclass import dataclass
from quorate.errors import KafkaError
from quorate.tools.arguments import GlobalOptions
from quorate.tools.dumping import batch_lines
from quorate.tools.log_files import LOG
from quorate.tools.problems import CommandError, ProblemFoundError
from quorate.tools.session import note


@dataclass(frozen=True, slots=True)
class Appended:
    """A batch, and the segment that it is in."""

    path: Path
    file: File
    batch: PlacedBatch


class SegmentTail:
    """Where a reader of a partition's files is.

    State: the segment that is read, which file it was, the place in it, and the next offset.
    Segments come and go meanwhile, are cut back, or are replaced by compacted ones; a batch that is
    being written is there once it is whole. No batch is told twice.
    """

    def __init__(self, folder: Path, *, from_beginning: bool) -> None:
        self.notes: list[str] = []
        """What happened to the files, for people; whoever reads it empties it."""

        self._folder = folder
        self._base = self._position = self._inode = -1
        self._next_offset = 0
        self._doubtful = -1
        bases = self._bases()
        if bases and not from_beginning:
            self._open(bases[-1])
            for _ in self._rest():
                pass

    def look(self) -> Iterator[Appended]:
        """Yield the batches that came since the last look.

        Raises:
            ProblemFoundError: what comes next is no batch, and stays so.
        """
        while True:
            bases = self._bases()
            if self._base not in bases and not self._find(bases):
                return
            yield from self._rest()
            later = [base for base in bases if base > self._base]
            if not later:
                return
            # It is closed; what came into it while the names were read is there now.
            yield from self._rest()
            self._open(min(later))

    def _bases(self) -> list[int]:
        return sorted(int(p.stem) for p in self._folder.glob(f"*{LOG}") if p.stem.isdecimal())

    def _path(self) -> Path:
        return self._folder / f"{self._base:020d}{LOG}"

    def _open(self, base: int) -> None:
        self._base, self._position, self._inode = base, 0, -1

    def _find(self, bases: list[int]) -> bool:
        """Go where the next offset is, or would be; return False if there is nothing."""
        if not bases:
            return False
        earlier = [base for base in bases if base <= self._next_offset]
        if self._base >= 0:
            self.notes.append(f"segment {self._base} is gone")
        self._open(max(earlier, default=bases[0]))
        return True

    def _rest(self) -> Iterator[Appended]:
        """Yield what the current segment has from the current place on."""
        path = self._path()
        try:
            file = OsFileSystem().open(str(path), create=False)
            inode = path.stat().st_ino
        except FileNotFoundError:
            return  # just now: the next look finds out
        except OSError as error:
            raise CommandError(
                f"cannot read {path}", why=error.strerror or str(error), hint="who may read it?"
            ) from None
        end = file.size_bytes()
        if end < self._position:
            self._cut_back(file, end)
        if inode != self._inode and self._inode >= 0:
            self.notes.append(f"{path.name} was replaced")
            self._position = 0
        self._inode = inode
        for batch in self._batches(path, file, end):
            self._position = batch.position + batch.header.size_bytes
            if batch.header.base_offset >= self._next_offset:
                self._next_offset = batch.header.next_offset
                yield Appended(path, file, batch)

    def _cut_back(self, file: File, end: int) -> None:
        """Go on where the file ends now: a follower cuts off what its leader does not have."""
        self._position, self._next_offset = 0, self._base
        for batch in scan_headers(file, 0, end):
            self._position = batch.position + batch.header.size_bytes
            self._next_offset = batch.header.next_offset
        self.notes.append(f"{self._path().name} was cut back to offset {self._next_offset}")

    def _batches(self, path: Path, file: File, end: int) -> Iterator[PlacedBatch]:
        """Yield batches up to one that is not whole yet."""
        try:
            while self._position < end and not is_cut_short(file, self._position, end):
                yield next(scan_headers(file, self._position, end))
        except KafkaError as error:
            # Read while it was written, perhaps; what is the same at the next look is no batch.
            if self._doubtful == self._position:
                raise ProblemFoundError(
                    f"{path}: {error.message}",
                    why=f"no batch begins at byte {self._position}",
                    hint="quorate log verify says more",
                ) from None
            self._doubtful = self._position


def check_folder(folder: Path) -> None:
    """Refuse what is no folder of a partition.

    Raises:
        CommandError: what it is instead.
    """
    hint = "DATA_DIRECTORY/TOPIC-PARTITION, as .quorate/orders-0"
    if not folder.is_dir():
        why = "it is a file" if folder.exists() else "no such directory"
        raise CommandError(f"{folder} is no directory of a partition", why=why, hint=hint)
    inner = sorted(path.parent.name for path in folder.glob(f"*/*{LOG}"))
    if inner and not any(folder.glob(f"*{LOG}")):
        raise CommandError(
            f"{folder} is no directory of a partition",
            why=f"it has directories of several: {', '.join(dict.fromkeys(inner[:3]))}, ...",
            hint=f"quorate log tail-segments {folder / inner[0]}",
        )


@dataclass(frozen=True, slots=True)
class TailPlan:
    """How to follow: for ``count`` lines; None: until Ctrl-C."""

    with_records: bool
    count: int | None
    interval_s: float


def follow(options: GlobalOptions, tail: SegmentTail, plan: TailPlan, out: TextIO) -> None:
    """Print what is appended, a line each.

    Raises:
        ProblemFoundError: what comes next is no batch.
    """
    left = plan.count
    try:
        while True:
            for line in islice(_lines(options, tail, plan), left):
                out.write(line + "\n")
                left = None if left is None else left - 1
            out.flush()
            for text in tail.notes:
                note(options, text)
            tail.notes.clear()
            if left == 0:
                return
            time.sleep(plan.interval_s)
    except KeyboardInterrupt:
        return


def _lines(options: GlobalOptions, tail: SegmentTail, plan: TailPlan) -> Iterator[str]:
    as_json = options.format not in {"table", "wide"}
    for one in tail.look():
        lines = batch_lines(
            one.path, one.file, one.batch, with_records=plan.with_records, as_json=as_json
        )
        yield from lines
