"""Records as JSON and as the lines that Kafka's console consumer prints."""

import base64
import json
from typing import Any

from quorate.dataclass import dataclass
from quorate.records.record import Record
from quorate.tools.templates import NULL, headers_text


def text_or_base64(data: bytes | None) -> Any:
    """Return bytes as JSON has them: text if they are UTF-8, else ``{"base64": ...}``."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def record_json(record: Record) -> dict[str, Any]:
    """Return a record as an object of JSON."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": text_or_base64(record.key),
        "value": text_or_base64(record.value),
        "headers": [[name, text_or_base64(value)] for name, value in record.headers],
    }


def record_line(record: Record) -> bytes:
    """Return a record as a line of JSON."""
    return json.dumps(record_json(record), ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class LineParts:
    """What a line of output has beside the value, as Kafka's ``print.*`` properties say."""

    timestamp: bool = False
    partition: bool = False
    offset: bool = False
    headers: bool = False
    key: bool = False
    value: bool = True
    separator: bytes = b"\t"
    null: bytes = NULL

    def line(self, record: Record) -> bytes:
        """Return a record's line, newline included."""
        parts: list[bytes] = []
        if self.timestamp:
            parts.append(b"CreateTime:%d" % record.timestamp_ms)
        if self.partition:
            parts.append(b"Partition:%d" % record.partition)
        if self.offset:
            parts.append(b"Offset:%d" % record.offset)
        if self.headers:
            parts.append(headers_text(record, b":") or b"NO_HEADERS")
        if self.key:
            parts.append(self.null if record.key is None else record.key)
        if self.value:
            parts.append(self.null if record.value is None else record.value)
        return self.separator.join(parts) + b"\n"
