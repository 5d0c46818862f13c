"""All decisions that are left, to walk through: the metadata after each of them."""

from collections.abc import Iterable, Sequence
from typing import Final

from quorate.dataclass import dataclass
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.tools.metadata.decided import Batch, Decided, Reader
from quorate.tools.metadata.travel import Point

STRIDE: Final = 64
"""After so many batches an image is kept; what lies between two of them is made when needed."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Batches, oldest first, by number from 0; ``kept[i]`` is the image before ``i * STRIDE``.

    ``decided[i]`` are the records of batch ``i``.
    """

    batches: tuple[Batch, ...]
    decided: tuple[tuple[Decided, ...], ...]
    kept: tuple[MetadataImage, ...]

    @property
    def last(self) -> int:
        """The number of the newest batch; -1 if there is none."""
        return len(self.batches) - 1

    def image(self, number: int) -> MetadataImage:
        """Return the metadata after a batch."""
        begin = number // STRIDE
        image = self.kept[begin]
        for batch in self.batches[begin * STRIDE : number + 1]:
            image = batch.applied_to(image)
        return image

    def time_ms(self, number: int) -> int | None:
        """Return when it was: the time of a batch, or of the newest before it that tells one."""
        for records in reversed(self.decided[: number + 1]):
            times = [each.time_ms for each in records if each.time_ms is not None]
            if times:
                return max(times)
        return None

    def number_at(self, point: Point) -> int:
        """Return the newest batch that was there at a moment; the oldest, if none was."""
        there = (n for n in range(self.last, 0, -1) if point.has(self.batches[n]))
        return next(there, 0)

    def until(self, number: int) -> list[Decided]:
        """Return all records up to a batch."""
        return [each for records in self.decided[: number + 1] for each in records]


def timeline_of(batches: Iterable[Batch]) -> Timeline:
    """Return the timeline of batches."""
    made: Sequence[Batch] = tuple(batches)
    reader = Reader()
    decided: list[tuple[Decided, ...]] = []
    kept: list[MetadataImage] = [EMPTY_IMAGE] if not made else []
    image = EMPTY_IMAGE
    for number, batch in enumerate(made):
        if number % STRIDE == 0:
            kept.append(image)
        image = batch.applied_to(image)
        decided.append(tuple(reader.read(batch)))
    return Timeline(tuple(made), tuple(decided), tuple(kept))
