"""Directed scenarios for controllers, and for what is on one broker's disk."""

from collections.abc import Callable, Sequence
from typing import Final

from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.nemesis.fault import NotNowError
from quorate.jepsen.nemesis.stage import NotReachedError, Play, Stage, last_segment

LEADER_S_MAX: Final = 15.0
JOIN_S_MAX: Final = 30.0
CHANGES_S: Final = 1.5
FOLLOWERS: Final = 2
VOTES: Final = 2
"""So that the candidate has a term that others have not, even one after their next."""
LATE_S: Final = 0.3
"""Shorter than any patience of a candidate, longer than it takes to look who has voted."""
ELECTED_S_MAX: Final = 3.0
ROUNDS: Final = 2
DECIDED_S: Final = 3.0
"""Longer than clients wait for who was cut off, and write elsewhere."""
TURNED_S: Final = 7.0
"""Longer than clients wait for who was stopped."""
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


def forgotten_votes(stage: Stage) -> str:
    """Have a controller vote, and come back, before it has an entry of the term it voted in.

    It votes twice for a candidate that nobody then hears of. If it has forgotten that, it helps
    another to decide in a term that is older than what the candidate has, which then may undo it.
    """
    network = stage.proxy
    first = _active(stage)
    followers = [host for host in stage.lab.controllers if host is not first]
    if len(followers) != FOLLOWERS:
        raise NotNowError("this takes three controllers")
    voter, candidate = stage.rng.sample(followers, FOLLOWERS)
    stage.note([voter, candidate, first])
    voter.kill()
    stage.load(CHANGES_S)  # who has more than the voter is the only candidate
    first.kill()
    late = dict.fromkeys(stage.between([candidate], [voter]), LATE_S)
    for _ in range(VOTES):
        network.slow(late)
        network.cut(())
        _vote(stage, voter, candidate)
    network.slow({})
    network.cut(stage.apart([candidate], [voter, first]))
    voter.start()
    first.start()
    stage.until("no controller", LEADER_S_MAX, _one_leads(stage, [voter, first]))
    stage.load(CHANGES_S)
    first.kill()
    voter.kill()
    stage.heal(hard=True)
    voter.start()
    stage.until("no controller", LEADER_S_MAX, _one_leads(stage, [voter, candidate]))
    stage.load(CHANGES_S)
    return f"{voter.name} voted for {candidate.name}, which nobody heard, and twice came back"


def _vote(stage: Stage, voter: Host, candidate: Host) -> None:
    """Start a voter, and kill it as soon as its vote has made a leader that it does not hear."""
    before = stage.quorum_of(candidate)
    if before is None:
        raise NotReachedError("the candidate does not answer")
    voter.start()

    def has_voted() -> bool:
        said = stage.quorum_of(voter)
        return said is not None and said.leader_epoch > before.leader_epoch

    stage.until("nobody votes", LEADER_S_MAX, has_voted)
    stage.network.cut(stage.between([candidate], [voter]))
    stage.until("the vote is not counted", ELECTED_S_MAX, _one_leads(stage, [candidate]))
    voter.kill()


def _one_leads(stage: Stage, hosts: Sequence[Host]) -> Callable[[], bool]:
    """Return whether one of these controllers says that it leads itself."""

    def holds() -> bool:
        said = [(host, stage.quorum_of(host)) for host in hosts]
        return any(each is not None and each.leader_id == host.node_id for host, each in said)

    return holds


def isolated_controller(stage: Stage) -> str:
    """Cut the active controller off from the others, not from brokers, again and again.

    When others have decided without it, they are stopped, so that clients turn to it again.
    """
    network = stage.network
    for _ in range(ROUNDS):
        active = _active(stage)
        stage.note([active])
        others = [host for host in stage.lab.controllers if host is not active]
        network.cut(stage.apart([active], others))
        stage.until("no other controller", LEADER_S_MAX, _another_is_active(stage, active))
        stage.load(DECIDED_S)
        for host in others:
            host.pause()
        stage.load(TURNED_S)
        for host in others:
            host.resume()
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
    "forgotten-votes": forgotten_votes,
    "isolated-controller": isolated_controller,
    "torn-tail": torn_tail,
}
