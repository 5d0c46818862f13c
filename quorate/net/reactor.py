"""The Trio task that serves every plain connection of a process.

One task, one epoll of its own whose descriptor Trio awaits: a connection costs neither a task nor a
cancel scope, and a request costs no scheduling. Trio stays in charge of cancellation, timers and
threads. While requests come one upon the other, the task waits in its epoll itself, which watches
Trio's then (docs/decisions/0019-waiting-beside-trio.md).
"""

import errno
import logging
import os
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Final

import trio

from quorate.net.beside_trio import BesideTrio, UnknownLoopError
from quorate.net.connection import AnswerSlot, Connection, FrameRefusedError, Part, Service
from quorate.net.refusals import Refusals
from quorate.records.slices import FileSlice

logger = logging.getLogger(__name__)

EVENTS_MAX: Final = 256
ROUNDS_BETWEEN_CHECKPOINTS: Final = 16
SENDS_PER_TURN_MAX: Final = 64
CHUNK_BYTES: Final = 1 << 20
SHORT_SLICE_BYTES: Final = 16 * 1024
"""So much of a file is quicker read and sent along with what stands around it than by itself."""
SLICE_AND_REST: Final = 2
"""Where there are more parts than these, another slice follows: each would end in a packet."""
QUICK_S_MAX: Final = 0.002
"""A wait for requests that is no longer is a quick one."""
QUICK_WAITS: Final = 8
"""After so many, one after the other, requests are taken to follow each other."""
LULL_S: Final = 0.005
"""When none came for so long, they do not any more."""
SWEEP_INTERVAL_S: Final = 5.0
BUFFER_USUAL_BYTES: Final = 4 << 20
ACCEPT_PAUSE_S: Final = 0.1
OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_IN: Final = select.EPOLLIN
_OUT: Final = select.EPOLLOUT


class Traffic:
    """Counters of a reactor, for metrics and tests."""

    __slots__ = ("accepted", "received_bytes", "refused", "sendfile_bytes", "sent_bytes")

    def __init__(self) -> None:
        self.accepted = 0
        self.refused = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self.sendfile_bytes = 0


class PlainConnection(Connection):
    """A connection on a non-blocking socket.

    ``interest`` is what epoll watches for it. ``loading`` is set while a thread brings the file
    bytes that are next to be sent into memory; nothing is sent meanwhile. ``warm`` is a file
    descriptor, and which of its bytes were in memory when it was last asked for. ``corked`` means
    that a packet which is not full waits for what follows it.
    """

    __slots__ = (
        "corked",
        "fd",
        "interest",
        "loading",
        "reactor",
        "recv_into",
        "sock",
        "sock_send",
        "warm",
    )

    def __init__(self, reactor: "Reactor", sock: socket.socket, service: Service) -> None:
        super().__init__(peer_name(sock), service)
        self.reactor = reactor
        self.sock = sock
        self.fd = sock.fileno()
        self.recv_into = sock.recv_into
        self.sock_send = sock.send
        self.interest = _IN
        self.loading = False
        self.corked = False
        self.warm: tuple[int, range] = (-1, range(0))

    def cork(self, *, corked: bool) -> None:
        """Have the system hold back a packet that is not full (0.2 s at most), or send it."""
        self.corked = corked
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, corked)

    def widen(self) -> None:
        """Make the send buffer larger, if its size is ours to choose."""
        if self.limits.wide_send_bytes:
            wide_bytes = self.limits.wide_send_bytes
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wide_bytes)

    def flush(self) -> None:
        """Have the reactor send the answers whose turn it is."""
        self.reactor.flush(self)

    def hang_up(self) -> None:
        """Have the reactor close it."""
        self.reactor.close(self)


class Reactor:
    """Accepts and serves plain connections until it is cancelled."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._listeners: dict[int, socket.socket] = {}
        self._watched: dict[int, Callable[[], None]] = {}
        self._connections: dict[int, PlainConnection] = {}
        self._epoll = select.epoll()
        self._nursery: trio.Nursery | None = None
        self._beside: BesideTrio | None = None
        self._trio_is_due = False
        self.in_rhythm = False
        """Whether requests come one upon the other, so that they are waited for beside Trio."""
        self.traffic = Traffic()
        self._waits = Refusals(told_as="had new connections wait %d times: %s")

    async def run(self) -> None:
        """Serve until cancelled; then close every connection and listener."""
        with suppress(UnknownLoopError):
            self._beside = BesideTrio()
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._sweep)
                await self._serve()
        finally:
            for connection in list(self._connections.values()):
                self.close(connection)
            for listener in self._listeners.values():
                listener.close()
            self._epoll.close()

    def listen(self, listeners: Iterable[socket.socket]) -> None:
        """Serve whoever connects to these, which must be listening and non-blocking."""
        for listener in listeners:
            self._listeners[listener.fileno()] = listener
            self._epoll.register(listener.fileno(), _IN)

    def watch(self, fd: int, on_readable: Callable[[], None]) -> None:
        """Call back in a turn whenever a descriptor is readable, until it is closed."""
        self._watched[fd] = on_readable
        self._epoll.register(fd, _IN)

    async def _serve(self) -> None:
        epoll_fd, poll, turn = self._epoll.fileno(), self._epoll.poll, self._turn
        service = self._service
        rounds = quick_waits = 0
        served_s = monotonic()
        while True:
            events = poll(0, EVENTS_MAX)
            if events:
                turn(events)
                rounds += 1
                if rounds >= ROUNDS_BETWEEN_CHECKPOINTS or monotonic() > service.late_s:
                    rounds = 0
                    await trio.lowlevel.checkpoint()
                continue
            if rounds:
                served_s = monotonic()
            await trio.lowlevel.wait_readable(epoll_fd)
            rounds = 0
            quick_waits = quick_waits + 1 if monotonic() - served_s <= QUICK_S_MAX else 0
            if quick_waits >= QUICK_WAITS and self._beside is not None:
                quick_waits = 0
                await self._serve_in_rhythm(self._beside)

    async def _serve_in_rhythm(self, beside: BesideTrio) -> None:
        """Serve while requests come one upon the other, and wait for the next in our own epoll.

        To wait in Trio's for a client that waits for us costs more than to serve it.
        """
        poll, turn, patience_s = self._epoll.poll, self._turn, beside.patience_s
        beside.begin(self._epoll.fileno())
        self._epoll.register(beside.fd, _IN)
        self.in_rhythm = self._trio_is_due = True
        silent_since_s = 0.0
        try:
            while True:
                wait_s = patience_s()
                if wait_s <= 0 or self._trio_is_due:
                    self._trio_is_due = False
                    await trio.lowlevel.checkpoint()
                    wait_s = patience_s()
                events = poll(min(wait_s, LULL_S), EVENTS_MAX)
                if events:
                    turn(events)
                if len(events) > self._trio_is_due:
                    silent_since_s = 0.0
                elif not silent_since_s:
                    silent_since_s = monotonic()
                elif monotonic() - silent_since_s >= LULL_S:
                    return
        finally:
            self.in_rhythm = False
            self._epoll.unregister(beside.fd)
            beside.end()

    def _turn(self, events: list[tuple[int, int]]) -> None:
        """Serve those who have sent something, or may be sent more."""
        connections, receive, send = self._connections, self._receive, self.send
        now_ms = self._service.begin_requests()
        for fd, mask in events:
            connection = connections.get(fd)
            if connection is None:
                self._serve_other(fd)
                continue
            connection.last_active_ms = now_ms
            connection.yielded = False
            if mask & ~_OUT:
                receive(connection)
                if not mask & _OUT or not connection.out or connection.loading:
                    continue  # else who goes on sending would wait for its answers till it rests
            if not connection.closed:
                send(connection)
        self._service.end_turn()

    def _serve_other(self, fd: int) -> None:
        """Serve what is ready and no connection."""
        listener = self._listeners.get(fd)
        if listener is not None:
            self._accept(fd, listener)
        elif fd in self._watched:
            self._watched[fd]()
        else:  # Trio's, or closed earlier in this turn
            self._trio_is_due = True

    # --- connections ----------------------------------------------------------

    def _accept(self, listener_fd: int, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError as error:
            # Out of descriptors: the connection stays in the backlog until some are free.
            if error.errno in OUT_OF_DESCRIPTORS and self._nursery is not None:
                self._waits.note(str(error), int(monotonic() * 1000))
                self._epoll.modify(listener_fd, 0)
                self._nursery.start_soon(self._accept_later, listener_fd)
            return
        if not self._service.admit():
            self.traffic.refused += 1
            sock.close()
            return
        sock.setblocking(False)  # noqa: FBT003
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = PlainConnection(self, sock, self._service)
        connection.last_active_ms = self._service.begin_turn()
        self._connections[connection.fd] = connection
        self._epoll.register(connection.fd, _IN)
        self.traffic.accepted += 1

    async def _accept_later(self, listener_fd: int) -> None:
        await trio.sleep(ACCEPT_PAUSE_S)
        self._epoll.modify(listener_fd, _IN)

    def close(self, connection: PlainConnection) -> None:
        """Close a connection now; answers it still waits for are dropped when they come."""
        if connection.closed:
            return
        self._service.connection_count -= 1
        del self._connections[connection.fd]
        self._epoll.unregister(connection.fd)
        connection.sock.close()
        connection.abandon()

    def _receive(self, connection: PlainConnection) -> None:
        end, view = connection.end, connection.view
        try:
            size_bytes = connection.recv_into(view[end:] if end else view)
        except BlockingIOError:
            return
        except OSError:
            size_bytes = 0
        if not size_bytes:
            self.close(connection)
            return
        self.traffic.received_bytes += size_bytes
        try:
            connection.received(size_bytes)
        except FrameRefusedError as error:
            self._service.note_closing(connection.peer, error)
            self._close_refused(connection)
            return
        if connection.yielded or (
            (connection.slots or connection.unsent_bytes) and not connection.may_read
        ):
            self._watch(connection)

    def _close_refused(self, connection: PlainConnection) -> None:
        """Close a connection over which a frame was refused, after what was answered before it."""
        if not connection.closed and connection.collect():
            with suppress(OSError):
                self._send_parts(connection)
        self.close(connection)

    def _watch(self, connection: PlainConnection) -> None:
        """Have epoll watch for what the connection can go on with."""
        interest = _IN if connection.may_read else 0
        if connection.out:
            if not connection.loading:
                interest |= _OUT
        elif connection.yielded:
            interest = _OUT  # at once, in the next turn; what it has sent since can wait
        if interest != connection.interest and not connection.closed:
            connection.interest = interest
            self._epoll.modify(connection.fd, interest)

    # --- answers --------------------------------------------------------------

    def flush(self, connection: PlainConnection) -> None:
        """Send the answers whose turn it is, unless earlier ones still wait for the socket."""
        if connection.closed:
            return
        if connection.out:
            connection.collect()
            return
        slots = connection.slots
        if len(slots) == 1:
            owed = slots[0]
            parts = owed.parts if isinstance(owed, AnswerSlot) else owed
            if parts is not None and len(parts) == 1:
                part = parts[0]
                if not isinstance(part, FileSlice):
                    slots.clear()
                    if isinstance(owed, AnswerSlot):
                        connection.in_flight_bytes -= owed.held_bytes
                    self._send_one(connection, part)
                    return
        if connection.collect():
            self.send(connection)
        else:
            self._proceed(connection)

    def _send_one(self, connection: PlainConnection, part: bytes | bytearray | memoryview) -> None:
        """Send the only answer there is, in one part: the hot path of synchronous clients."""
        try:
            sent = connection.sock_send(part)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._give_up(connection, error)
            return
        self.traffic.sent_bytes += sent
        if sent < len(part):
            connection.out.append(memoryview(part)[sent:])
            connection.unsent_bytes += len(part) - sent
            self._watch(connection)
        elif connection.stalled or connection.interest != _IN:
            self._proceed(connection)

    def send(self, connection: PlainConnection) -> None:
        """Send until all is sent or the socket is full, then go on with what was held back."""
        try:
            self._send_parts(connection)
            if connection.corked and not connection.out:
                connection.cork(corked=False)
        except BlockingIOError:
            self._watch(connection)
        except OSError as error:
            self._give_up(connection, error)
        else:
            self._proceed(connection)

    def _give_up(self, connection: PlainConnection, error: OSError) -> None:
        """Close a connection over which nothing can be sent, and say why."""
        if not isinstance(error, ConnectionError):  # else the peer has gone, which it may
            logger.warning("closing the connection to %s: %s", connection.peer, error)
        self.close(connection)

    def _proceed(self, connection: PlainConnection) -> None:
        """Take up requests that were received while the connection was over its limits."""
        if connection.stalled and not connection.yielded and connection.may_read:
            try:
                connection.resume()
            except FrameRefusedError as error:
                self._service.note_closing(connection.peer, error)
                self._close_refused(connection)
                return
        if connection.interest != _IN or connection.yielded or not connection.may_read:
            self._watch(connection)

    def _send_parts(self, connection: PlainConnection) -> None:
        """Send what lies in ``out``; raises BlockingIOError when the socket takes no more."""
        out, sock = connection.out, connection.sock
        for _ in range(SENDS_PER_TURN_MAX):
            if not out or connection.loading:
                return
            part = out[0]
            if type(part) is FileSlice:
                if not self._is_warm(connection, part):
                    if connection.corked:
                        connection.cork(corked=False)  # what is there need not wait for the disk
                    self._load(connection, part)
                    return
                if len(out) > SLICE_AND_REST and not connection.corked:
                    connection.cork(corked=True)
                size_bytes = min(part.size_bytes, CHUNK_BYTES)
                sent = os.sendfile(connection.fd, part.fd, part.position, size_bytes)
                self.traffic.sendfile_bytes += sent
                if not sent:
                    raise OSError(errno.EIO, "the log file is shorter than its records")
            else:
                part = _joined(out)
                size_bytes = len(part)
                sent = sock.send(part, socket.MSG_MORE if len(out) > 1 else 0)
            self.traffic.sent_bytes += sent
            connection.unsent_bytes -= sent
            _drop_sent(out, part, sent)
            if sent < size_bytes:
                raise BlockingIOError  # it would be, if we asked again
        if out:
            raise BlockingIOError  # fairness: others first; epoll says at once that we may go on

    def _is_warm(self, connection: PlainConnection, part: FileSlice) -> bool:
        """Whether the next chunk of a file is in memory, so that sendfile need not wait."""
        fd, positions = connection.warm
        if fd == part.fd and part.position in positions:
            return True
        end = part.position + min(part.size_bytes, CHUNK_BYTES)
        if is_cached(part.fd, part.position) and is_cached(part.fd, end - 1):
            connection.warm = (part.fd, range(part.position, end))
            return True
        return False

    def _load(self, connection: PlainConnection, part: FileSlice) -> None:
        """Bring the next bytes of a file into memory, in a thread, then go on sending."""
        assert self._nursery is not None, "only called while serving"
        connection.loading = True
        self._watch(connection)
        self._nursery.start_soon(self._load_and_send, connection, part)

    async def _load_and_send(self, connection: PlainConnection, part: FileSlice) -> None:
        size_bytes = min(part.size_bytes, CHUNK_BYTES)
        try:
            await trio.to_thread.run_sync(os.pread, part.fd, size_bytes, part.position)
        except OSError:
            logger.exception("cannot read a log file")
            self.close(connection)
            return
        connection.loading = False
        connection.warm = (part.fd, range(part.position, part.position + size_bytes))
        if not connection.closed:
            self._service.begin_turn()
            self.send(connection)
            self._service.end_turn()

    async def _sweep(self) -> None:
        """Close connections that were silent too long, and take back large buffers of idle ones.

        Very large ones are taken back of all: who has sent one such request need not send others.
        """
        while True:
            await trio.sleep(min(SWEEP_INTERVAL_S, self._service.idle_max_ms / 1000))
            now_ms = self._service.begin_turn()
            for connection in list(self._connections.values()):
                idle_ms = now_ms - connection.last_active_ms
                if idle_ms > self._service.idle_max_ms and not connection.slots:
                    self.close(connection)
                elif (
                    idle_ms > SWEEP_INTERVAL_S * 1000 or len(connection.buffer) > BUFFER_USUAL_BYTES
                ):
                    connection.shrink()


def peer_name(sock: socket.socket | trio.socket.SocketType) -> str:
    """Return the peer's address for messages."""
    try:
        host, port = sock.getpeername()[:2]
    except OSError:
        return "a peer that is gone"
    return f"{host}:{port}"


def is_cached(fd: int, position: int) -> bool:
    """Whether the byte of a file at ``position`` can be read without waiting for the disk."""
    try:
        os.preadv(fd, [bytearray(1)], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True  # not every file system can tell
    return True


def read_if_short(part: FileSlice) -> bytearray | None:
    """Return the bytes of a short slice; None if it is not, or not all of it is in memory."""
    if part.size_bytes > SHORT_SLICE_BYTES:
        return None
    buffer = bytearray(part.size_bytes)
    try:
        size_bytes = os.preadv(part.fd, [buffer], part.position, os.RWF_NOWAIT)
    except OSError:
        return None  # whatever it is, who sends the slice will see to it
    return buffer if size_bytes == part.size_bytes else None


def _joined(out: deque[Part]) -> bytes | bytearray | memoryview:
    """Return the first part of ``out``, after joining it with the small ones right behind it."""
    first = out.popleft()
    assert not isinstance(first, FileSlice), "file bytes are sent from the file"
    parts: list[bytes | bytearray | memoryview] = [first]
    while out:
        part = out[0]
        if isinstance(part, FileSlice):
            read = read_if_short(part)
            if read is None:
                break
            part = read
        parts.append(part)
        out.popleft()
    if len(parts) > 1:
        first = b"".join(parts)
    out.appendleft(first)
    return first


def _drop_sent(out: deque[Part], part: Part, sent: int) -> None:
    """Take ``sent`` bytes of ``part``, the first of ``out``, off it."""
    if sent == len(part):
        out.popleft()
    elif isinstance(part, FileSlice):
        rest = part.size_bytes - sent
        out[0] = FileSlice(part.fd, part.position + sent, rest, part.owner)
    else:
        out[0] = memoryview(part)[sent:]
