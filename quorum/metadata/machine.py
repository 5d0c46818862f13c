"""The replicated state machine: compare-and-set on the version of the metadata image.

A command is ``(expected version, records)``.  It takes effect only if the image still has the
version that its records were decided on; so a decision never acts on facts it did not see, and the
retry of a command that did take effect is dropped.
"""

import functools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.control.codec import DecodeError, as_array, dump_cbor, load_cbor
from quorate.control.messages import FetchMetadataAnswer, MetadataBatch
from quorate.quorum.metadata.codec import (
    decode_image,
    decode_record,
    encode_image,
    encode_record,
)
from quorate.quorum.metadata.image import (
    EMPTY_IMAGE,
    InconsistentRecordError,
    MetadataImage,
    apply_records,
)
from quorate.quorum.metadata.records import MetadataRecord

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
    return dump_cbor([expected_version, [encode_record(record) for record in records]])


def decode_command(command: bytes) -> tuple[int, tuple[bytes, ...]]:
    """Return the expected version and the encoded records of a command.

    Raises:
        DecodeError: it is none.
    """
    match as_array(load_cbor(command)):
        case [int() as expected_version, records]:
            return expected_version, tuple(as_array(records))
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
        self._snapshot: tuple[int, bytes] | None = None

    @property
    def image(self) -> MetadataImage:
        """The facts as of the last applied command."""
        return self._image

    def apply(self, index: int, command: bytes) -> Result:
        """Carry out a committed command; ``index`` becomes the version if it takes effect.

        Raises:
            DecodeError: a record of a type that this version does not know. Going on would mean to
                disagree with the other controllers.
        """
        expected_version, encoded = decode_command(command)
        if expected_version != self._image.version:
            return Conflict(self._image.version)
        try:
            self._image = apply_records(self._image, index, [decode_record(e) for e in encoded])
        except InconsistentRecordError as error:
            return Refused(str(error))
        self._remember(MetadataBatch(index, encoded))
        return Committed(index)

    def _remember(self, batch: MetadataBatch) -> None:
        self._recent.append(batch)
        self._recent_bytes += _size_bytes(batch)
        while len(self._recent) > RECENT_BATCHES_MAX or self._recent_bytes > RECENT_BYTES_MAX:
            oldest = self._recent.popleft()
            self._recent_bytes -= _size_bytes(oldest)
            self._base_version = oldest.version

    def dump(self) -> bytes:
        """Return the state as bytes."""
        if self._snapshot is None or self._snapshot[0] != self._image.version:
            self._snapshot = (self._image.version, encode_image(self._image))
        return self._snapshot[1]

    def freeze(self) -> Callable[[], bytes]:
        """Return a function that returns the state as of now as bytes, in whatever thread."""
        return functools.partial(encode_image, self._image)

    def prepare(self, data: bytes) -> Callable[[], None]:
        """Decode a state, in whatever thread; return a function that takes it over.

        Raises:
            DecodeError: it is not one.
        """
        return functools.partial(self._take_over, decode_image(data))

    def _take_over(self, image: MetadataImage) -> None:
        self._image = image
        self._base_version = image.version
        self._recent.clear()
        self._recent_bytes = 0

    def load(self, data: bytes) -> None:
        """Take over a state that :meth:`dump` returned.

        Raises:
            DecodeError: it is not one.
        """
        self.prepare(data)()
        self._snapshot = (self._image.version, data)

    def since(self, version: int) -> FetchMetadataAnswer:
        """Return what a follower at ``version`` lacks; the same version if it lacks nothing."""
        if version >= self._image.version:
            return FetchMetadataAnswer(version)
        if version < self._base_version:
            return FetchMetadataAnswer(self._image.version, (), self.dump())
        batches: list[MetadataBatch] = []
        size_bytes = 0
        for batch in self._recent:
            if batch.version > version and size_bytes < ANSWER_BYTES_TARGET:
                batches.append(batch)
                size_bytes += _size_bytes(batch)
        return FetchMetadataAnswer(batches[-1].version, tuple(batches))


def _size_bytes(batch: MetadataBatch) -> int:
    return sum(map(len, batch.records))
