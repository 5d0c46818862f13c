"""Trio shell of a controller's first start: hears the others, until its cluster is known."""

import logging
import math
from collections.abc import Sequence
from typing import Final

import trio

from quorate.control.frames import Frame
from quorate.control.messages import Answer, Hello, HelloAnswer, Member, Purpose
from quorate.dataclass import dataclass
from quorate.errors import KafkaError, NetworkError, NotControllerError, QuorateError
from quorate.model import Endpoint
from quorate.net.control import ControlStream, introduce
from quorate.quorum.control.greeting import common_version
from quorate.quorum.directory import ControllerDirectory
from quorate.quorum.quorum_requests import members_of
from quorate.quorum.raft.forming import Found, Introduction, Join, Refuse, Wait, form
from quorate.quorum.raft.voters import DIRECTORY_ID_BYTES, NO_VOTERS, ReplicaKey, Voter, VoterSet
from quorate.quorum.raft_mesh import Connect

logger: Final = logging.getLogger(__name__)

ASK_TIMEOUT_S: Final = 2.0
ASK_EVERY_S: Final = 0.1
PATIENCE_S: Final = 2.0
"""How long it goes without saying that one waits for the others."""


class FormingError(QuorateError):
    """No cluster comes about like this; the message is for the person who started it."""


@dataclass(frozen=True, slots=True)
class FormingPlan:
    """What a controller is told for its first start.

    ``addresses`` are those of all controllers, ``cluster_id`` is which cluster it shall be
    (``None`` for any), and others reach it at ``endpoint``.
    """

    addresses: Sequence[Endpoint]
    cluster_id: str | None
    endpoint: Endpoint


class Forming:
    """A controller that is in no cluster yet: owns what the others said so far."""

    def __init__(self, directory: ControllerDirectory, plan: FormingPlan, connect: Connect) -> None:
        self._directory = directory
        self._plan = plan
        self._connect = connect
        self._heard: dict[Endpoint, Introduction | None] = dict.fromkeys(plan.addresses)
        self._news = trio.Event()

    async def run(self) -> None:
        """Hear the others until it is known which cluster this is, and format the directory.

        Raises:
            FormingError: it will not work out, and why.
            ControllerDirectoryError: the directory cannot be written.
        """
        async with trio.open_nursery() as nursery:
            for address in self._heard:
                nursery.start_soon(self._keep_asking, address)
            outcome = await self._wait_until_known()
            nursery.cancel_scope.cancel()
        match outcome:
            case Found(cluster_id, founders):
                self._directory.format(cluster_id, founders)
            case Join(cluster_id):
                logger.warning("joining cluster %s as an observer", cluster_id)
                self._directory.format(cluster_id, NO_VOTERS)
            case Refuse(reason):
                raise FormingError(reason)

    async def _wait_until_known(self) -> Found | Join | Refuse:
        told, patience = "", trio.current_time() + PATIENCE_S
        while True:
            outcome = form(self._directory.meta.key, self._heard, self._plan.cluster_id)
            if not isinstance(outcome, Wait):
                return outcome
            if outcome.reason != told and trio.current_time() >= patience:
                logger.warning("waiting for the other controllers: %s", outcome.reason)
                told = outcome.reason
            with trio.move_on_at(patience if trio.current_time() < patience else math.inf):
                await self._news.wait()
            self._news = trio.Event()

    async def _keep_asking(self, address: Endpoint) -> None:
        while True:
            said = None
            with trio.move_on_after(ASK_TIMEOUT_S):
                said = await self._ask(address)
            if said != self._heard[address]:
                self._heard[address] = said
                self._news.set()
            await trio.sleep(ASK_EVERY_S)

    async def _ask(self, address: Endpoint) -> Introduction | None:
        """Return what the controller at an address says about itself, if one answers."""
        key = self._directory.meta.key
        hello = Hello("", key.node_id, directory_id=key.directory_id, endpoint=self._plan.endpoint)
        try:
            stream = await self._connect(address)
            frames, answer = await introduce(stream, hello)
        except KafkaError as error:
            logger.info("no controller at %s yet: %s", address, error.message)
            return None
        await frames.aclose()
        if answer.endpoint is None or not answer.endpoint.can_be_dialed:
            return None
        if len(answer.directory_id) != DIRECTORY_ID_BYTES:
            return None
        return Introduction(
            ReplicaKey(answer.node_id, answer.directory_id),
            answer.endpoint,
            answer.cluster_id,
            _voters_of(answer.founders),
        )

    # --- what others hear from us meanwhile

    def greet(self, hello: Hello) -> HelloAnswer:
        """Tell other controllers who we are; all others have to wait.

        Whose directory is formatted already, and only recovers, says so: who heard that it is in no
        cluster would found another one with it.

        Raises:
            KafkaError: there is no cluster to be part of yet.
        """
        version = common_version(hello)
        if len(hello.directory_id) != DIRECTORY_ID_BYTES or not any(hello.directory_id):
            raise NotControllerError("this controller is not in a cluster yet")
        if hello.purpose is Purpose.MESH:
            raise NetworkError("this controller is not in a cluster yet")
        meta = self._directory.meta
        return HelloAnswer(
            meta.cluster_id,
            meta.node_id,
            version,
            meta.key.directory_id,
            self._plan.endpoint,
            members_of(meta.founders),
        )

    def begin(self, frame: Frame) -> None:
        """Begin nothing."""

    async def answer(self, frame: Frame) -> Answer:  # noqa: ARG002 - none is answered
        """Refuse a request.

        Raises:
            NotControllerError: always.
        """
        raise NotControllerError("this controller is not in a cluster yet")

    async def serve_mesh(self, hello: Hello, frames: ControlStream) -> None:
        """Do nothing: nobody is let in that far."""


def _voters_of(members: Sequence[Member]) -> VoterSet:
    """Return founders that another controller told, or nobody if it told nonsense."""
    voters = {
        member.node_id: Voter(ReplicaKey(member.node_id, member.directory_id), member.endpoint)
        for member in members
        if member.endpoint is not None
        and member.endpoint.can_be_dialed
        and len(member.directory_id) == DIRECTORY_ID_BYTES
    }
    return VoterSet.of(voters.values()) if len(voters) == len(members) else NO_VOTERS
