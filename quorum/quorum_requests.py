"""Requests about the quorum itself: how it is, who votes, who leads."""

import math
from collections.abc import Callable
from typing import Final

import trio

from quorate.control import messages as m
from quorate.errors import (
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    NotControllerError,
    RequestTimedOutError,
)
from quorate.model import UNKNOWN_OFFSET, Endpoint
from quorate.quorum.deciding import Asked
from quorate.quorum.raft.outcomes import (
    ChangeRefused,
    LeadershipMoved,
    Lost,
    NotLeader,
    ReadDone,
    Refusal,
    Unknown,
    VotersChanged,
)
from quorate.quorum.raft.rounds import Progress
from quorate.quorum.raft.voters import ReplicaKey, Voter, VoterSet
from quorate.quorum.raft_mesh import Identity, RaftMesh
from quorate.quorum.raft_node import RaftNode

CODES: Final = {
    Refusal.CHANGE_IN_FLIGHT: ErrorCode.REQUEST_TIMED_OUT,
    Refusal.NO_COMMIT_IN_TERM: ErrorCode.REQUEST_TIMED_OUT,
    Refusal.NOT_CAUGHT_UP: ErrorCode.REQUEST_TIMED_OUT,
    Refusal.NOT_TAKEN_OVER: ErrorCode.REQUEST_TIMED_OUT,
    Refusal.UNKNOWN_VOTER: ErrorCode.VOTER_NOT_FOUND,
    Refusal.ALREADY_A_VOTER: ErrorCode.DUPLICATE_VOTER,
    Refusal.OTHER_DIRECTORY: ErrorCode.DUPLICATE_VOTER,
}
"""What refusals are to a Kafka client; all others are INVALID_REQUEST."""


class QuorumRequests:
    """Answers requests about the quorum, for a controller's Raft node and mesh."""

    def __init__(
        self,
        raft: RaftNode,
        mesh: RaftMesh,
        identity: Identity,
        clock_ms: Callable[[], int],
    ) -> None:
        self._raft = raft
        self._mesh = mesh
        self._me = identity
        self._clock_ms = clock_ms
        self._started_ms = clock_ms()

    def not_active(self) -> NotControllerError:
        """Return the refusal of a controller that does not lead: who does, if it knows.

        One that is alone, in a node that is a broker too, tells here alone that its disk is full.
        """
        leader = self._raft.rounds.leader
        if leader is None or leader == self._me.key:
            if self._raft.disk_full:
                return NotControllerError(
                    "this controller's disk is full, and it knows nobody who leads"
                )
            return NotControllerError("this controller does not lead, and knows nobody who does")
        return NotControllerError(
            f"controller {leader.node_id} leads, not this one",
            leader_id=leader.node_id,
            leader_endpoint=self._endpoint_of(leader),
        )

    # --- how it is

    async def describe(self, request: m.DescribeQuorum, asked: Asked) -> m.DescribeQuorumAnswer:
        """Tell how the quorum is: what the leader knows, or only what this controller does."""
        if not request.local:
            match await self._raft.read(asked.deadline_s):
                case NotLeader():
                    raise self.not_active()
                case Unknown():
                    raise RequestTimedOutError("no majority of controllers answered in time")
                case ReadDone():
                    pass
        rounds = self._raft.rounds
        voters = [self._replica(key) for key in rounds.voters.keys]
        observers = [key for key in rounds.progress if key not in rounds.voters]
        if self._me.key not in rounds.voters:
            observers.append(self._me.key)
        leader = rounds.leader
        return m.DescribeQuorumAnswer(
            leader_id=m.NO_NODE if leader is None else leader.node_id,
            leader_epoch=rounds.term,
            high_watermark=rounds.commit_index + 1,
            voters=tuple(voters),
            metadata_version=self._raft.image.version,
            observers=tuple(self._replica(key) for key in sorted(observers)),
            log_bytes=rounds.journal_bytes,
            snapshot_bytes=rounds.snapshot_bytes,
            snapshot_index=rounds.snapshot_index,
            uptime_ms=max(0, self._clock_ms() - self._started_ms),
            node_id=self._me.key.node_id,
            commit_index=rounds.commit_index,
            last_index=rounds.last_index,
            disk_full=self._raft.disk_full,
        )

    def _replica(self, key: ReplicaKey) -> m.QuorumReplica:
        rounds = self._raft.rounds
        endpoint = self._endpoint_of(key)
        progress = rounds.progress.get(key)
        if key == self._me.key:
            now_s = trio.current_time()
            caught_up_s = now_s if rounds.is_leader else -math.inf
            progress = Progress(rounds.last_index, now_s, caught_up_s, key in rounds.voters)
        if progress is None:
            return m.QuorumReplica(key.node_id, UNKNOWN_OFFSET, key.directory_id, endpoint)
        return m.QuorumReplica(
            key.node_id,
            progress.match_index + 1 if progress.match_index else UNKNOWN_OFFSET,
            key.directory_id,
            endpoint,
            self._wall_ms(progress.last_contact_s),
            self._wall_ms(progress.caught_up_s),
        )

    def _wall_ms(self, time_s: float) -> int:
        """Return a time of Trio's clock, which is never negative, as one of the day."""
        if time_s < 0:  # never
            return m.UNKNOWN_TIME
        return self._clock_ms() - round((trio.current_time() - time_s) * 1000)

    def _endpoint_of(self, key: ReplicaKey) -> Endpoint | None:
        endpoint = self._me.endpoint if key == self._me.key else self._mesh.endpoint_of(key)
        # A combined node has no listener for controllers.
        return endpoint if endpoint is not None and endpoint.port else None

    # --- changing it

    async def add_voter(self, request: m.AddVoter, asked: Asked) -> m.AddVoterAnswer:
        """Let an observer vote."""
        voter = self._voter_of(request)
        outcome = await self._raft.add_voter(voter, asked.deadline_s)
        return m.AddVoterAnswer(members_of(self._changed(outcome)))

    async def remove_voter(self, request: m.RemoveVoter, asked: Asked) -> m.RemoveVoterAnswer:
        """Let a voter vote no more."""
        self._check_leading()
        key = ReplicaKey(request.node_id, request.directory_id)
        if request.directory_id == m.NO_DIRECTORY:
            voter = self._raft.rounds.voters.find(request.node_id)
            if voter is None:
                raise KafkaError(
                    f"controller {request.node_id} is no voter", code=ErrorCode.VOTER_NOT_FOUND
                )
            key = voter.key
        outcome = await self._raft.remove_voter(key, asked.deadline_s)
        return m.RemoveVoterAnswer(members_of(self._changed(outcome)))

    async def transfer(
        self, request: m.TransferLeadership, asked: Asked
    ) -> m.TransferLeadershipAnswer:
        """Let another voter lead."""
        self._check_leading()
        target = None
        if request.node_id != m.NO_NODE:
            voter = self._raft.rounds.voters.find(request.node_id)
            if voter is None:
                raise KafkaError(
                    f"controller {request.node_id} is no voter", code=ErrorCode.VOTER_NOT_FOUND
                )
            target = voter.key
        match await self._raft.transfer_leadership(target, asked.deadline_s):
            case LeadershipMoved(leader):
                return m.TransferLeadershipAnswer(leader.node_id)
            case ChangeRefused(refusal, message):
                raise _refused(refusal, message)
            case NotLeader():
                raise self.not_active()
            case Unknown():
                raise RequestTimedOutError("nobody was seen to take over in time")

    def _check_leading(self) -> None:
        if not self._raft.is_leader:
            raise self.not_active()

    def _voter_of(self, request: m.AddVoter) -> Voter:
        """Return the voter that is meant: what is not said, its connection tells."""
        self._check_leading()
        key = ReplicaKey(request.node_id, request.directory_id)
        if request.directory_id == m.NO_DIRECTORY:
            present = self._raft.rounds.voters.find(request.node_id)
            if present is not None:
                raise KafkaError(
                    f"controller {request.node_id} is a voter already, with directory"
                    f" {present.key}; if its disk was replaced, remove that voter first",
                    code=ErrorCode.DUPLICATE_VOTER,
                )
            keys = [k for k in self._raft.rounds.progress if k.node_id == request.node_id]
            if len(keys) != 1:
                raise KafkaError(
                    f"no controller with id {request.node_id} is connected to the leader: start it"
                    " first, with --join and the addresses of the others",
                    code=ErrorCode.VOTER_NOT_FOUND,
                )
            key = keys[0]
        endpoint = request.endpoint or self._mesh.endpoint_of(key)
        if endpoint is None:
            raise KafkaError(
                f"controller {key} is not connected to the leader", code=ErrorCode.VOTER_NOT_FOUND
            )
        if not endpoint.can_be_dialed:
            # It would be in the log for good, and in every answer to a hello.
            raise InvalidRequestError(f"nobody can connect to controller {key} at {endpoint}")
        return Voter(key, endpoint)

    def _changed(
        self, outcome: VotersChanged | ChangeRefused | NotLeader | Lost | Unknown
    ) -> VoterSet:
        match outcome:
            case VotersChanged(voters=voters):
                return voters
            case ChangeRefused(refusal, message):
                raise _refused(refusal, message)
            case NotLeader() | Lost():
                raise self.not_active()
            case Unknown():
                raise RequestTimedOutError("not committed in time; it may be later")


def _refused(refusal: Refusal, message: str) -> KafkaError:
    return KafkaError(message, code=CODES.get(refusal, ErrorCode.INVALID_REQUEST))


def members_of(voters: VoterSet) -> tuple[m.Member, ...]:
    """Return voters as they are told to others."""
    return tuple(m.Member(v.key.node_id, v.key.directory_id, v.endpoint) for v in voters.voters)
