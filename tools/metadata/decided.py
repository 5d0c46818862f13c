"""What controllers decided, as values and as text: batches of records, filters, lines."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast, get_args

from quorate.control.codec import DecodeError
from quorate.control.frames import decode_frame
from quorate.dataclass import dataclass
from quorate.model import Endpoint
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import TOPIC, MetadataImage
from quorate.quorum.metadata.snapshot import image_records
from quorate.tools.output import id_text
from quorate.tools.positions import time_text
from quorate.tools.problems import UsageError

UUID_BYTES: Final = 16
HIDDEN: Final = "(hidden)"
HIDDEN_FIELDS: Final = frozenset({"salt", "stored_key", "server_key", "salted_password"})
"""What a password can be guessed from, or stands for one: who may look need not see it."""


@dataclass(frozen=True, slots=True)
class VotersChanged:
    """From this log entry on these replicas vote; it stands between the records of metadata.

    ``voters`` are endpoints by id and directory id. When it was is not written down.
    """

    cause: str
    voters: Mapping[str, Endpoint]


AnyRecord = r.MetadataRecord | VotersChanged
RECORD_TYPES: Final = tuple(cls.__name__ for cls in get_args(AnyRecord))


@dataclass(frozen=True, slots=True)
class Batch:
    """The records that one log entry made facts: all of them at once.

    ``term`` is ``None`` where nobody knows it. With ``image``, the records are everything that was
    true at ``offset``, out of a snapshot; how it came to be so is not known any more. With
    ``voters`` the metadata stays what it was.
    """

    offset: int
    term: int | None
    changes: tuple[r.MetadataRecord, ...] = ()
    image: MetadataImage | None = None
    voters: VotersChanged | None = None

    def records(self) -> Iterable[AnyRecord]:
        """Return the records, in their order."""
        if self.voters is not None:
            return (self.voters,)
        if self.image is None:
            return self.changes
        return image_records(self.image)

    def applied_to(self, image: MetadataImage) -> MetadataImage:
        """Return the image after this batch."""
        if self.voters is not None:
            return image
        if self.image is not None:
            return self.image
        return apply_records(image, self.offset, self.changes)


@dataclass(frozen=True, slots=True)
class Decided:
    """A record, the log entry that made it a fact, and the topic that it speaks of, if any."""

    offset: int
    term: int | None
    in_snapshot: bool
    topic: str | None
    record: AnyRecord

    @property
    def type(self) -> str:
        """What kind of record it is."""
        return type(self.record).__name__

    def body(self) -> dict[str, Any]:
        """Return the record's own fields, as JSON has them, if it says anything of them."""
        fields = {
            field.name: plain(getattr(self.record, field.name), field.name)
            for field in dataclasses.fields(self.record)
            if field.name not in ("cause", "time_ms")
            and (field.default is not None or getattr(self.record, field.name) is not None)
        }
        if isinstance(self.record, r.RequestAnswered):
            fields["answer"] = _answer(self.record.answer)
        return fields

    @property
    def time_ms(self) -> int | None:
        """When it was decided, if that is known."""
        if self.in_snapshot or isinstance(self.record, VotersChanged):
            return None
        return self.record.time_ms

    def fields(self) -> dict[str, Any]:
        """Return the record as an object of JSON."""
        time_ms = self.time_ms
        return {
            "offset": self.offset,
            "term": self.term,
            "time": None if time_ms is None else time_text(time_ms),
            "time_ms": time_ms,
            "type": self.type,
            "cause": self.record.cause,
            **({} if self.topic is None else {"topic": self.topic}),
            **self.body(),
        }

    def line(self) -> str:
        """Return the record as a line for people; what is its own stands as JSON."""
        when = "-" if self.time_ms is None else time_text(self.time_ms)
        term = "-" if self.term is None else str(self.term)
        own = self.body()
        if "topic_id" in own and self.topic not in (None, *own.values()):
            del own["topic_id"]  # the name says it, and the id is long
            own = {"topic": self.topic, **own}
        body = json.dumps(own, ensure_ascii=False)
        return f"{self.offset:>7} {term:>4}  {when:<24}  {self.type} {body}  # {self.record.cause}"


def _answer(frame: bytes) -> Any:
    """Return the answer that a frame holds, as JSON has it."""
    try:
        message = decode_frame(frame).message
    except DecodeError:
        return frame.hex()
    return {"type": type(message).__name__, **plain(message)}


HEADING: Final = f"{'OFFSET':>7} {'TERM':>4}  {'TIME':<24}  RECORD  # CAUSE"


def plain(value: object, name: str = "") -> Any:
    """Return a value as JSON has it."""
    if name in HIDDEN_FIELDS:
        return HIDDEN
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return bytes_text(value)
        case Endpoint():
            return str(value)
        case _:
            return _plain_parts(value)


def _plain_parts(value: object) -> Any:
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: plain(getattr(value, name), name) for name in names}
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return {str(plain(key)): plain(item) for key, item in mapping.items()}
    if isinstance(value, tuple | list | frozenset):
        return [plain(item) for item in cast("Iterable[object]", value)]
    return str(value)


def bytes_text(value: bytes) -> str:
    """Return ids as Kafka writes them, text as it is, other bytes in hexadecimal."""
    if len(value) == UUID_BYTES:
        return id_text(value)
    return value.decode() if value.isascii() and value.decode().isprintable() else value.hex()


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records are wanted: those of all conditions; no types means all."""

    types: frozenset[str] = frozenset()
    since_offset: int = 0
    topic: str | None = None

    def wants(self, decided: Decided) -> bool:
        """Whether a record is wanted."""
        return (
            decided.offset >= self.since_offset
            and (not self.types or decided.type in self.types)
            and (self.topic is None or decided.topic == self.topic)
        )


def parse_types(texts: Iterable[str]) -> frozenset[str]:
    """Return the record types that texts name, ``a,b`` or one each, in any case.

    Raises:
        UsageError: there is no such type.
    """
    known = {name.lower(): name for name in RECORD_TYPES}
    words = [word.strip() for text in texts for word in text.split(",")]
    for word in words:
        if word.lower() not in known:
            raise UsageError(
                f"{word!r} is no type of metadata record",
                why="there are " + ", ".join(RECORD_TYPES),
                hint="--type TopicCreated,TopicRemoved",
            )
    return frozenset(known[word.lower()] for word in words)


class Reader:
    """Tells records apart as batches go by; knows which topic an id stands for at each point."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}

    def read(self, batch: Batch) -> Iterator[Decided]:
        """Yield the records of the next batch."""
        in_snapshot = batch.image is not None
        for record in batch.records():
            yield Decided(batch.offset, batch.term, in_snapshot, self._topic_of(record), record)

    def _topic_of(self, record: AnyRecord) -> str | None:
        match record:
            case r.TopicCreated():
                self._names[record.topic_id] = record.name
                return record.name
            case r.TopicRemoved():
                return self._names.pop(record.topic_id, None)
            case r.PartitionCreated() | r.PartitionChanged():
                return self._names.get(record.topic_id)
            case r.ConfigSet() | r.ConfigDeleted() if record.resource_type == TOPIC:
                return record.resource_name
            case _:
                return None
