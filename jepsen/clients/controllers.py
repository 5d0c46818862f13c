"""A plain client of controllers over a blocking socket, which knows what became of each request."""

import secrets
import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from quorate.control import messages as m
from quorate.control.codec import DecodeError
from quorate.control.frames import (
    ANSWER_BYTES_MAX,
    LENGTH_BYTES,
    Frame,
    decode_frame,
    encode_frame,
    frame_length,
)
from quorate.errors import ErrorCode
from quorate.model import Endpoint

LOOPBACK: Final = "127.0.0.1"
RECEIVE_BYTES: Final = 1 << 16
RETRY_S: Final = 0.05
REQUEST_ID_BYTES: Final = 16

A = TypeVar("A", bound=m.Answer)
Address = int | Endpoint
"""Of a controller: a port of this machine, or an endpoint."""


class NotDoneError(Exception):
    """The request had no effect and will have none."""


class MaybeDoneError(Exception):
    """The request may have had its effect, or may have it later, or never."""


class ControlSocket:
    """One connection to one controller, one request at a time."""

    def __init__(self, where: Address, *, cluster_id: str, deadline_s: float) -> None:
        """Connect and introduce ourselves as a tool.

        Raises:
            NotDoneError: nobody is there, or it does not want us.
        """
        try:
            self._sock = socket.create_connection(_pair(where), _rest(deadline_s))
        except OSError as error:
            raise NotDoneError(f"no connection: {error}") from error
        self._received = bytearray()
        self._next_id = 1
        try:
            self._send(Frame(0, m.Hello(cluster_id, m.NO_NODE)), deadline_s)
            answer = self._receive(deadline_s).message
        except (OSError, DecodeError) as error:
            self.close()
            raise NotDoneError(f"no hello: {error!r}") from error
        if not isinstance(answer, m.HelloAnswer):
            self.close()
            raise NotDoneError(f"not welcome: {answer}")
        self.controller: Final = answer

    def ask(
        self, request: m.Request[Any], *, request_id: bytes, deadline_s: float
    ) -> m.Answer | m.ErrorAnswer:
        """Return the answer.

        Raises:
            MaybeDoneError: there is none. The connection is of no use any more.
        """
        correlation_id, self._next_id = self._next_id, self._next_id + 1
        timeout_ms = max(1, int(1000 * _rest(deadline_s)))
        try:
            self._send(Frame(correlation_id, request, request_id, timeout_ms), deadline_s)
            while True:
                frame = self._receive(deadline_s)
                if frame.correlation_id == correlation_id:
                    break
        except (OSError, DecodeError) as error:
            raise MaybeDoneError(repr(error)) from error
        assert isinstance(frame.message, m.Answer)
        return frame.message

    def close(self) -> None:
        """Hang up."""
        self._sock.close()

    def _send(self, frame: Frame, deadline_s: float) -> None:
        self._sock.settimeout(_rest(deadline_s))
        self._sock.sendall(encode_frame(frame))

    def _receive(self, deadline_s: float) -> Frame:
        self._fill(LENGTH_BYTES, deadline_s)
        length = frame_length(self._received[:LENGTH_BYTES], ANSWER_BYTES_MAX)
        self._fill(LENGTH_BYTES + length, deadline_s)
        body = bytes(self._received[LENGTH_BYTES : LENGTH_BYTES + length])
        del self._received[: LENGTH_BYTES + length]
        return decode_frame(body)

    def _fill(self, size_bytes: int, deadline_s: float) -> None:
        while len(self._received) < size_bytes:
            self._sock.settimeout(_rest(deadline_s))
            data = self._sock.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("the other side hung up")
            self._received += data


class QuorumClient:
    """Asks whoever leads. Owns a connection to one controller at a time; for one thread."""

    def __init__(self, controllers: Sequence[Address], first: int) -> None:
        """Begin with one of the controllers, by its place in the list."""
        self._controllers = tuple(controllers)
        self.place = first % len(controllers)
        self._connection: ControlSocket | None = None

    def ask(
        self, request: m.Request[A], expected: type[A], *, request_id: bytes, timeout_s: float
    ) -> A:
        """Return the leader's answer, looking for the leader meanwhile.

        A request with an id is also tried again after it may have been carried out, which is what
        ids are for; without one it is not.

        Raises:
            NotDoneError: it was not carried out.
            MaybeDoneError: it may have been.
        """
        deadline_s = time.monotonic() + timeout_s
        doubt: MaybeDoneError | None = None
        reason = "no time"
        while time.monotonic() < deadline_s:
            try:
                answer = self._ask_once(request, request_id, deadline_s)
                assert isinstance(answer, expected), answer
            except NotDoneError as error:
                reason = str(error)
                time.sleep(min(RETRY_S, _rest(deadline_s)))
            except MaybeDoneError as error:
                doubt = error
                if not request_id:
                    break
                time.sleep(min(RETRY_S, _rest(deadline_s)))
            else:
                return answer
        if doubt is not None:
            raise doubt
        raise NotDoneError(reason)

    def _ask_once(self, request: m.Request[Any], request_id: bytes, deadline_s: float) -> m.Answer:
        try:
            if self._connection is None:
                where = self._controllers[self.place]
                self._connection = ControlSocket(where, cluster_id="", deadline_s=deadline_s)
            answer = self._connection.ask(request, request_id=request_id, deadline_s=deadline_s)
        except (NotDoneError, MaybeDoneError):
            self.turn_to(self.place + 1)
            raise
        if not isinstance(answer, m.ErrorAnswer):
            return answer
        self.turn_to(self._place_of_leader(answer))
        error = f"{ErrorCode(answer.code).name}: {answer.message}"
        if answer.code == ErrorCode.NOT_CONTROLLER:
            raise NotDoneError(error)
        raise MaybeDoneError(error)

    def _place_of_leader(self, answer: m.ErrorAnswer) -> int:
        endpoint = answer.leader_endpoint
        if endpoint is not None:
            pairs = [_pair(where) for where in self._controllers]
            told = _pair(endpoint)
            if told in pairs:
                return pairs.index(told)
        return self.place + 1

    def turn_to(self, place: int) -> None:
        """Ask another controller from now on."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.place = place % len(self._controllers)

    def close(self) -> None:
        """Hang up."""
        self.turn_to(self.place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def new_request_id() -> bytes:
    """Return an id that no other request has."""
    return secrets.token_bytes(REQUEST_ID_BYTES)


def _pair(where: Address) -> tuple[str, int]:
    return (LOOPBACK, where) if isinstance(where, int) else (where.host, where.port)


def _rest(deadline_s: float) -> float:
    return max(0.001, deadline_s - time.monotonic())
