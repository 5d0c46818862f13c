"""The replicated state machine: compare-and-set on the version of the metadata image.

A command is ``(expected version, records)``.  It takes effect only if the image still has the
version that its records were decided on; so a decision never acts on facts it did not see, and the
retry of a command that did take effect is dropped.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

from quorate.control.codec import DecodeError, as_array, dump_cbor, load_cbor
from quorate.control.messages import UNKNOWN_CHECKSUM, FetchMetadataAnswer, MetadataBatch
from quorate.dataclass import dataclass
from quorate.errors import InconsistentClusterIdError
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.codec import decode_facts, encode_batch
from quorate.quorum.metadata.image import EMPTY_IMAGE, InconsistentRecordError, MetadataImage
from quorate.quorum.metadata.records import MetadataRecord
from quorate.quorum.metadata.snapshot import decode_image, encode_image

RECENT_BATCHES_MAX: Final = 4096
RECENT_BYTES_MAX: Final = 4 * 2**20
ANSWER_BYTES_TARGET: Final = 1 * 2**20


@dataclass(frozen=True, slots=True)
class Committed:
    """The records are in the image since ``version``."""

    version: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Nothing happened: the image had moved on to ``version``."""

    version: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing happened: the records contradict the image. A bug in whoever decided on them."""

    reason: str


Result = Committed | Conflict | Refused


def encode_command(expected_version: int, records: Sequence[MetadataRecord]) -> bytes:
    """Return the command that commits these records if the image still has that version."""
    return dump_cbor([expected_version, encode_batch(records)])


def decode_command(command: bytes) -> tuple[int, bytes]:
    """Return the expected version and the encoded batch of a command.

    Raises:
        DecodeError: it is none.
    """
    match as_array(load_cbor(command)):
        case [int() as expected_version, bytes() as records]:
            return expected_version, records
        case _:
            raise DecodeError("not a metadata command")


class MetadataMachine:
    """Owns the image and the newest batches of records.

    The batches are those between ``_base_version`` and the image's version, without a hole.
    """

    def __init__(self) -> None:
        self._image = EMPTY_IMAGE
        self._recent: deque[MetadataBatch] = deque()
        self._recent_bytes = 0
        self._base_version = 0
        self._kept = FetchMetadataAnswer(-1)
        self._expected: tuple[bytes, MetadataImage] | None = None

    @property
    def image(self) -> MetadataImage:
        """The facts as of the last applied command."""
        return self._image

    def expect(self, command: bytes, after: MetadataImage) -> None:
        """Take it from who proposes a command what it makes of the image that it names.

        That is then not worked out again, if it is the next to take effect.
        """
        self._expected = command, after

    def apply(self, index: int, term: int, command: bytes) -> Result:
        """Carry out a committed command; ``index`` becomes the version if it takes effect.

        Raises:
            DecodeError: a record of a type that this version does not know. Going on would mean to
                disagree with the other controllers.
        """
        expected_version, encoded = decode_command(command)
        if expected_version != self._image.version:
            return Conflict(self._image.version)
        expected, self._expected = self._expected, None
        if expected is not None and expected[0] == command:
            self._image = expected[1]._replace(version=index)
        else:
            try:
                self._image = apply_records(self._image, index, decode_facts(encoded))
            except InconsistentRecordError as error:
                return Refused(str(error))
        self._remember(MetadataBatch(index, encoded, term))
        return Committed(index)

    def _remember(self, batch: MetadataBatch) -> None:
        self._recent.append(batch)
        self._recent_bytes += len(batch.records)
        while len(self._recent) > RECENT_BATCHES_MAX or self._recent_bytes > RECENT_BYTES_MAX:
            oldest = self._recent.popleft()
            self._recent_bytes -= len(oldest.records)
            self._base_version = oldest.version

    def freeze(self) -> Callable[[], bytes]:
        """Return what makes bytes of the state as it is now, later, in any thread."""
        image = self._image
        return lambda: encode_image(image)

    def prepare(self, data: bytes) -> Callable[[], None]:
        """Read a state that :meth:`freeze` made bytes of, in any thread; return what takes it over.

        Raises:
            DecodeError: it is not one.
            UnsupportedLevelError: it is that of a cluster that this version cannot take part in.
        """
        image = decode_image(data)
        return lambda: self._take_over(image)

    def dump(self) -> bytes:
        """Return the state as bytes, now."""
        return self.freeze()()

    def load(self, data: bytes) -> None:
        """Take over a state, now, like :meth:`prepare`."""
        self.prepare(data)()

    def _take_over(self, image: MetadataImage) -> None:
        self._image = image
        self._recent.clear()
        self._recent_bytes = 0
        self._base_version = image.version

    def check_past(self, version: int, checksum: int) -> None:
        """Refuse a follower that was told what never happened here, as far as that is still known.

        ``checksum`` is that of the batch that it was told last, at ``version``.

        Raises:
            InconsistentClusterIdError: one of the two is of another past.
        """
        if not self._base_version < version <= self._image.version:
            return
        batch = self._after(version - 1)[0]
        if batch.version != version or checksum not in (UNKNOWN_CHECKSUM, batch.checksum):
            raise InconsistentClusterIdError(
                f"what was told as version {version} of the metadata is not what the controllers"
                " have there: theirs are an older copy, or new"
            )

    def needs_snapshot(self, version: int) -> bool:
        """Whether :meth:`since` would have to make a snapshot, which takes its time if it is large.

        Then have :meth:`freeze` make one in another thread, and give it to :meth:`keep`.
        """
        return version < self._base_version and self._kept.version < self._base_version

    def keep(self, snapshot: FetchMetadataAnswer) -> None:
        """Have a snapshot ready for followers that are far behind."""
        self._kept = snapshot

    def since(self, version: int) -> FetchMetadataAnswer:
        """Return what a follower at ``version`` lacks; the same version if it lacks nothing.

        A follower that is far behind gets a snapshot that may be older than the image: the batches
        that it lacks then are still there.
        """
        if self.needs_snapshot(version):
            self.keep(FetchMetadataAnswer(self._image.version, (), self.dump()))
        if version < self._base_version:
            return self._kept
        if version >= self._image.version:
            return FetchMetadataAnswer(version)
        batches: list[MetadataBatch] = []
        size_bytes = 0
        for batch in self._after(version):
            batches.append(batch)
            size_bytes += len(batch.records)
            if size_bytes >= ANSWER_BYTES_TARGET:
                break
        return FetchMetadataAnswer(batches[-1].version, tuple(batches))

    def _after(self, version: int) -> list[MetadataBatch]:
        """Return the recent batches after a version: mostly very few of very many."""
        newest_first = takewhile(lambda batch: batch.version > version, reversed(self._recent))
        return list(newest_first)[::-1]
