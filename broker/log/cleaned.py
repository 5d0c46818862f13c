"""CleanedPart: how far a log was compacted, and the swap that is under way in it.

It is written down beside the segments (Kafka: ``cleaner-offset-checkpoint``).  If that is lost, the
log is compacted from its beginning again.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quorate.broker.log.documents import CorruptDocumentError, encode_document, read_document
from quorate.broker.log.files import FileSystem, replace_file

if TYPE_CHECKING:
    from quorate.broker.log.swap import Swap

FILE_NAME: Final = "cleaner-offset"
KIND: Final = "cleaner-offset"
VERSION: Final = 1


class Cleaned(NamedTuple):
    """How far a log was compacted: see CleanedPart."""

    offset: int
    reach: int


NOT_CLEANED: Final = Cleaned(0, 0)


class CleanedPart:
    """What compaction left behind in one log.

    Invariants: below ``offset`` each key stands once, apart from records that compaction did not
    have memory for; below ``reach`` records may be missing because of others below it.  What is
    written down is never ahead of the one, nor behind the other.
    """

    __slots__ = ("_fs", "_path", "cuts", "offset", "reach", "swap")

    def __init__(self, fs: FileSystem, directory: str, known: Cleaned) -> None:
        self._fs = fs
        self._path = f"{directory}/{FILE_NAME}"
        self.offset, self.reach = known
        self.cuts = 0
        """How often the log was cut: compactions that began before have nothing to say any more."""
        self.swap: Swap | None = None

    def forget(self, swap: "Swap") -> None:
        """Take note that a swap came to its end."""
        if self.swap is swap:
            self.swap = None

    def settle(self) -> None:
        """Bring the swap under way to its end, here and now; until that is done, it is under way.

        Raises:
            OSError: the disk failed.
        """
        if self.swap is not None:
            self.swap.settle()
            self.swap = None

    def cut(self, offset: int) -> bool:
        """Take note, durably, that the log is about to be cut; return whether any of it may stay.

        What is cut off may be the reason why older records of the same keys are not there any more
        (only an unclean election asks for that): then nothing may stay, and the log has to be
        fetched again from its beginning.

        Raises:
            OSError: the disk failed.
        """
        self.settle()
        self.cuts += 1
        if offset >= self.reach:
            return True
        self.offset = 0
        self.write_down()  # the reach stands until the log is empty: a crash may come before
        return False

    def lacks_records(self, end_offset: int) -> bool:
        """Whether a crash amid a cut, or damage, took what others had been replaced by."""
        return end_offset < self.reach

    def restarted(self) -> None:
        """Take note, durably, that the log is empty.

        Raises:
            OSError: the disk failed.
        """
        if self.reach:
            self._write(NOT_CLEANED)
            self.offset, self.reach = NOT_CLEANED

    def write_down(self) -> None:
        """Write down how far the log was compacted; may run in a worker thread.

        Raises:
            OSError: it could not be written; what stood there stands.
        """
        self._write(Cleaned(self.offset, self.reach))

    def _write(self, cleaned: Cleaned) -> None:
        document = encode_document(KIND, VERSION, cleaned._asdict())
        replace_file(self._fs, self._path, document)


def load_cleaned(fs: FileSystem, directory: str) -> Cleaned:
    """Return what was written down.

    Raises:
        OSError: the disk fails.
    """
    try:
        body: Any = read_document(fs, f"{directory}/{FILE_NAME}", KIND, VERSION)
        return Cleaned(int(body["offset"]), int(body["reach"]))
    except (CorruptDocumentError, KeyError, TypeError, ValueError):
        return NOT_CLEANED
