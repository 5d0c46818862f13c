"""Trio shell of ``quorate quorum``: asks brokers and controllers, and has them change."""

import os
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import trio

from quorate.control.messages import (
    NO_NODE,
    AddVoter,
    DescribeQuorum,
    Hello,
    RemoveVoter,
    TransferLeadership,
    TransferLeadershipAnswer,
)
from quorate.errors import ErrorCode, KafkaError, NetworkError, RequestTimedOutError
from quorate.model import Endpoint
from quorate.net.control import connect_control
from quorate.net.rpc import connect
from quorate.tools.arguments import GlobalOptions
from quorate.tools.controllers import ask_once
from quorate.tools.problems import UNREACHABLE, CommandError, RefusedError, UnreachableError
from quorate.tools.quorum.plans import Plan
from quorate.tools.quorum.view import QuorumView, Said, view_of_answers, view_of_description
from quorate.tools.reaching import (
    asks_controllers,
    client_of,
    controllers_of,
    find_controllers,
    tls_of,
)

CHANGE_TIMEOUT_S: Final = 30.0
"""How long a change may take, unless somebody says so: a new voter has to catch up first."""

DETAILS_TIMEOUT_S: Final = 1.0
"""How long to wait for controllers that only add details to what a broker said."""

POLL_S: Final = 0.1


def wall_clock_ms() -> int:
    """Return the time of day."""
    return time.time_ns() // 1_000_000


async def look(options: GlobalOptions) -> QuorumView:
    """Return how the quorum is, as the controllers of ``-C`` or a broker of ``-b`` see it.

    Raises:
        CommandError: no controller answers, or they belong to different clusters.
        KafkaError: no broker answers, or it refuses.
    """
    if asks_controllers(options):
        return await _look_at_controllers(options)
    async with client_of(options, os.environ).admin() as admin:
        quorum = await admin.describe_quorum()
        cluster = await admin.describe_cluster()
    endpoints = _endpoints((*quorum.voters, *quorum.observers))
    said, _ = await ask_all(endpoints, min(options.timeout_s, DETAILS_TIMEOUT_S), tls_of(options))
    return view_of_description(quorum, said, cluster.cluster_id, wall_clock_ms())


async def _look_at_controllers(options: GlobalOptions) -> QuorumView:
    endpoints = controllers_of(options)
    tls = tls_of(options)
    said, errors = await ask_all(endpoints, options.timeout_s, tls)
    if not said:
        count = len(endpoints)
        raise UnreachableError(
            "the controller does not answer"
            if count == 1
            else f"none of {count} controllers answers",
            why="; ".join(error.message for error in errors.values()),
            hint="are they running there? quorate controller start",
        )
    told = [r for one in said for r in (*one.answer.voters, *one.answer.observers)]
    others = [endpoint for endpoint in _endpoints(told) if endpoint not in endpoints]
    more, _ = await ask_all(others, min(options.timeout_s, DETAILS_TIMEOUT_S), tls)
    clusters = {one.cluster_id for one in said}
    if len(clusters) > 1:
        raise CommandError(
            "these controllers are not of one cluster",
            why="they belong to " + ", ".join(sorted(clusters)),
            hint="-C with the controllers of one of them",
        )
    return view_of_answers([*said, *more], wall_clock_ms())


def _endpoints(replicas: Iterable[Any]) -> list[Endpoint]:
    """Return where replicas listen, each place once."""
    return list(dict.fromkeys(r.endpoint for r in replicas if r.endpoint is not None))


async def ask_all(
    endpoints: Sequence[Endpoint], timeout_s: float, tls: ssl.SSLContext | None
) -> tuple[list[Said], Mapping[Endpoint, KafkaError]]:
    """Ask controllers how the quorum is, all at once; return what they said, and who did not."""
    said: dict[Endpoint, Said] = {}
    errors: dict[Endpoint, KafkaError] = {}

    async def ask(endpoint: Endpoint) -> None:
        try:
            said[endpoint] = await _ask(endpoint, timeout_s, tls)
        except KafkaError as error:
            errors[endpoint] = error

    async with trio.open_nursery() as nursery:
        for endpoint in endpoints:
            nursery.start_soon(ask, endpoint)
    return [said[endpoint] for endpoint in endpoints if endpoint in said], errors


async def _ask(endpoint: Endpoint, timeout_s: float, tls: ssl.SSLContext | None) -> Said:
    """Ask one controller, whether it leads or not.

    Raises:
        KafkaError: it does not answer, or refuses.
    """
    with trio.move_on_after(timeout_s):
        try:
            stream = await connect(endpoint, ssl_context=tls, timeout_ms=int(timeout_s * 1000))
        except NetworkError as error:
            raise NetworkError(f"no controller at {endpoint}: {error.message}") from None
        connection = await connect_control(stream, Hello("", NO_NODE))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            answer = await connection.request(DescribeQuorum(local=True))
            nursery.cancel_scope.cancel()
        hello = connection.controller
        return Said(hello.cluster_id, hello.directory_id, answer)
    raise RequestTimedOutError(f"the controller at {endpoint} did not answer in {timeout_s:g} s")


async def carry_out(options: GlobalOptions, plan: Plan) -> None:
    """Let a replica vote, or not vote any more.

    Raises:
        RefusedError: the controllers say why not.
        KafkaError: nobody answers; it may have been done all the same.
    """
    replica = plan.replica
    try:
        if asks_controllers(options):
            request: Any = RemoveVoter(replica.node_id, replica.directory_id)
            if plan.action == "add":
                request = AddVoter(replica.node_id, replica.directory_id, replica.endpoint)
            endpoints, timeout_s = controllers_of(options), options.patience_s(CHANGE_TIMEOUT_S)
            await ask_once(endpoints, request, timeout_s, tls_of(options))
        else:
            await _carry_out_by_broker(options, plan)
    except KafkaError as error:
        raise _explained(error, f"controller {replica.node_id}", plan.action) from error


async def _carry_out_by_broker(options: GlobalOptions, plan: Plan) -> None:
    replica = plan.replica
    async with client_of(options, os.environ).admin() as admin:
        if plan.action == "remove":
            await admin.remove_raft_voter(replica.node_id, replica.directory_id)
            return
        if replica.endpoint is None:
            raise CommandError(
                f"nobody knows where controller {replica.node_id} listens",
                why="the broker did not say", hint="ask the controllers: -C host:port[,...]",
            )  # fmt: skip
        timeout_ms = int(options.patience_s(CHANGE_TIMEOUT_S) * 1000)
        await admin.add_raft_voter(
            replica.node_id, replica.directory_id, replica.endpoint, timeout_ms=timeout_ms
        )


async def transfer(options: GlobalOptions, before: QuorumView, to: int | None) -> QuorumView:
    """Let another voter lead; return how the quorum is once one does.

    Raises:
        RefusedError: the controllers say why not.
        KafkaError: nobody answers; it may have been done all the same.
    """
    endpoints = await find_controllers(options, os.environ)
    timeout_s = options.patience_s(CHANGE_TIMEOUT_S)
    request = TransferLeadership(NO_NODE if to is None else to)
    try:
        answer: TransferLeadershipAnswer = await ask_once(
            endpoints, request, timeout_s, tls_of(options)
        )
    except KafkaError as error:
        raise _explained(error, "the leadership", "transfer") from error
    with trio.move_on_after(timeout_s):
        while True:
            view = await look(options)
            if view.leader_id is not None and view.leader_epoch > before.leader_epoch:
                return view
            await trio.sleep(POLL_S)
    raise RequestTimedOutError(
        f"controller {before.leader_id} gave up leading for {answer.leader_id}, but nobody leads"
        f" after {timeout_s:g} s"
    )


DONE_AS: Final = {"add": "added", "remove": "removed", "transfer": "handed over"}


def _explained(error: KafkaError, what: str, action: str) -> Exception:
    """Return a controller's refusal in the words of the command; other errors as they are."""
    if error.code in UNREACHABLE or error.code == ErrorCode.NOT_CONTROLLER:
        return error
    return RefusedError(
        f"{what} was not {DONE_AS[action]}",
        why=f"{error.code.name}: {error.message}",
        hint="quorate quorum status shows the voters and how far each is",
    )
