"""Directed scenarios for controllers, and for what is on one broker's disk."""

from collections.abc import Callable
from typing import Final

from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.nemesis.fault import NotNowError
from quorate.jepsen.nemesis.stage import NotReachedError, Play, Stage, last_segment

LEADER_S_MAX: Final = 15.0
JOIN_S_MAX: Final = 30.0
CHANGES_S: Final = 1.5
ROUNDS: Final = 3
TAIL_BYTES: Final = 64
"""Where, before the end of a log, a byte is turned: within the value of the last record."""


def _active(stage: Stage) -> Host:
    """Return the controller that decides.

    Raises:
        NotNowError: there is none now.
    """
    active = stage.lab.active_controller()
    if active is None or not active.answers:
        raise NotNowError("no controller is active")
    return active


def _another_is_active(stage: Stage, than: Host) -> Callable[[], bool]:
    def holds() -> bool:
        active = stage.lab.active_controller()
        return active is not None and active is not than

    return holds


def _somebody_is_active(stage: Stage) -> bool:
    return stage.lab.active_controller() is not None


def forgotten_terms(stage: Stage) -> str:
    """Have controllers come back in a term, decide without one, then let that one lead.

    A controller that forgets its term decides in one that is older than what the absent one has.
    """
    first = _active(stage)
    stage.note(list(stage.lab.controllers))
    # Terms must have grown: the first one is the same after all is forgotten.
    for _ in range(2):
        first.kill()
        stage.until("no other controller", LEADER_S_MAX, _another_is_active(stage, first))
        first.start()
        stage.load(CHANGES_S)
        first = _active(stage)
    absent, *others = [host for host in stage.lab.controllers if host is not first] + [first]
    absent.kill()
    _restart(stage, others)
    stage.load(CHANGES_S)
    for host in others:
        host.kill()
    absent.start()
    others[0].start()
    stage.until("no controller", LEADER_S_MAX, lambda: _somebody_is_active(stage))
    stage.load(CHANGES_S)
    return f"{absent.name} came back with less than a majority had decided meanwhile"


def _restart(stage: Stage, hosts: list[Host]) -> None:
    for host in hosts:
        host.kill()
    for host in hosts:
        host.start()
    stage.until("no controller", LEADER_S_MAX, lambda: _somebody_is_active(stage))


def isolated_controller(stage: Stage) -> str:
    """Cut the active controller off from the others, not from brokers, again and again."""
    network = stage.network
    for _ in range(ROUNDS):
        active = _active(stage)
        stage.note([active])
        others = [host for host in stage.lab.controllers if host is not active]
        network.cut(stage.between([active], others) | stage.between(others, [active]))
        stage.until("no other controller", LEADER_S_MAX, _another_is_active(stage, active))
        stage.load(CHANGES_S)
        stage.heal(hard=stage.rng.random() < 0.5)
        stage.load(CHANGES_S)
    return f"{ROUNDS} active controllers were cut off from the others while others were elected"


def torn_tail(stage: Stage) -> str:
    """Turn a byte at the end of a follower's log while it is dead: a write that was torn."""
    cast = stage.cast()
    follower = stage.rng.choice(cast.others)
    follower.kill()
    log = last_segment(follower, cast.partition)
    data = bytearray(b"" if log is None else log.read_bytes())
    if log is None or len(data) < TAIL_BYTES:
        raise NotReachedError("the log is empty")
    data[-TAIL_BYTES] ^= 0xFF
    log.write_bytes(data)
    follower.start()
    stage.until(
        "the follower is not in sync again",
        JOIN_S_MAX,
        lambda: stage.has_isr(cast.leader, cast.partition, [cast.leader, *cast.others]),
    )
    return f"the last batch in {cast.partition} of {follower.name} was damaged"


PLAYS: Final[dict[str, Play]] = {
    "forgotten-terms": forgotten_terms,
    "isolated-controller": isolated_controller,
    "torn-tail": torn_tail,
}
