"""One client connection as a plain object: bytes in, answers in request order, bytes out.

It does no I/O. A shell puts received bytes where :meth:`Connection.space` says and sends what lies
in :attr:`Connection.out`: the reactor for plain sockets, a task per connection under TLS.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from struct import Struct
from time import monotonic
from typing import Final

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.net.refusals import Closings, Refusals
from quorate.protocol.frames import foreign_hint
from quorate.records.slices import FileSlice

Part = bytes | bytearray | memoryview | FileSlice

Dispatch = Callable[["Connection", bytearray, int, int], None]
"""Starts the request in ``buffer[start:end]``: opens a slot for its answer, if it gets one.

The buffer is reused as soon as the call returns, so whatever outlives it must be copied.
"""

logger = logging.getLogger(__name__)

FRESH_BUFFER_BYTES: Final = 4096
BUFFER_KEPT_BYTES: Final = 64 * 1024
READ_AHEAD_BYTES: Final = 128 * 1024
SMALL_BYTES_MAX: Final = 16 * 1024
"""Requests and answers that are not larger are in work by the number, and not by their bytes."""
PRODUCE: Final = 0
TURN_S: Final = 0.02
"""When a turn has taken so long, each connection starts one request at most: others wait.

More than honest clients take: 500 small requests at once took 11 ms on a slow machine, where
an end after 5 ms cost an eighth of the throughput, and three times the latency of the last ones."""

_LENGTH = Struct(">i").unpack_from
_LENGTH_AND_KEY = Struct(">ih").unpack_from


class FrameRefusedError(QuorateError):
    """The peer announced a frame that we do not accept; the connection cannot go on."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may make us remember.

    Attributes:
        request_bytes_max: of a Produce request (``socket.request.max.bytes``).
        small_request_bytes_max: of any other request.
        in_flight_max: requests in work before we stop reading.
        in_flight_bytes_max: of large requests in work, and of large answers that wait for their
            turn, before we stop reading.
        unsent_bytes_max: of answers the peer does not take, before we stop reading.
        wide_send_bytes: send buffer of a connection over which more is sent at once than over
            others; 0: as for others.
    """

    request_bytes_max: int
    small_request_bytes_max: int
    in_flight_max: int
    in_flight_bytes_max: int
    unsent_bytes_max: int
    wide_send_bytes: int


class Service:
    """What all connections of a server share: what to do with requests, and limits.

    ``begin_turn`` returns a monotonic time in ms; shells call it before the requests of a turn are
    dispatched, and ``end_turn`` after, to complete what they made possible. ``answered`` collects
    the connections with a filled slot until ``end_turn`` has them send it. ``late_s`` is when, on
    the system's monotonic clock, the turn will have taken long.
    """

    __slots__ = (
        "_closings",
        "_refusals",
        "answered",
        "begin_turn",
        "connection_count",
        "connections_max",
        "dispatch",
        "end_turn",
        "idle_max_ms",
        "late_s",
        "limits",
    )

    def __init__(
        self,
        dispatch: Dispatch,
        begin_turn: Callable[[], int],
        end_turn: Callable[[], None],
        *,
        limits: Limits,
        connections_max: int,
        idle_max_ms: int,
    ) -> None:
        self.dispatch = dispatch
        self.begin_turn = begin_turn
        self.end_turn = end_turn
        self.limits = limits
        self.connections_max = connections_max
        self.idle_max_ms = idle_max_ms
        self.answered: set[Connection] = set()
        self.connection_count = 0
        self.late_s = inf
        self._refusals = Refusals()
        self._closings = Closings()

    def admit(self) -> bool:
        """Count one connection more in, unless there are ``connections_max`` already."""
        if self.connection_count >= self.connections_max:
            self.note_refusal(f"max.connections is {self.connections_max}")
            return False
        self.connection_count += 1
        return True

    def begin_requests(self) -> int:
        """Begin a turn in which requests are dispatched; return the monotonic time in ms."""
        self.late_s = monotonic() + TURN_S
        return self.begin_turn()

    def note_refusal(self, why: str) -> None:
        """Have the log tell, now and then, that a connection was refused."""
        self._refusals.note(why, int(monotonic() * 1000))

    def note_closing(self, peer: str, why: Exception) -> None:
        """Have the log tell, unless there are many, that a connection is closed for what came."""
        self._closings.note(peer, why, int(monotonic() * 1000))


class AnswerSlot:
    """The place of one answer in its connection's order of requests."""

    __slots__ = ("connection", "held_bytes", "on_abandoned", "parts")

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.parts: Sequence[Part] | None = None
        self.held_bytes = 0
        """Of a large request as long as it is in work, then of a large answer until its turn."""
        self.on_abandoned: Callable[[], None] | None = None
        """Called when the peer is gone before the answer came."""

    def fill(self, parts: Sequence[Part]) -> None:
        """Give the answer; it leaves when all before it have left."""
        assert self.parts is None, "a request is answered once"
        self.parts = parts
        connection = self.connection
        answer_bytes = len(parts[0]) if parts else 0  # large ones are of one part, or from a file
        if self.held_bytes or answer_bytes > SMALL_BYTES_MAX:
            held_bytes = answer_bytes if answer_bytes > SMALL_BYTES_MAX else 0
            connection.in_flight_bytes += held_bytes - self.held_bytes
            self.held_bytes = held_bytes
        connection.answered.add(connection)


class Connection:
    """State of one connection: its receive buffer, answers owed in request order, bytes to send.

    Invariant: ``buffer[start:end]`` holds what was received and not yet dispatched. ``stalled``
    means that dispatching stopped at an in-flight limit, and :meth:`resume` is owed when answers
    have left; or because the turn takes long, then ``yielded`` is set, too, and it is owed in
    another turn. ``in_flight_bytes`` is the size of large requests whose answers are not known, and
    of large answers whose turn has not come.
    """

    __slots__ = (
        "answered",
        "buffer",
        "closed",
        "dispatch",
        "end",
        "fetches",
        "follows",
        "in_flight_bytes",
        "last_active_ms",
        "limits",
        "out",
        "peer",
        "service",
        "slots",
        "small_bytes_max",
        "stalled",
        "start",
        "unsent_bytes",
        "view",
        "yielded",
    )

    def __init__(self, peer: str, service: Service) -> None:
        self.peer = peer
        self.service = service
        self.dispatch = service.dispatch
        self.limits = service.limits
        self.small_bytes_max = min(SMALL_BYTES_MAX, service.limits.small_request_bytes_max)
        self.answered = service.answered
        self.buffer = bytearray(FRESH_BUFFER_BYTES)
        self.view = memoryview(self.buffer)
        self.start = 0
        self.end = 0
        self.slots: deque[AnswerSlot | Sequence[Part]] = deque()
        """What is owed, in the order of requests; an answer that is there needs no slot."""
        self.out: deque[Part] = deque()
        self.unsent_bytes = 0
        self.in_flight_bytes = 0
        self.last_active_ms = 0
        self.closed = False
        self.stalled = False
        self.yielded = False
        self.fetches = False
        """Whether the peer has sent a Fetch request."""
        self.follows = False
        """Whether it is a follower's."""

    # --- in -------------------------------------------------------------------

    def space(self) -> memoryview:
        """Return where the next received bytes go; not empty while :attr:`may_read`."""
        return self.view[self.end :]

    def received(self, size_bytes: int) -> None:
        """Take ``size_bytes`` new bytes in the buffer and dispatch the frames they complete.

        Raises:
            FrameRefusedError: the peer announced a frame beyond its limit, or dispatch refused one.
        """
        self.end += size_bytes
        self.resume()

    def resume(self) -> None:
        """Dispatch whole frames until the buffer, the connection's limits or the turn is exhausted.

        One is dispatched, however late it is.
        """
        buffer, position, end = self.buffer, self.start, self.end
        dispatch, slots, limits = self.dispatch, self.slots, self.limits
        in_flight_max, bytes_max = limits.in_flight_max, limits.in_flight_bytes_max
        late_s, needed_bytes, self.yielded = self.service.late_s, 0, False
        while (
            end - position >= 4 and len(slots) < in_flight_max and self.in_flight_bytes < bytes_max
        ):
            frame_end = position + 4 + _LENGTH(buffer, position)[0]
            if frame_end > end or frame_end < position + 12:
                needed_bytes = self._check_announced(position)
                break
            if frame_end - position <= self.small_bytes_max:
                dispatch(self, buffer, position + 4, frame_end)
            else:
                self._dispatch_large(position, frame_end)
            position = frame_end
            if end - position >= 4 and monotonic() > late_s:
                self.yielded = True
                break
        if position == end < len(buffer):
            self.start = self.end = 0
            self.stalled = False
            return
        full = len(slots) >= in_flight_max or self.in_flight_bytes >= bytes_max
        self.stalled = self.yielded or (full and end - position >= 4)
        self._make_room(position, needed_bytes)

    def _dispatch_large(self, position: int, frame_end: int) -> None:
        """Dispatch a frame; as long as its answer is not known, it counts."""
        size_bytes = frame_end - position
        if size_bytes > self.limits.small_request_bytes_max:
            self._check_announced(position)
        owed_before = len(self.slots)
        self.dispatch(self, self.buffer, position + 4, frame_end)
        if len(self.slots) > owed_before:
            slot = self.slots[-1]
            if isinstance(slot, AnswerSlot) and slot.parts is None:
                slot.held_bytes = size_bytes
                self.in_flight_bytes += size_bytes

    def _check_announced(self, position: int) -> int:
        """Return the size of the frame announced at ``position``; refuse what cannot be one."""
        if self.end - position < 6:
            (size_bytes,) = _LENGTH(self.buffer, position)
            api_key = PRODUCE
        else:
            size_bytes, api_key = _LENGTH_AND_KEY(self.buffer, position)
        limits = self.limits
        is_produce = api_key == PRODUCE
        limit = limits.request_bytes_max if is_produce else limits.small_request_bytes_max
        if not 8 <= size_bytes <= limit:
            raise FrameRefusedError(
                f"a request of {size_bytes} bytes (API key {api_key}); accepted are 8 to {limit}"
                f"{foreign_hint(size_bytes)}"
            )
        return 4 + int(size_bytes)

    def _make_room(self, position: int, needed_bytes: int) -> None:
        """Keep ``buffer[position:end]`` at a place where a frame of ``needed_bytes`` has room."""
        capacity = len(self.buffer)
        rest_bytes = self.end - position
        if needed_bytes > capacity:
            self._replace_buffer(position, self._grown(needed_bytes, rest_bytes))
        elif not rest_bytes:
            filled = self.end == capacity
            self.start = self.end = 0
            if filled and capacity < READ_AHEAD_BYTES:
                self._replace_buffer(0, min(capacity * 4, READ_AHEAD_BYTES))
        elif capacity - position < needed_bytes or self.end == capacity:
            self.buffer[:rest_bytes] = self.buffer[position : self.end]
            self.start, self.end = 0, rest_bytes
        else:
            self.start = position

    def _grown(self, needed_bytes: int, rest_bytes: int) -> int:
        """Return a buffer size for a frame of ``needed_bytes``, of which ``rest_bytes`` have come.

        Memory follows what was received, not what was announced: a peer that announces 100 MB and
        sends nothing costs nothing.
        """
        ahead_bytes = max(4 * rest_bytes, READ_AHEAD_BYTES)
        return min(needed_bytes + READ_AHEAD_BYTES, ahead_bytes)

    def _replace_buffer(self, position: int, capacity: int) -> None:
        rest_bytes = self.end - position
        buffer = bytearray(max(capacity, rest_bytes + FRESH_BUFFER_BYTES))
        buffer[:rest_bytes] = self.view[position : self.end]
        self.buffer = buffer
        self.view = memoryview(buffer)
        self.start, self.end = 0, rest_bytes

    def shrink(self) -> None:
        """Give back a large buffer that holds nothing; for idle connections."""
        if self.start == self.end and len(self.buffer) > BUFFER_KEPT_BYTES:
            self.start = self.end = 0
            self._replace_buffer(0, FRESH_BUFFER_BYTES)

    # --- out ------------------------------------------------------------------

    def open_slot(self) -> AnswerSlot:
        """Reserve the next place in the order of answers."""
        slot = AnswerSlot(self)
        self.slots.append(slot)
        return slot

    def answer_now(self, parts: Sequence[Part]) -> None:
        """Answer the request that was just dispatched."""
        self.slots.append(parts)
        self.answered.add(self)

    def abandon(self) -> None:
        """Forget what the peer, who is gone, was to be sent; stop what works on more of it."""
        self.closed = True
        self.in_flight_bytes = self.limits.in_flight_bytes_max  # of what came, no more is begun
        self.out.clear()
        slots, self.slots = self.slots, deque()
        for slot in slots:
            if isinstance(slot, AnswerSlot) and slot.parts is None and slot.on_abandoned:
                slot.on_abandoned()

    def collect(self) -> bool:
        """Move the answers whose turn it is to :attr:`out`; return whether it holds anything."""
        slots, out = self.slots, self.out
        while slots:
            owed = slots[0]
            if isinstance(owed, AnswerSlot):
                parts = owed.parts
                if parts is None:
                    break
                self.in_flight_bytes -= owed.held_bytes
            else:
                parts = owed
            slots.popleft()
            for part in parts:
                out.append(part)
                self.unsent_bytes += len(part)
        return bool(out)

    @property
    def may_read(self) -> bool:
        """Whether the peer is within its limits, so that more of its bytes are welcome."""
        limits = self.limits
        return (
            len(self.slots) < limits.in_flight_max
            and self.in_flight_bytes < limits.in_flight_bytes_max
            and self.unsent_bytes < limits.unsent_bytes_max
        )

    def widen(self) -> None:
        """Have the system take more of what is sent at once, if the shell has a say in that."""

    def flush(self) -> None:
        """Have the shell send the answers whose turn it is."""
        raise NotImplementedError

    def hang_up(self) -> None:
        """Have the shell close the connection: there will be no answer that is owed."""
        raise NotImplementedError
