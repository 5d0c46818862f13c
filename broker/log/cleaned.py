"""CleanedPart: how far a log was compacted, and the swap that is under way in it.

The offset is written down beside the segments (Kafka: ``cleaner-offset-checkpoint``).  If that is
lost, the log is compacted from its beginning again, and nothing else happens.
"""

from typing import TYPE_CHECKING, Any, Final

from quorate.broker.log.documents import CorruptDocumentError, encode_document, read_document
from quorate.broker.log.files import FileSystem, replace_file

if TYPE_CHECKING:
    from quorate.broker.log.swap import Swap

FILE_NAME: Final = "cleaner-offset"
KIND: Final = "cleaner-offset"
VERSION: Final = 1


class CleanedPart:
    """What compaction left behind in one log.

    Invariant: below ``offset`` each key stands once, apart from records that compaction did not
    have memory for; what is written down is never ahead of it.
    """

    __slots__ = ("_fs", "_path", "offset", "swap")

    def __init__(self, fs: FileSystem, directory: str, offset: int) -> None:
        self._fs = fs
        self._path = f"{directory}/{FILE_NAME}"
        self.offset = offset
        self.swap: Swap | None = None

    def settle(self) -> None:
        """Bring the swap under way to its end, here and now.

        Raises:
            OSError: the disk failed.
        """
        swap, self.swap = self.swap, None
        if swap is not None:
            swap.settle()

    def cut(self, offset: int) -> None:
        """Take note, durably, that the log is about to be cut at the offset.

        Raises:
            OSError: the disk failed.
        """
        self.settle()
        if offset < self.offset:
            self.offset = offset
            self.write_down(offset)

    def write_down(self, offset: int) -> None:
        """Write down how far the log was compacted; may run in a worker thread.

        Raises:
            OSError: it could not be written; what stood there stands.
        """
        document = encode_document(KIND, VERSION, {"offset": offset})
        replace_file(self._fs, self._path, document)


def load_cleaned_offset(fs: FileSystem, directory: str) -> int:
    """Return the offset that was written down; 0 if none was, or it cannot be read."""
    try:
        body: Any = read_document(fs, f"{directory}/{FILE_NAME}", KIND, VERSION)
        return int(body["offset"])
    except (CorruptDocumentError, FileNotFoundError, KeyError, TypeError, ValueError):
        return 0
