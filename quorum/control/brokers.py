"""Registration, heartbeats, fencing, and blocks of producer ids."""

from collections import deque
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from quorate.control import messages as m
from quorate.control import partition_messages as p
from quorate.dataclass import dataclass
from quorate.errors import (
    DuplicateBrokerRegistrationError,
    ErrorCode,
    InconsistentClusterIdError,
    InvalidRequestError,
    KafkaError,
    StaleBrokerEpochError,
    UnsupportedVersionError,
)
from quorate.quorum.control.decision import Decision, Reason, because
from quorate.quorum.control.elections import (
    MOVED_TOGETHER_MAX,
    lead_waiting,
    on_broker_draining,
    on_broker_leaving,
    on_broker_registered_again,
    on_broker_unable,
    on_broker_unfenced,
    on_broker_unregistered,
    on_brokers_fenced,
)
from quorate.quorum.control.succession import NOBODY, check_level, keeps_elr, knows_unwritable
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.features import supports
from quorate.quorum.metadata.image import BrokerImage, MetadataImage

PRODUCER_ID_BLOCK: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1
INCARNATION_BYTES: Final = 16
REPLACED_REMEMBERED: Final = 1024
UNABLE_MS: Final = 60_000
"""How long it is remembered that a broker could not write, where the metadata do not tell."""


class Sessions:
    """Owns when each broker was last heard of, in memory of the active controller only.

    A controller that has just become active has heard of nobody: it gives everybody a full session.
    It also remembers which processes were replaced by others under their id.
    """

    def __init__(self, active_since_ms: int, timeout_ms: int) -> None:
        self._active_since_ms = active_since_ms
        self._timeout_ms = timeout_ms
        self._heard_ms: dict[int, int] = {}
        self._refused_ms: dict[int, int] = {}
        self._replaced: deque[bytes] = deque(maxlen=REPLACED_REMEMBERED)

    def touch(self, broker_id: int, now_ms: int) -> None:
        """Note that a broker lives."""
        self._heard_ms[broker_id] = now_ms

    def refuse(self, broker_id: int, now_ms: int) -> None:
        """Note that a broker's disk refuses what it is to write."""
        self._refused_ms[broker_id] = now_ms

    def unable(self, now_ms: int) -> frozenset[int]:
        """Return the brokers whose disks are known to have refused something lately."""
        return frozenset(b for b, at_ms in self._refused_ms.items() if now_ms < at_ms + UNABLE_MS)

    def forget(self, broker_id: int) -> None:
        """End a broker's session."""
        self._heard_ms.pop(broker_id, None)

    def end(self, broker_id: int) -> None:
        """Note that a broker lives no more: its process said so, or was seen to be gone."""
        self._heard_ms[broker_id] = self._active_since_ms - self._timeout_ms

    def was_ended(self, broker_id: int) -> bool:
        """Whether a broker is known to live no more, and not only silent."""
        return self._heard_ms.get(broker_id) == self._active_since_ms - self._timeout_ms

    def replace(self, incarnation_id: bytes) -> None:
        """Note that another process took the place of this one."""
        self._replaced.append(incarnation_id)

    def was_replaced(self, incarnation_id: bytes) -> bool:
        """Whether another process took the place of this one, although it still lives."""
        return incarnation_id in self._replaced

    def is_live(self, broker_id: int, now_ms: int) -> bool:
        """Whether a broker was heard of within the session timeout."""
        return now_ms < self._heard_ms.get(broker_id, self._active_since_ms) + self._timeout_ms

    def stale(self, image: MetadataImage, now_ms: int) -> frozenset[int]:
        """Return the brokers in service that were silent for too long."""
        return frozenset(b for b in image.live_broker_ids() if not self.is_live(b, now_ms))


@dataclass(frozen=True, slots=True)
class Now:
    """The time on the two clocks: sessions count on one that never jumps, records tell the day."""

    session_ms: int
    wall_ms: int


def register(
    image: MetadataImage, sessions: Sessions, request: m.RegisterBroker, now: Now
) -> Decision[m.RegisterBrokerAnswer]:
    """Let a broker process in, fenced, under a new epoch.

    If the process before it holds too much for one command, that is moved first. Whoever asks
    again, of whichever controller, goes on with it.

    Raises:
        KafkaError: another cluster's broker, an id that a live process has, or nonsense.
    """
    _check_registration(image, request)
    before = image.brokers.get(request.broker_id)
    if before is not None:
        if _is_repeated(before, request):
            return Decision((), m.RegisterBrokerAnswer(before.broker_epoch))
        _check_takeover(before, sessions, request, now.session_ms)
    reason = Reason(f"broker {request.broker_id} registered", now.wall_ms)
    moved = () if before is None else _lost(image, before, request, reason)
    registered = r.BrokerRegistered(
        cause=reason.cause,
        time_ms=reason.time_ms,
        broker_id=request.broker_id,
        # Versions grow with every batch, so this is greater than every epoch before.
        broker_epoch=image.version + 1,
        incarnation_id=request.incarnation_id,
        directory_id=request.directory_id,
        endpoints=request.endpoints,
        rack=request.rack,
        fenced=True,
        features=request.features,
    )
    answer = m.RegisterBrokerAnswer(registered.broker_epoch)
    if len(moved) >= MOVED_TOGETHER_MAX:
        return Decision(tuple(moved), answer, completes=False)
    return Decision((registered, *moved), answer)


def _lost(
    image: MetadataImage, before: BrokerImage, request: m.RegisterBroker, reason: Reason
) -> list[r.PartitionChanged]:
    """Return what follows from another registration, by what the broker may have lost meanwhile."""
    known = before.directory_id and request.directory_id
    wiped = bool(known) and before.directory_id != request.directory_id
    same_process = before.incarnation_id == request.incarnation_id
    closed = same_process or request.previous_broker_epoch == before.broker_epoch
    if wiped:
        reason = replace(reason, cause=f"{reason.cause} with another directory")
    elif not closed:
        reason = replace(reason, cause=f"{reason.cause} after an unclean stop")
    return on_broker_registered_again(
        image, before.broker_id, reason, forgot=not closed, wiped=wiped
    )


def _check_registration(image: MetadataImage, request: m.RegisterBroker) -> None:
    if request.cluster_id and request.cluster_id != image.cluster_id:
        raise InconsistentClusterIdError(
            f"broker {request.broker_id} belongs to cluster {request.cluster_id}, "
            f"this is {image.cluster_id}"
        )
    if request.broker_id < 0 or len(request.incarnation_id) != INCARNATION_BYTES:
        raise KafkaError("a broker has an id and an incarnation", code=ErrorCode.INVALID_REQUEST)
    if not request.endpoints:
        raise KafkaError("a broker has a listener", code=ErrorCode.INVALID_REGISTRATION)
    for endpoint in request.endpoints.values():
        if not endpoint.can_be_dialed:
            raise KafkaError(
                f"nobody can connect to broker {request.broker_id} at {endpoint}",
                code=ErrorCode.INVALID_REGISTRATION,
            )
    for name, level in image.features.items():
        if not supports(request.features, name, level):
            raise UnsupportedVersionError(
                f"broker {request.broker_id} does not support {name} {level}: upgrade it"
            )


def _is_repeated(before: BrokerImage, request: m.RegisterBroker) -> bool:
    """Whether the answer to the same registration was lost."""
    return (before.incarnation_id, before.endpoints, before.rack, before.features) == (
        request.incarnation_id,
        request.endpoints,
        request.rack,
        request.features,
    )


def _check_takeover(
    before: BrokerImage, sessions: Sessions, request: m.RegisterBroker, now_ms: int
) -> None:
    same_process = before.incarnation_id == request.incarnation_id
    same_directory = bool(request.directory_id) and before.directory_id == request.directory_id
    # A copied directory has two owners: they must not throw each other out for ever.
    restarted = same_directory and not sessions.was_replaced(request.incarnation_id)
    if same_process or restarted or not sessions.is_live(before.broker_id, now_ms):
        return
    where = ", ".join(map(str, before.endpoints.values()))
    raise DuplicateBrokerRegistrationError(
        f"another broker with id {request.broker_id} is alive, or was until a moment ago, at"
        f" {where}: stop one of the two"
    )


def heartbeat(
    image: MetadataImage,
    request: m.BrokerHeartbeat,
    now_ms: int,
    *,
    unable: AbstractSet[int] = NOBODY,
) -> Decision[m.BrokerHeartbeatAnswer]:
    """Take a broker into service once it has caught up, or out of it if it asks for that.

    One that cannot write stays in service for those who read, but others lead as far as they can,
    until it says that it can. Where not every node knows that, all that happens is that others
    lead, but for those who are known to be ``unable``, too.

    Raises:
        KafkaError: the broker is not registered, or was registered again since; or it was told
            what the image lacks, so one of the two is of another past.
    """
    broker = known_broker(image, request.broker_id, request.broker_epoch)
    if request.metadata_version > image.version:
        raise InconsistentClusterIdError(
            f"broker {request.broker_id} was told metadata up to version {request.metadata_version}"
            f", and the controllers' end at {image.version}: theirs are an older copy, or new"
        )
    caught_up = request.metadata_version >= broker.broker_epoch
    records: tuple[r.MetadataRecord, ...] = ()
    if request.wants_shut_down and not request.wants_fence:
        return _shut_down(image, broker, now_ms, caught_up=caught_up)
    if request.wants_fence and not broker.fenced:
        cause = f"broker {broker.broker_id} asked to be fenced"
        records = _fence(image, frozenset({broker.broker_id}), cause, now_ms)
    elif broker.fenced and caught_up and not request.wants_fence:
        records = _unfence(image, broker, now_ms)
    elif request.cannot_write and not knows_unwritable(image):
        reason = Reason(f"broker {broker.broker_id} cannot write", now_ms)
        moved = on_broker_unable(image, broker.broker_id, reason, unable)
        records = tuple(moved[:MOVED_TOGETHER_MAX])
    elif request.cannot_write or broker.cannot_write:
        records = _written_to(image, broker, now_ms, cannot_write=request.cannot_write)
    fences = not records or _completes(records)
    answer = m.BrokerHeartbeatAnswer(
        fenced=(request.wants_fence and fences) or not caught_up,
        caught_up=caught_up,
        should_shut_down=request.wants_shut_down and fences,
    )
    return Decision(records, answer)


def _written_to(
    image: MetadataImage, broker: BrokerImage, now_ms: int, *, cannot_write: bool
) -> tuple[r.MetadataRecord, ...]:
    """Return what follows from a broker's being able to write, or not.

    Nothing does if it is the only one; and then its disk may be the controller's as well, which
    need not stop for that.
    """
    if cannot_write and len(image.brokers) == 1:
        return ()
    what = "cannot write" if cannot_write else "can write again"
    reason = Reason(f"broker {broker.broker_id} {what}", now_ms)
    moved = on_broker_unable(image, broker.broker_id, reason) if cannot_write else []
    if broker.cannot_write == cannot_write:
        return tuple(moved[:MOVED_TOGETHER_MAX])
    changed = _changed(broker, reason, cannot_write=cannot_write)
    return (changed, *moved[:MOVED_TOGETHER_MAX])


def _shut_down(
    image: MetadataImage,
    broker: BrokerImage,
    now_ms: int,
    *,
    caught_up: bool,
) -> Decision[m.BrokerHeartbeatAnswer]:
    """Let a broker stop: its leaders move first, and once there is nothing to move, it is fenced.

    It asks again and again meanwhile.
    """
    if broker.fenced:
        return Decision(
            (), m.BrokerHeartbeatAnswer(fenced=True, caught_up=caught_up, should_shut_down=True)
        )
    reason = Reason(f"broker {broker.broker_id} shuts down", now_ms)
    if keeps_elr(image):
        moved: list[r.MetadataRecord] = [*on_broker_leaving(image, broker.broker_id, reason)]
        if moved:
            if not broker.shutting_down:
                moved.insert(0, _changed(broker, reason, shutting_down=True))
            return Decision(
                tuple(moved), m.BrokerHeartbeatAnswer(fenced=False, caught_up=caught_up)
            )
    records = _fence(image, frozenset({broker.broker_id}), reason.cause, now_ms)
    fenced = _completes(records)
    return Decision(
        records,
        m.BrokerHeartbeatAnswer(fenced=fenced, caught_up=caught_up, should_shut_down=fenced),
    )


def _changed(
    broker: BrokerImage,
    reason: Reason,
    *,
    shutting_down: bool | None = None,
    draining: bool | None = None,
    cannot_write: bool | None = None,
) -> r.BrokerChanged:
    return r.BrokerChanged(
        cause=reason.cause,
        time_ms=reason.time_ms,
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        shutting_down=shutting_down,
        draining=draining,
        cannot_write=cannot_write,
    )


def change_broker(
    image: MetadataImage, request: p.ChangeBroker, now_ms: int
) -> Decision[p.ChangeBrokerAnswer]:
    """Drain a broker, or call that off; then its leaders come back as they are balanced.

    Raises:
        KafkaError: it is not registered, or not every node knows of draining yet.
    """
    check_level(image, "draining a broker")
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise _not_registered(request.broker_id)
    if broker.draining == request.draining:
        return Decision((), p.ChangeBrokerAnswer())
    what = "drained" if request.draining else "put back to work"
    reason = because(f"broker {broker.broker_id} was {what}", request.principal, now_ms)
    moved = on_broker_draining(image, broker.broker_id, reason) if request.draining else []
    changed = _changed(broker, reason, draining=request.draining)
    return Decision((changed, *moved), p.ChangeBrokerAnswer())


def fence_stale(image: MetadataImage, sessions: Sessions, now: Now) -> tuple[r.MetadataRecord, ...]:
    """Fence the brokers whose sessions are over, all together; return nothing if there are none.

    If they hold too much for one command, there is more to do afterwards.
    """
    stale = sessions.stale(image, now.session_ms)
    if not stale:
        return ()
    cause = "broker session expired"
    if all(map(sessions.was_ended, stale)):
        cause = (
            f"broker {min(stale)} is gone" if len(stale) == 1 else f"{len(stale)} brokers are gone"
        )
    return _fence(image, stale, cause, now.wall_ms)


def lead_what_waits(
    image: MetadataImage, sessions: Sessions, broker_ids: frozenset[int], now: Now
) -> tuple[r.MetadataRecord, ...]:
    """Have brokers lead what still waits for them since they are in service, if it was much.

    If it is too much for one command, there is more to do afterwards.
    """
    if not broker_ids:
        return ()
    reason = Reason("its brokers are in service", now.wall_ms)
    return tuple(lead_waiting(image, broker_ids, sessions.stale(image, now.session_ms), reason))


def unregister(
    image: MetadataImage, request: m.UnregisterBroker, now_ms: int
) -> Decision[m.UnregisterBrokerAnswer]:
    """Take a broker out of the cluster; its replicas stay assigned to it.

    Kafka takes out brokers in service, too, which then register again: for nothing, and what they
    alone held would wait for an operator.

    Raises:
        KafkaError: it is not registered, or in service.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise _not_registered(request.broker_id)
    if not broker.fenced:
        raise InvalidRequestError(f"broker {broker.broker_id} is in service: stop it first")
    reason = Reason(f"broker {broker.broker_id} was unregistered", now_ms)
    moved = on_broker_unregistered(image, broker.broker_id, reason)
    if len(moved) >= MOVED_TOGETHER_MAX:
        return Decision(tuple(moved), m.UnregisterBrokerAnswer(), completes=False)
    gone = r.BrokerUnregistered(reason.cause, now_ms, broker.broker_id, broker.broker_epoch)
    return Decision((*moved, gone), m.UnregisterBrokerAnswer())


def allocate_producer_ids(
    image: MetadataImage, request: m.AllocateProducerIds, now_ms: int
) -> Decision[m.AllocateProducerIdsAnswer]:
    """Give a broker the next block of producer ids; no id is ever given twice.

    Raises:
        KafkaError: the broker is not registered, or was registered again since.
    """
    broker = known_broker(image, request.broker_id, request.broker_epoch)
    first = image.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK:
        raise KafkaError("all producer ids are used up")
    taken = r.ProducerIdsAllocated(
        cause=f"broker {broker.broker_id} needed producer ids",
        time_ms=now_ms,
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK,
    )
    return Decision((taken,), m.AllocateProducerIdsAnswer(first, PRODUCER_ID_BLOCK))


def known_broker(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """Return the broker that asks for something.

    Raises:
        KafkaError: it is not registered, or was registered again since.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise _not_registered(broker_id)
    if broker.broker_epoch != broker_epoch:
        raise StaleBrokerEpochError(
            f"broker {broker_id} has epoch {broker.broker_epoch} now, not {broker_epoch}"
        )
    return broker


def _not_registered(broker_id: int) -> KafkaError:
    message = f"broker {broker_id} is not registered"
    return KafkaError(message, code=ErrorCode.BROKER_ID_NOT_REGISTERED)


def _fence(
    image: MetadataImage, broker_ids: frozenset[int], cause: str, now_ms: int
) -> tuple[r.MetadataRecord, ...]:
    """Take brokers out of service, once there is nothing left to move away from them.

    If it takes several commands to move it, they do not give it to each other meanwhile.
    """
    moved = on_brokers_fenced(image, broker_ids, Reason(cause, now_ms))
    if len(moved) >= MOVED_TOGETHER_MAX:
        return tuple(moved)
    fenced = [
        r.BrokerFenced(cause, now_ms, broker_id, image.brokers[broker_id].broker_epoch)
        for broker_id in sorted(broker_ids)
    ]
    return (*fenced, *moved)


def _completes(records: tuple[r.MetadataRecord, ...]) -> bool:
    """Return whether these records change what a broker is, after all that follows from it."""
    return not isinstance(records[0], r.PartitionChanged)


def _unfence(
    image: MetadataImage, broker: BrokerImage, now_ms: int
) -> tuple[r.MetadataRecord, ...]:
    reason = Reason(f"broker {broker.broker_id} has caught up", now_ms)
    unfenced = r.BrokerUnfenced(reason.cause, now_ms, broker.broker_id, broker.broker_epoch)
    return (unfenced, *on_broker_unfenced(image, broker.broker_id, reason))
