"""Members of groups over plain sockets: hundreds of them in one process, none with a library.

Requests are built before the clock runs; what a member does between two of them is nothing.
"""

import select
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from quorate.errors import ErrorCode
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request, read_response_header
from quorate.protocol.message import decoder
from quorate.protocol.messages.groups import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from quorate.tools.bench.measuring import MeasurementFailedError
from quorate.tools.bench.topics import Address

JOIN, SYNC, COMMIT, FETCH, FIND = 5, 3, 8, 7, 4
OFFSET: Final = 7
GROUPS_AT_ONCE: Final = 500
GROUPS_ASKED: Final = 200
"""Of so many groups, spread over all, the offsets are asked for."""
CONNECTIONS: Final = 50
NOT_READY: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
SESSION_MS: Final = 1_800_000
REBALANCE_MS: Final = 60_000
TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.02
RECV_BYTES: Final = 1 << 16
_LENGTH: Final = struct.Struct(">i")


class Wire:
    """One connection; several requests may be under way on it."""

    def __init__(self, address: Address) -> None:
        self.sock = socket.create_connection((address.host, address.port), timeout=TIMEOUT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pending = bytearray()

    def close(self) -> None:
        """Be gone."""
        self.sock.close()

    def take(self) -> list[bytes]:
        """Receive once; return the frames that are whole by now."""
        data = self.sock.recv(RECV_BYTES)
        if not data:
            raise MeasurementFailedError("the broker closed a member's connection")
        pending = self._pending
        pending += data
        frames: list[bytes] = []
        while len(pending) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(pending)[0]
            if len(pending) < end:
                break
            frames.append(bytes(pending[_LENGTH.size : end]))
            del pending[:end]
        return frames

    def ask(self, key: ApiKey, version: int, body: Any) -> Any:
        """Send one request and wait for its answer."""
        self.sock.sendall(framed(key, version, body))
        while True:
            for frame in self.take():
                return answer(key, version, frame)


def framed(key: ApiKey, version: int, body: Any) -> bytes:
    """Return a request as it is sent."""
    return encode_request(APIS[key], version, 1, "bench", body)


def answer(key: ApiKey, version: int, frame: bytes) -> Any:
    """Return a decoded answer."""
    _, at = read_response_header(frame, 0, len(frame), APIS[key], version)
    return decoder(APIS[key].response, version)(frame, at, len(frame))[0]


def exchange(wires: Sequence[Wire], frames: Sequence[bytes]) -> list[bytes]:
    """Send one request on each connection, and wait for all answers, in the same order."""
    poller = select.epoll()
    places = {wire.sock.fileno(): n for n, wire in enumerate(wires)}
    for fd in places:
        poller.register(fd, select.EPOLLIN)
    try:
        for wire, frame in zip(wires, frames, strict=True):
            wire.sock.sendall(frame)
        answers: dict[int, bytes] = {}
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(answers) < len(wires):
            if time.monotonic() > deadline_s:
                raise MeasurementFailedError(f"{len(answers)} of {len(wires)} answers came")
            for fd, _ in poller.poll(1.0):
                for taken in wires[places[fd]].take():
                    answers[places[fd]] = taken
        return [answers[n] for n in range(len(wires))]
    finally:
        poller.close()


def coordinator_of(address: Address, group: str, *, timeout_s: float = TIMEOUT_S) -> Address:
    """Return who coordinates a group; ask until somebody does.

    Raises:
        MeasurementFailedError: nobody does, for that long.
    """
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        try:
            wire = Wire(address)
        except OSError:
            time.sleep(POLL_S)
            continue
        try:
            body = FindCoordinatorRequest(coordinator_keys=[group])
            (told,) = wire.ask(ApiKey.FIND_COORDINATOR, FIND, body).coordinators
        finally:
            wire.close()
        if told.error_code == ErrorCode.NONE:
            return Address(told.host, told.port)
        time.sleep(POLL_S)
    raise MeasurementFailedError("no coordinator")


def join_body(group: str, member_id: str, metadata: bytes) -> JoinGroupRequest:
    """Return what a member joins with."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def sync_body(
    group: str, joined: JoinGroupResponse, assignments: Mapping[str, bytes]
) -> SyncGroupRequest:
    """Return what a member of a generation syncs with."""
    return SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in assignments.items()
        ],
    )


def commit_body(
    group: str, topic: str, partitions: Iterable[int], offset: int
) -> OffsetCommitRequest:
    """Return a commit from outside a group's membership."""
    committed = [
        OffsetCommitRequestPartition(partition_index=p, committed_offset=offset) for p in partitions
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=committed)],
    )


def commit(wire: Wire, body: OffsetCommitRequest) -> None:
    """Commit; again while the coordinator is not ready.

    Raises:
        MeasurementFailedError: it is refused, or not ready for too long.
    """
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        told = wire.ask(ApiKey.OFFSET_COMMIT, COMMIT, body).topics[0].partitions[0]
        if told.error_code not in NOT_READY or time.monotonic() > deadline_s:
            checked(told)
            return
        time.sleep(POLL_S)


def checked(told: Any) -> Any:
    """Return an answer without an error.

    Raises:
        MeasurementFailedError: it has one.
    """
    if told.error_code != ErrorCode.NONE:
        raise MeasurementFailedError(ErrorCode(told.error_code).name)
    return told


def repeat(wires: Sequence[Wire], frames: Sequence[bytes], seconds: float) -> int:
    """Send a request on each connection whenever the last is answered; return how many were."""
    poller = select.epoll()
    places = {wire.sock.fileno(): n for n, wire in enumerate(wires)}
    for fd in places:
        poller.register(fd, select.EPOLLIN)
    done, owed = 0, len(wires)
    for wire, frame in zip(wires, frames, strict=True):
        wire.sock.sendall(frame)
    end_s = time.monotonic() + seconds
    while owed:
        going_on = time.monotonic() < end_s
        for fd, _ in poller.poll(TIMEOUT_S):
            n = places[fd]
            for _ in wires[n].take():
                done += 1
                if going_on:
                    wires[n].sock.sendall(frames[n])
                else:
                    owed -= 1
    poller.close()
    return done


def commit_everywhere(
    address: Address, groups: Sequence[str], topic: str
) -> dict[Address, list[str]]:
    """Commit offset 7 for each group at its coordinator; return which groups each has."""
    wire = Wire(address)
    homes: dict[Address, list[str]] = {}
    for begin in range(0, len(groups), GROUPS_AT_ONCE):
        asked = FindCoordinatorRequest(
            coordinator_keys=list(groups[begin : begin + GROUPS_AT_ONCE])
        )
        for told in wire.ask(ApiKey.FIND_COORDINATOR, FIND, asked).coordinators:
            checked(told)
            homes.setdefault(Address(told.host, told.port), []).append(told.key)
    wire.close()
    for home, owned in homes.items():
        wires = [Wire(home) for _ in range(CONNECTIONS)]
        for begin in range(0, len(owned), CONNECTIONS):
            chosen = owned[begin : begin + CONNECTIONS]
            bodies = [commit_body(group, topic, [0], OFFSET) for group in chosen]
            if not begin:
                for each, body in zip(wires, bodies, strict=False):
                    commit(each, body)
            frames = [framed(ApiKey.OFFSET_COMMIT, COMMIT, body) for body in bodies]
            for frame in exchange(wires[: len(chosen)], frames):
                told = answer(ApiKey.OFFSET_COMMIT, COMMIT, frame)
                checked(told.topics[0].partitions[0])
        for each in wires:
            each.close()
    return homes


def wait_for_offsets(address: Address, groups: Sequence[str], topic: str, timeout_s: float) -> None:
    """Ask for the groups' offsets, wherever they are coordinated, until all are told.

    Raises:
        MeasurementFailedError: they are not, in that time, or an offset is lost.
    """
    deadline_s = time.monotonic() + timeout_s
    for group in groups[:: max(1, len(groups) // GROUPS_ASKED)]:
        while not _offset_is_told(address, group, topic):
            if time.monotonic() > deadline_s:
                raise MeasurementFailedError(f"group {group} is not served again")
            time.sleep(POLL_S)


def _offset_is_told(address: Address, group: str, topic: str) -> bool:
    body = OffsetFetchRequest(
        group_id=group,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])],
    )
    try:
        wire = Wire(coordinator_of(address, group))
        try:
            told = wire.ask(ApiKey.OFFSET_FETCH, FETCH, body)
        finally:
            wire.close()
    except (OSError, MeasurementFailedError):  # it is the one that is dead
        return False
    if told.error_code:
        return False
    offset = told.topics[0].partitions[0].committed_offset
    if offset != OFFSET:
        raise MeasurementFailedError(f"group {group} was at {OFFSET}, and is told {offset}")
    return True
