"""Directed scenarios: what random faults hit rarely, step by step.

Each ends with the state in which a certain bug would have lost something; that it did not is for
the checkers to say.  All suppose that a broker's session lasts for seconds.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from quorate.jepsen.clients.wire import Client, ClosedError
from quorate.jepsen.lab.cluster import NOBODY
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.lab.namespaces import CLIENTS
from quorate.jepsen.nemesis import directed_nodes
from quorate.jepsen.nemesis.fault import Family, Variant
from quorate.jepsen.nemesis.stage import (
    GROUPS,
    TRANSACTIONS,
    Cast,
    Directed,
    NotReachedError,
    Play,
    Stage,
)
from quorate.model import Endpoint
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.placement import ElectLeadersRequest, TopicPartitions

SESSION_S_MAX: Final = 12.0
"""So long it may take until a silent broker is taken out of service."""
LEADER_S_MAX: Final = 15.0
JOIN_S_MAX: Final = 30.0
ASLEEP_S: Final = 1.0
"""Long enough for acknowledgements, and shorter than any session."""
UNFOLLOWED_S: Final = 3.0
"""Long enough for consumers that are slow to read to a log's end."""
GAP_S: Final = 3.0
"""Half as long as a follower may lag in the proof of early joiners."""
TOLD_S: Final = 0.5
FETCHED_S: Final = 1.0
TAKEN_IN_S_MAX: Final = 15.0
UNMARKED: Final = 3
ELECT_VERSION: Final = 2


def sleeping_followers(stage: Stage) -> str:
    """Let a leader alone have some records, then kill it before anybody else has them."""
    cast = stage.cast()
    for follower in cast.others:
        follower.pause()
    stage.load(ASLEEP_S)
    cast.leader.kill()
    for follower in cast.others:
        follower.resume()
    _wait_for_another(stage, cast)
    return f"{cast.leader.name} was killed while its followers slept; another leads"


def unfollowed_leader(stage: Stage) -> str:
    """Let a leader whom nobody can follow have records that consumers could read, then kill it."""
    network = stage.network
    cast = stage.cast()
    network.cut(stage.apart([cast.leader], cast.others))
    stage.load(UNFOLLOWED_S)
    cast.leader.kill()
    stage.heal(hard=True)
    _wait_for_another(stage, cast)
    return f"{cast.leader.name} was killed after a while without followers; another leads"


def lonely_coordinators(stage: Stage) -> str:
    """Kill a coordinator of groups that its followers have not heard for a moment, three times.

    They serve groups of their own meanwhile: clients are not held up.
    """
    network = stage.network
    for _ in range(3):
        cast = stage.cast(of=GROUPS)
        followers = list(cast.others)
        network.cut(
            stage.between([cast.leader], followers) | stage.between(followers, [cast.leader])
        )
        stage.load(ASLEEP_S)
        cast.leader.kill()
        stage.heal(hard=True)
        _wait_for_another(stage, cast)
        stage.load(ASLEEP_S)
        cast.leader.start()
        _wait_for_join(stage, cast)
    return "three coordinators were killed that nobody followed for a moment"


def unmarked_transactions(stage: Stage) -> str:
    """Kill a coordinator of transactions that has decided, and cannot tell who has the records.

    That one sleeps, and leads on: the next coordinator has to tell it. Three times, for what is
    under way at a moment need not concern both.
    """
    for _ in range(UNMARKED):
        cast = stage.cast(of=TRANSACTIONS)
        sleeper, *awake = cast.others
        sleeper.pause()
        is_left_out = partial(stage.has_isr, cast.leader, cast.partition, [cast.leader, *awake])
        stage.until("the ISR keeps who sleeps", SESSION_S_MAX, is_left_out)
        stage.load(ASLEEP_S)
        cast.leader.kill()
        sleeper.resume()
        _wait_for_another(stage, cast)
        stage.load(ASLEEP_S)
        cast.leader.start()
        _wait_for_join(stage, cast)
    return "three coordinators were killed that could not end what they had decided"


def killed_leader(stage: Stage) -> str:
    """Kill a leader, twice."""
    for _ in range(2):
        cast = stage.cast()
        cast.leader.kill()
        _wait_for_another(stage, cast)
        cast.leader.start()
        _wait_for_join(stage, cast)
    return "two leaders were killed, and others led"


def sleeping_leader(stage: Stage) -> str:
    """Stop a leader for longer than its session with requests in its socket, twice."""
    for _ in range(2):
        cast = stage.cast()
        cast.leader.pause()
        _wait_for_another(stage, cast)
        stage.load(ASLEEP_S)
        cast.leader.resume()
        _wait_for_join(stage, cast)
    return "two leaders slept through their successors' elections"


def unheard_leader(stage: Stage) -> str:
    """Kill a leader that clients have heard nothing of for a moment: what it has, they send again.

    Where the network cannot keep them apart, what they have not heard of is what was under way.
    """
    network = stage.network
    cast = stage.cast()
    if network.has_clients:
        network.cut([(stage.place(cast.leader), CLIENTS)])
        stage.load(ASLEEP_S)
    cast.leader.kill()
    stage.heal(hard=True)
    _wait_for_another(stage, cast)
    cast.leader.start()
    _wait_for_join(stage, cast)
    return f"{cast.leader.name} was killed when clients lacked its answers, and another led"


def last_in_sync(stage: Stage) -> str:
    """Roll the ISR down to the leader, write, kill it, and let only the others be there."""
    cast = stage.cast()
    for follower in cast.others:
        follower.pause()
    stage.until(
        "the ISR keeps others",
        SESSION_S_MAX,
        lambda: stage.has_isr(cast.leader, cast.partition, [cast.leader]),
    )
    stage.load(ASLEEP_S)
    cast.leader.kill()
    for follower in cast.others:
        follower.resume()
    # Nobody may lead now. Whoever does all the same takes records, which makes it worse.
    wrong = stage.comes(3.0, lambda: stage.is_led_by_another(cast.partition, cast.leader))
    stage.load(ASLEEP_S if wrong else 0.0)
    return f"only {cast.leader.name} was in sync when it was killed"


def isolated_leader(stage: Stage) -> str:
    """Cut a leader off from the controllers, not from clients and followers."""
    network = stage.network
    cast = stage.cast()
    controllers = list(stage.lab.controllers)
    alone = stage.between([cast.leader], controllers) | stage.between(controllers, [cast.leader])
    network.cut(alone)
    _wait_for_another(stage, cast)
    # As long as any lag: by now it knows that nobody follows.
    stage.load(4.0)
    stage.heal(hard=stage.rng.random() < 0.5)
    return f"{cast.leader.name} led on for seconds beside its successor"


def unheard_expansion(stage: Stage) -> str:
    """Have the controller take a follower in without its leader hearing of it.

    Then the leader writes without that follower, and dies.
    """
    network = stage.network
    cast = stage.cast()
    joiner, *others = cast.others
    for follower in cast.others:
        follower.pause()
    stage.until(
        "the ISR keeps others",
        SESSION_S_MAX,
        lambda: stage.leads_alone(cast.leader),  # or another change is under way, and holds it up
    )
    network.cut(stage.between(list(stage.lab.controllers), [cast.leader]))
    joiner.resume()
    stage.until(
        "the follower is not taken in",
        SESSION_S_MAX,
        lambda: stage.has_isr(joiner, cast.partition, [cast.leader, joiner]),
    )
    joiner.pause()
    stage.load(ASLEEP_S)
    cast.leader.kill()
    joiner.resume()
    stage.heal(hard=True)
    stage.until(
        "the follower does not lead",
        LEADER_S_MAX,
        lambda: stage.leads(joiner, cast.partition, joiner),
    )
    stage.load(ASLEEP_S)
    del others  # they sleep until the end
    return f"{joiner.name} was in sync, and {cast.leader.name} had not heard of it"


def early_joiner(stage: Stage) -> str:
    """Have a new leader that does not know what is committed see a follower that lacks it.

    What the leader's heirs had while one follower did not is committed as soon as that one is given
    up, of which they do not hear. Then the leader dies, and whoever leads waits for the other heir.
    """
    network = stage.proxy
    cast = stage.cast(others_min=3)
    *heirs, joiner = cast.others
    behind = stage.apart([cast.leader], [joiner])
    network.cut(behind)
    stage.load(GAP_S)
    network.cut(behind | stage.apart([cast.leader], heirs))
    stage.until(
        "the ISR keeps who is cut off",
        SESSION_S_MAX,
        lambda: stage.has_isr(cast.leader, cast.partition, [cast.leader, *heirs]),
    )
    stage.load(TOLD_S)
    cast.leader.kill()
    heirs_apart = stage.between(heirs, heirs)
    fetched = stage.between(heirs, [joiner])
    network.slow(dict.fromkeys(fetched, FETCHED_S))
    network.cut(heirs_apart)
    _wait_for_another(stage, cast)
    if not stage.comes(TAKEN_IN_S_MAX, lambda: _is_in_sync(stage, heirs, cast.partition, joiner)):
        return f"{joiner.name} was not taken in as long as it lacked something"
    network.cut(heirs_apart | fetched)
    for heir in heirs:
        heir.kill()
    stage.heal(hard=True)
    stage.until(
        "the follower does not lead",
        LEADER_S_MAX,
        lambda: stage.leads(joiner, cast.partition, joiner),
    )
    stage.load(ASLEEP_S)
    return f"{joiner.name} lacked what was committed when {cast.leader.name} died"


def wiped_joiner(stage: Stage) -> str:
    """Replace a follower's disk while its leader's wish to have it in sync is on its way."""
    network = stage.network
    cast = stage.cast()
    joiner, *others = cast.others
    for follower in cast.others:
        follower.pause()
    stage.until(
        "the ISR keeps others",
        SESSION_S_MAX,
        lambda: stage.has_isr(cast.leader, cast.partition, [cast.leader]),
    )
    network.cut(stage.between([cast.leader], list(stage.lab.controllers)))
    joiner.resume()
    stage.load(ASLEEP_S)  # it catches up, and is proposed
    joiner.kill()
    joiner.wipe()
    nothing_to_fetch = stage.between([cast.leader], [joiner])
    network.cut(nothing_to_fetch | stage.between([cast.leader], list(stage.lab.controllers)))
    joiner.start()
    stage.until(
        "who was wiped does not come back",
        JOIN_S_MAX,
        lambda: stage.seen_by(joiner, cast.partition) is not None,
    )
    network.cut(nothing_to_fetch)
    # The request that waited may have to be made anew.
    wrong = stage.comes(15.0, lambda: stage.has_isr(joiner, cast.partition, [cast.leader, joiner]))
    if wrong:
        cast.leader.kill()
        stage.comes(LEADER_S_MAX, lambda: stage.leads(joiner, cast.partition, joiner))
    del others  # they sleep until the end
    return f"{joiner.name} lost its disk while it was about to be in sync"


def unreachable_successor(stage: Stage) -> str:
    """Kill a leader and stop its successor: the next one follows nobody, then leads.

    It does not know how much of what it has is committed: its leader could not tell it any more.
    """
    network = stage.network
    cast = stage.cast()
    successor, *others = cast.others
    network.cut(stage.between([cast.leader], others))
    stage.load(TOLD_S)
    successor.pause()
    cast.leader.kill()
    stage.until(
        "no other leader",
        SESSION_S_MAX,
        lambda: any(stage.leads(other, cast.partition, successor) for other in others),
    )
    stage.until(
        "the successor is not replaced",
        SESSION_S_MAX,
        lambda: any(stage.leads(other, cast.partition, other) for other in others),
    )
    stage.load(ASLEEP_S)
    successor.resume()
    return f"{successor.name} led after {cast.leader.name} without anybody reaching it"


def late_shrink(stage: Stage) -> str:
    """Have a deposed leader that hears of nothing change the ISR of its successor.

    It may have another change under way when it comes to this one; so there are two of them.
    """
    cast = _second_leader(stage)
    if not _shrinks_late(stage, cast):
        stage.heal(hard=True)
        _wait_for_join(stage, cast)
        cast = _second_leader(stage)
        _shrinks_late(stage, cast)
    first = cast.others[0]
    first.kill()
    stage.heal(hard=True)
    stage.until(
        "no other leader", LEADER_S_MAX, lambda: stage.is_led_by_another(cast.partition, first)
    )
    stage.load(ASLEEP_S)
    return f"{cast.leader.name} did not know that it was deposed, and still talked to controllers"


def _shrinks_late(stage: Stage, cast: Cast) -> bool:
    """Depose a leader that sleeps and hears of nothing, wake it, and see if it is listened to."""
    network = stage.network
    first, *others = cast.others
    cast.leader.pause()
    network.cut(stage.between(list(stage.lab.controllers), [cast.leader]))
    _elect_preferred(first, cast.partition)
    stage.until(
        "the first replica does not lead",
        LEADER_S_MAX,
        lambda: stage.leads(first, cast.partition, first),
    )
    stage.until(
        "the ISR keeps who sleeps",
        SESSION_S_MAX,
        lambda: stage.has_isr(first, cast.partition, [first, *others]),
    )
    stage.load(ASLEEP_S)
    cast.leader.resume()
    # It finds that nobody follows it, and says so to a controller that should not listen.
    return stage.comes(3.0, lambda: _is_in_sync(stage, [first], cast.partition, cast.leader))


def _is_in_sync(stage: Stage, asked: Sequence[Host], partition: str, whom: Host) -> bool:
    """Whether one of some brokers says that another is in sync."""
    seen = [stage.seen_by(host, partition) for host in asked]
    return any(state is not None and whom.node_id in state.in_sync for state in seen)


def _second_leader(stage: Stage) -> Cast:
    """Return a cast whose leader is not the first replica."""
    cast = stage.cast()
    if cast.leader.node_id != _replicas(stage, cast)[0]:
        return cast
    cast.leader.kill()
    _wait_for_another(stage, cast)
    cast.leader.start()
    _wait_for_join(stage, cast)
    state = stage.lab.view().partitions[cast.partition]
    leader = stage.lab.host(state.leader)
    hosts = [stage.lab.host(node_id) for node_id in state.replicas]
    if leader is None or leader is cast.leader:
        raise NotReachedError("the first replica leads again")
    others = tuple(host for host in hosts if host is not None and host is not leader)
    return Cast(cast.partition, leader, others)


def _replicas(stage: Stage, cast: Cast) -> tuple[int, ...]:
    return stage.lab.view().partitions[cast.partition].replicas


def _elect_preferred(asked: Host, partition: str) -> None:
    """Have the first replica of a partition lead.

    Raises:
        NotReachedError: the broker that is asked to see to it does not.
    """
    topic, _, index = partition.rpartition("-")
    wanted = TopicPartitions(topic=topic, partitions=[int(index)])
    request = ElectLeadersRequest(election_type=0, topic_partitions=[wanted])
    try:
        with Client(Endpoint(*asked.address)) as client:
            answer: Any = client.ask(ApiKey.ELECT_LEADERS, ELECT_VERSION, request)
    except ClosedError as error:
        raise NotReachedError("no election") from error
    if answer.error_code:
        raise NotReachedError("no election")


def _wait_for_another(stage: Stage, cast: Cast) -> None:
    """Wait until somebody else leads a partition."""
    stage.until(
        "no other leader",
        LEADER_S_MAX,
        lambda: stage.is_led_by_another(cast.partition, cast.leader),
    )


def _wait_for_join(stage: Stage, cast: Cast) -> None:
    """Wait until all replicas of a partition are in sync, and it is led."""

    def is_whole() -> bool:
        state = stage.lab.view().partitions.get(cast.partition)
        return (
            state is not None
            and state.leader != NOBODY
            and state.in_sync == frozenset(state.replicas)
        )

    stage.until("not all replicas are in sync", JOIN_S_MAX, is_whole)


PLAYS: Final[dict[str, Play]] = {
    "sleeping-followers": sleeping_followers,
    "unfollowed-leader": unfollowed_leader,
    "lonely-coordinators": lonely_coordinators,
    "unmarked-transactions": unmarked_transactions,
    "killed-leader": killed_leader,
    "sleeping-leader": sleeping_leader,
    "unheard-leader": unheard_leader,
    "last-in-sync": last_in_sync,
    "isolated-leader": isolated_leader,
    "unheard-expansion": unheard_expansion,
    "early-joiner": early_joiner,
    "wiped-joiner": wiped_joiner,
    "unreachable-successor": unreachable_successor,
    "late-shrink": late_shrink,
    **directed_nodes.PLAYS,
}


def _variant(play: Play) -> Variant:
    return Variant(1, lambda: Directed(play))


DIRECTED: Final = Family(
    "directed",
    "scenarios that aim at one bug each, step by step",
    {name: _variant(play) for name, play in PLAYS.items()},
    needs=("cc",),
    equipment=("network",),
)
