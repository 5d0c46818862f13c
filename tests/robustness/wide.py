"""Requests as large as may be: one array, filled with the smallest elements, all of them different.

Nothing has a broker remember more for a byte.
"""

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from quorate.protocol.apis import Api
from quorate.protocol.fields import FIXED, Field, layout_of
from quorate.protocol.frames import SIZE_BYTES, encode_request
from quorate.protocol.messages.data import ProduceRequest
from quorate.protocol.messages.metadata import MetadataRequest

NAME: Final = "fuzz"
SAMPLED: Final = 1000
NAMING: Final = ("string", "uuid", "int64", "int32", "uint32", "int16", "uint16", "int8")
"""Kinds of fields by which elements can differ, the best first."""


def wide_requests(api: Api, version: int, request_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Yield for each array of a request its name, and a frame of nearly so many bytes."""
    for place in range(len(_arrays(_request(api, version), version))):
        body = _request(api, version)
        array, field = _arrays(body, version)[place]
        array[:] = _elements(field, version, SAMPLED)
        sampled = encode_request(api, version, 7, NAME, body)
        array.clear()
        empty = encode_request(api, version, 7, NAME, body)
        each_bytes = (len(sampled) - len(empty)) / SAMPLED
        array[:] = _elements(field, version, int(request_bytes / each_bytes))
        frame_bytes_max = request_bytes + SIZE_BYTES
        while len(frame := encode_request(api, version, 7, NAME, body)) > frame_bytes_max:
            del array[len(array) * request_bytes // len(frame) :]
        yield field.name, frame


def ask_wide(port: int, frame: bytes, answer_s_max: float) -> int:
    """Send a request and stay until it is done; return the size of its answer.

    Whoever leaves early gives up its turn, and would not be seen to take memory. If the node closes
    the connection instead, as it does at more than 100,000 partitions to produce to, or groups to
    delete, that is 0.

    Raises:
        TimeoutError: there is no answer.
    """
    with (
        socket.create_connection(("127.0.0.1", port), timeout=answer_s_max) as sock,
        sock.makefile("rb") as answers,
        suppress(ConnectionError),
    ):
        sock.sendall(frame)
        size_bytes = int.from_bytes(answers.read(SIZE_BYTES), "big")
        return len(answers.read(size_bytes))
    return 0


def _request(api: Api, version: int) -> Any:
    """Return a request with one element in each array, which makes no topics and is answered."""
    body = _struct(api.request, version, NAME, is_element=False)
    if isinstance(body, MetadataRequest):
        body.allow_auto_topic_creation = False
    if isinstance(body, ProduceRequest):
        body.acks = -1
    return body


def _arrays(body: Any, version: int) -> list[tuple[list[Any], Field]]:
    """Return the arrays of a struct, and those in their first elements."""
    found: list[tuple[list[Any], Field]] = []
    cls: type[Any] = body.__class__
    for field in layout_of(cls).untagged(version):
        if field.is_array:
            array: list[Any] = getattr(body, field.name)
            found.append((array, field))
            if field.struct is not None:
                found += _arrays(array[0], version)
    return found


def _elements(field: Field, version: int, count: int) -> list[Any]:
    if field.struct is None:
        return [_scalar(field.kind, f"{number:x}", number) for number in range(count)]
    struct = field.struct
    return [_struct(struct, version, f"{n:x}", n, is_element=True) for n in range(count)]


def _struct(cls: type[Any], version: int, name: str, number: int = 0, *, is_element: bool) -> Any:
    """Return a struct; of elements, one field differs, the others and the arrays are empty."""
    fields = layout_of(cls).untagged(version)
    named = min(
        (f.name for f in fields if f.kind in NAMING and not f.is_array),
        key=lambda name: NAMING.index(next(f.kind for f in fields if f.name == name)),
        default="",
    )
    values: dict[str, Any] = {}
    for field in fields:
        told = field.name == named or not is_element
        if field.is_array:
            values[field.name] = [] if is_element else [_one(field, version, name)]
        elif field.struct is not None:
            values[field.name] = _struct(field.struct, version, name, is_element=is_element)
        else:
            text, value = (name, number) if told else ("", 0)
            values[field.name] = _scalar(field.kind, text, value)
    return cls(**values)


def _one(field: Field, version: int, name: str) -> Any:
    if field.struct is None:
        return _scalar(field.kind, name, 0)
    return _struct(field.struct, version, name, is_element=False)


def _scalar(kind: str, text: str, number: int) -> Any:
    match kind:
        case "string":
            return text
        case "bytes":
            return b""
        case "records":
            return memoryview(b"")
        case "uuid":
            return number.to_bytes(16, "big")
        case "bool" | "float64":
            return 0
        case _:
            return number % (1 << (8 * FIXED[kind].size_bytes - 1))
