"""The steps of a compaction, on two threads: what waits for the disk is done aside, the rest here.

Who drives them runs each step given in any thread, and comes back for the next one on the event
loop, where the log may have changed meanwhile.
"""

import struct
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from quorate.broker.log.compacting import Compaction
from quorate.broker.log.compaction import ClosedPart
from quorate.broker.log.files import FatalStorageError
from quorate.broker.log.log import Log
from quorate.broker.log.swap import Swap
from quorate.errors import QuorateError, StorageError

T = TypeVar("T")


class LogChangedError(QuorateError):
    """The log is not what it was when the compaction began, which begins anew another time."""


class Step(Generic[T]):
    """Something to be done in any thread; what comes of it is kept for the loop."""

    __slots__ = ("_error", "_results", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._results: list[T] = []
        self._error: OSError | QuorateError | None = None

    def run(self) -> None:
        """Do it."""
        try:
            self._results.append(self._work())
        except (OSError, QuorateError) as error:
            self._error = error
        except struct.error:
            # Behind what is compacted there may be cuts: aborted transactions are looked up there.
            self._error = LogChangedError("an index is shorter than it was")

    def result(self) -> T:
        """Return what came of it.

        Raises:
            OSError, QuorateError: why nothing came of it.
        """
        if self._error is not None:
            raise self._error
        return self._results[0]


AnyStep = Step[Any]
DoneBy: TypeAlias = Generator[AnyStep, None, T]
Steps = DoneBy[None]


def compaction_steps(log: Log, compaction: Compaction) -> Steps:
    """Yield the steps of compacting a log.

    Raises:
        LogChangedError: it was shortened, deleted, or is not to be compacted any more.
        BufferTooSmallError: not even the keys of one batch fit into the buffer.
        KafkaError: there is something in the log that is no record.
        OSError: the disk failed or is full; the log is what it was.
        StorageError: the disk failed at a time when the log cannot go on.
    """
    cleaned, cuts = log.cleaned, log.cleaned.cuts
    yield from _while_there(log, compaction.part, compaction.read_keys)
    # From the first swap on records are missing because of others that they are below.
    cleaned.reach = max(cleaned.reach, compaction.reach)
    yield from _write_down(log, cuts)
    groups = yield from _while_there(log, compaction.part, compaction.groups)
    for group in groups:
        try:
            compacted = yield from _while_there(log, group, partial(compaction.copy, group))
            swap = None if compacted is None else log.begin_swap(compacted)
        except (OSError, QuorateError):
            if not log.is_given_up:  # or another log may be in its place, with files of that name
                yield Step(partial(compaction.discard, group))
            raise
        if swap is not None:
            yield from _swap_steps(log, swap)
    if cleaned.cuts == cuts:
        cleaned.offset = compaction.cleaned_offset
    yield from _write_down(log, cuts)


def _while_there(log: Log, part: ClosedPart, work: Callable[[], T]) -> DoneBy[T]:
    """Yield a step that reads segments, and return what came of it."""
    step = Step(work)
    yield step
    if not log.has(part.segments):
        raise LogChangedError("it was shortened or deleted, or its disk failed")
    if not log.config.compacts:
        raise LogChangedError("all of its records are to be kept from now on")
    return step.result()


def _swap_steps(log: Log, swap: Swap) -> Steps:
    for aside, here in ((swap.sync, swap.set_aside), (swap.remove, swap.finish)):
        step = Step(aside)
        yield step
        if swap.is_done:
            break  # somebody could not wait
        if log.failure is not None:
            raise LogChangedError("it was deleted, or its disk failed")
        try:
            step.result()
            here()
        except OSError as error:
            raise _failed(log, error) from error
    log.cleaned.forget(swap)


def _write_down(log: Log, cuts: int) -> Steps:
    """Yield a step that writes down how far the log was compacted."""
    if log.cleaned.cuts != cuts or log.failure is not None:
        raise LogChangedError("it was cut or deleted, or its disk failed")
    step = Step(log.cleaned.write_down)
    yield step
    if log.cleaned.cuts != cuts:
        # Both may have written at the same time, and who cut the log has the last word.
        try:
            log.cleaned.write_down()
        except OSError as error:
            raise _failed(log, error) from error
        raise LogChangedError("it was cut")
    step.result()


def _failed(log: Log, error: OSError) -> StorageError:
    """Which names a crash would find is not known any more: only a start finds out."""
    failure = FatalStorageError(f"{log.directory}: {error.strerror}")
    log.fail(failure)
    return failure
