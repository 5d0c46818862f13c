"""Splits a byte stream into frames, and puts headers and bodies together.

A frame is a four-byte size, a header, a body. The client id in a request header keeps its old two-
byte length in all versions, so that a broker can read the header of a request that it does not
know.
"""

from collections.abc import Callable
from struct import Struct, error
from typing import Any, Final, NamedTuple, TypeAlias, cast

from quorate.protocol.apis import APIS, Api
from quorate.protocol.message import encoder
from quorate.protocol.primitives import DecodeError, Part, skip_tags

SIZE_BYTES: Final = 4
REQUEST_START_BYTES: Final = 10

CORRELATION_ID_MASK: Final = 0x7FFFFFFF
"""Correlation ids are positive, and begin anew after that."""

RESPONSE_BYTES_MAX: Final = 512 << 20
"""No client of ours takes a larger response: whoever sends one speaks something else."""

RequestPart: TypeAlias = bytes | bytearray | memoryview
"""What a request is sent as: buffers."""

FOREIGN_BEGINNINGS: Final = {
    b"\x16\x03": "TLS",  # a handshake
    b"\x15\x03": "TLS",  # an alert
    b"GET ": "HTTP",
    b"HEAD": "HTTP",
    b"POST": "HTTP",
    b"PUT ": "HTTP",
    b"HTTP": "HTTP",
    b"SSH-": "SSH",
}

_SIZE = Struct(">i")
_REQUEST_START = Struct(">hhih")
_RESPONSE_START = Struct(">ii")

read_request_start = _REQUEST_START.unpack_from
"""Returns what every request begins with, known or not: API key, version, correlation id, and the
length of the client id, -1 for none."""


class RequestHeader(NamedTuple):
    """What stands before every request; a named tuple, because every request makes one."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_body_at(
    buffer: bytes | bytearray, pos: int, end: int, client_id_bytes: int, *, flexible: bool
) -> int:
    """Returns where the body of a request starts whose client id is at `pos`.

    Raises:
        DecodeError: The bytes are not a header.
    """
    if client_id_bytes > 0:
        pos += client_id_bytes
    elif client_id_bytes < -1:
        raise DecodeError("client_id: a length below -1")
    if not flexible:
        if pos > end:
            raise DecodeError("client_id: longer than what is left")
        return pos
    if pos >= end:
        raise DecodeError("the header does not fit into the request")
    if buffer[pos] == 0:  # nobody has put tagged fields into a header yet
        return pos + 1
    try:
        pos = skip_tags(buffer, pos, end)
    except IndexError:
        raise DecodeError("the header ends within a tagged field") from None
    if pos > end:
        raise DecodeError("the header does not fit into the request")
    return pos


def read_request_header(buffer: bytes | bytearray, pos: int, end: int) -> tuple[RequestHeader, int]:
    """Returns the header and where the body starts.

    The API and the version may well be unknown: then only the position means nothing.

    Raises:
        DecodeError: The bytes are not a header.
    """
    try:
        key, version, correlation_id, id_bytes = read_request_start(buffer, pos)
    except error as problem:
        raise DecodeError(str(problem)) from None
    api = APIS.get(key)
    flexible = api is not None and api.is_flexible(version)
    id_at = pos + REQUEST_START_BYTES
    body_at = request_body_at(buffer, id_at, end, id_bytes, flexible=flexible)
    try:
        client_id = buffer[id_at : id_at + id_bytes].decode() if id_bytes >= 0 else None
    except UnicodeDecodeError as problem:
        raise DecodeError(str(problem)) from None
    return RequestHeader(key, version, correlation_id, client_id), body_at


def request_parts(
    api: Api, version: int, correlation_id: int, client_id: str | None, body: Any
) -> list[RequestPart]:
    """Returns the frame in parts: bytearrays, and between them the body's records as they are.

    Records must be buffers.
    """
    encoded_id = b"" if client_id is None else client_id.encode()
    id_bytes = -1 if client_id is None else len(encoded_id)
    head = bytearray(SIZE_BYTES)
    head += _REQUEST_START.pack(api.key, version, correlation_id, id_bytes)
    head += encoded_id
    if api.is_flexible(version):
        head.append(0)
    parts: list[Part] = [head]
    encoder(api.request, version)(body, parts)
    _SIZE.pack_into(head, 0, sum(map(len, parts)) - SIZE_BYTES)
    return cast("list[RequestPart]", parts)


def encode_request(
    api: Api, version: int, correlation_id: int, client_id: str | None, body: Any
) -> bytes:
    """Returns the whole frame; records in it must be buffers."""
    return b"".join(request_parts(api, version, correlation_id, client_id, body))


def response_encoder(api: Api, version: int) -> Callable[[int, Any], list[Part]]:
    """Returns a function from correlation id and body to the frame in parts.

    The parts are bytearrays, and between them the body's records as they are. What depends on the
    version alone is looked up here, once: a broker keeps the function.
    """
    write = encoder(api.response, version)
    tags = b"\0" if api.response_header_version(version) else b""
    pack, pack_size = _RESPONSE_START.pack, _SIZE.pack_into

    def encode(correlation_id: int, body: Any) -> list[Part]:
        head = bytearray(pack(0, correlation_id) + tags)
        parts: list[Part] = [head]
        write(body, parts)
        if len(parts) == 1:
            pack_size(head, 0, len(head) - SIZE_BYTES)
            return parts
        if not parts[-1]:
            parts.pop()
        pack_size(head, 0, sum(map(len, parts)) - SIZE_BYTES)
        return parts

    return encode


def encode_response(api: Api, version: int, correlation_id: int, body: Any) -> list[Part]:
    """Returns one response as a frame in parts (see :func:`response_encoder`)."""
    return response_encoder(api, version)(correlation_id, body)


def read_response_header(
    buffer: bytes | bytearray, pos: int, end: int, api: Api, version: int
) -> tuple[int, int]:
    """Returns the correlation id and where the body starts.

    Raises:
        DecodeError: The bytes are not a header.
    """
    try:
        (correlation_id,) = _SIZE.unpack_from(buffer, pos)
        pos += SIZE_BYTES
        if api.response_header_version(version):
            pos = skip_tags(buffer, pos, end)
    except (error, IndexError) as problem:
        raise DecodeError(str(problem)) from None
    if pos > end:
        raise DecodeError("response header: cut off")
    return correlation_id, pos


def foreign_hint(size_bytes: int) -> str:
    """Returns what to add to the error about the size of a frame: what else begins like that."""
    begin = _SIZE.pack(size_bytes)
    for foreign, name in FOREIGN_BEGINNINGS.items():
        if begin.startswith(foreign):
            return f"; {name} begins like this: is {name} spoken on one side only?"
    return ""


def impossible_size(size_bytes: int, frame_bytes_max: int) -> DecodeError:
    """Returns the error about a frame of a size that none may have."""
    return DecodeError(
        f"a frame of {size_bytes} bytes, at most {frame_bytes_max} are allowed"
        f"{foreign_hint(size_bytes)}"
    )


class FrameBuffer:
    """Turns chunks of a byte stream into frames.

    It holds the bytes received and not yet given out: after all frames are taken, less than one
    frame. It allocates for bytes that came, not for those that a size promises.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, chunk: bytes | bytearray | memoryview) -> None:
        """Adds what was received."""
        self._buffer += chunk

    @property
    def awaited_bytes(self) -> int:
        """The size of the frame that is there in part; 0 if none is, or its size is not there yet.

        To be asked when :meth:`next_frame` has returned None.
        """
        if len(self._buffer) < SIZE_BYTES:
            return 0
        size_bytes: int = _SIZE.unpack_from(self._buffer)[0]
        return size_bytes

    def move_into(self, frame: bytearray) -> int:
        """Moves what is there of that frame to where it is to be; returns how many bytes."""
        moved_bytes = len(self._buffer) - SIZE_BYTES
        frame[:moved_bytes] = memoryview(self._buffer)[SIZE_BYTES:]
        self._buffer = bytearray()
        return moved_bytes

    def next_frame(self) -> bytearray | None:
        """Returns the next whole frame, without its size and for the caller to keep, or None.

        Raises:
            DecodeError: The size is not in 0..`frame_bytes_max`; the stream is beyond repair.
        """
        buffer = self._buffer
        if len(buffer) < SIZE_BYTES:
            return None
        (size_bytes,) = _SIZE.unpack_from(buffer)
        if not 0 <= size_bytes <= self.frame_bytes_max:
            raise impossible_size(size_bytes, self.frame_bytes_max)
        if len(buffer) < SIZE_BYTES + size_bytes:
            return None
        del buffer[:SIZE_BYTES]
        if len(buffer) == size_bytes:
            # The usual case, one request at a time, needs no copy: the buffer becomes the frame.
            self._buffer = bytearray()
            return buffer
        frame = buffer[:size_bytes]
        del buffer[:size_bytes]
        return frame
