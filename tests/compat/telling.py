"""Two brokers asked the same, and what of their answers is not the same."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from quorate.errors import ErrorCode
from quorate.protocol.apis import ApiKey
from quorate.records.batch import HEADER_BYTES, parse_header
from tests.compat.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quorate.protocol.fields import Layout

NOT_COMPARED: Final = frozenset({
    "throttle_time_ms",
    "error_message",  # each has its own words
    "record_errors",  # of times that are refused, Kafka names the records: we do not look inside
})  # fmt: skip
TOLD_BESIDE_ERRORS: Final = frozenset({
    "high_watermark", "last_stable_offset", "log_start_offset",
})  # fmt: skip
"""What one of the two tells with an error, and the other does not: nobody asks for it then."""
IDENTITIES: Final = (
    "name", "topic", "partition_index", "partition", "index", "producer_id", "group_id",
    "member_id", "transactional_id", "key", "topic_id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two answers differ, and what stands there."""

    path: str
    kafka: Any
    ours: Any


@dataclass(frozen=True, slots=True)
class Pair:
    """A connection to each of the two."""

    kafka: Wire
    ours: Wire

    def ask(self, api_key: ApiKey, version: int, body: Any) -> tuple[Any, Any]:
        """Ask both the same; return their answers as plain values."""
        kafka, ours = (wire.ask(api_key, version, body) for wire in (self.kafka, self.ours))
        return plain(kafka), plain(ours)


def plain(value: Any) -> Any:
    """Return an answer as dicts and lists, in an order that does not depend on who gave it."""
    if isinstance(value, list):
        elements = cast("Sequence[Any]", value)
        return sorted((plain(element) for element in elements), key=identity)
    layout = cast("Layout | None", getattr(value, "__layout__", None))
    if layout is None:
        return value
    told: dict[str, Any] = {}
    for field in layout.fields:
        held = getattr(value, field.name)
        if field.name == "error_code":
            told[field.name] = ErrorCode(held).name
        elif field.name == "records":
            told[field.name] = batches(b"" if held is None else bytes(held))
        elif field.name not in NOT_COMPARED:
            told[field.name] = plain(held or []) if field.is_array else plain(held)
    if told.get("error_code", "NONE") != "NONE":
        return {name: held for name, held in told.items() if name not in TOLD_BESIDE_ERRORS}
    return told


def batches(data: bytes) -> list[dict[str, Any]]:
    """Return whole batches, field by field; Kafka may send the beginning of another one."""
    found: list[dict[str, Any]] = []
    position = 0
    while position + HEADER_BYTES <= len(data):
        header = parse_header(data, position)
        end = position + header.size_bytes
        if end > len(data):
            break
        records = data[position + HEADER_BYTES : end].hex()
        found.append({**header._asdict(), "records": records})
        position = end
    return found


def differences(kafka: Any, ours: Any, path: str = "") -> list[Difference]:
    """Return where two plain answers differ."""
    kafkas, own = _parts(kafka), _parts(ours)
    if kafkas is None or own is None or kafkas.keys() != own.keys():
        return [] if kafka == ours else [Difference(path, kafka, ours)]
    return [
        difference
        for name, part in kafkas.items()
        for difference in differences(part, own[name], f"{path}.{name}")
    ]


def _parts(value: Any) -> dict[str, Any] | None:
    """Return what a value consists of, by name or place; None if it has no parts."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if isinstance(value, list):
        elements = cast("Sequence[Any]", value)
        return {str(place): part for place, part in enumerate(elements)}
    return None


def identity(element: Any) -> str:
    """Return what tells an element from the others of its list."""
    parts = _parts(element)
    names = [] if parts is None else [parts.get(name) for name in IDENTITIES]
    return str((names, element))
