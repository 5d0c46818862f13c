"""The quorum as one picture, put together from what a broker or several controllers say."""

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from quorate.client import admin_results as client
from quorate.client.admin_results import QuorumDescription
from quorate.control import messages as control
from quorate.control.messages import NO_DIRECTORY, NO_NODE, DescribeQuorumAnswer
from quorate.dataclass import dataclass
from quorate.model import UNKNOWN_OFFSET, Endpoint
from quorate.tools.output import Column, Table, id_text

ToldReplica = control.QuorumReplica | client.QuorumReplica

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
OBSERVER: Final = "observer"


@dataclass(frozen=True, slots=True)
class OwnState:
    """What a controller knows about itself only; ``snapshot_offset`` is what its snapshot ends at.

    Both are exclusive ends, like all offsets; 0 means that there is no snapshot. With ``disk_full``
    its log or a snapshot waits for space: it cannot acknowledge what others decide.
    """

    log_bytes: int
    snapshot_bytes: int
    snapshot_offset: int
    uptime_ms: int
    disk_full: bool


@dataclass(frozen=True, slots=True)
class Replica:
    """A controller in the picture; ``own`` is ``None`` for one that could not be asked.

    Offsets and times are -1 where the leader does not know them.
    """

    node_id: int
    directory_id: bytes
    endpoint: Endpoint | None
    role: str
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    own: OwnState | None

    @property
    def votes(self) -> bool:
        """Whether its vote counts."""
        return self.role != OBSERVER

    @property
    def disk_full(self) -> bool:
        """Whether it says that its disk is full."""
        return self.own is not None and self.own.disk_full

    @property
    def directory_text(self) -> str:
        """Its directory id as Kafka writes it."""
        return directory_text(self.directory_id)

    @property
    def name(self) -> str:
        """What to call it in a sentence."""
        return f"controller {self.node_id}"


@dataclass(frozen=True, slots=True)
class QuorumView:
    """Who leads (``None``: nobody, as far as could be seen), who votes, how far each is.

    ``high_watermark`` is the end of what is committed. ``now_ms`` is when the picture was made.
    """

    cluster_id: str
    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    metadata_version: int | None
    replicas: tuple[Replica, ...]
    now_ms: int

    @property
    def voters(self) -> list[Replica]:
        """Those whose votes count."""
        return [replica for replica in self.replicas if replica.votes]

    @property
    def observers(self) -> list[Replica]:
        """Those that only follow."""
        return [replica for replica in self.replicas if not replica.votes]

    @property
    def silent(self) -> list[Replica]:
        """Those that could not be asked themselves; nobody, if none could: it is not the way."""
        silent = [replica for replica in self.replicas if replica.own is None]
        return silent if len(silent) < len(self.replicas) else []

    @property
    def full(self) -> list[Replica]:
        """Those that say that their disks are full."""
        return [replica for replica in self.replicas if replica.disk_full]

    @property
    def able(self) -> list[Replica]:
        """The voters that can decide now: not those that are silent, or have a full disk."""
        unable = [*self.silent, *self.full]
        return [voter for voter in self.voters if voter not in unable]

    @property
    def leader(self) -> Replica | None:
        """The one that leads."""
        return next((replica for replica in self.replicas if replica.role == LEADER), None)

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.voters) // 2 + 1

    @property
    def spare(self) -> int:
        """How many voters more may fail: those that do not answer, or have a full disk, have."""
        return max(0, len(self.able) - self.majority)

    def lag(self, replica: Replica) -> int | None:
        """Return how many entries of the leader's log a replica lacks, if that is known."""
        if self.leader is None or UNKNOWN_OFFSET in (
            replica.log_end_offset,
            self.leader.log_end_offset,
        ):
            return None
        return max(0, self.leader.log_end_offset - replica.log_end_offset)

    def behind_ms(self, replica: Replica) -> int | None:
        """Return for how long a replica has lacked something; 0 if it lacks nothing."""
        if replica.role == LEADER or self.lag(replica) == 0:
            return 0
        return self.since_ms(replica.last_caught_up_ms)

    def since_ms(self, time_ms: int) -> int | None:
        """Return how long ago a time was, if it is known."""
        return None if time_ms < 0 else max(0, self.now_ms - time_ms)


@dataclass(frozen=True, slots=True)
class Said:
    """What a controller said of the quorum, and who it is."""

    cluster_id: str
    directory_id: bytes
    answer: DescribeQuorumAnswer


def view_of_description(
    quorum: QuorumDescription, said: Sequence[Said], cluster_id: str, now_ms: int
) -> QuorumView:
    """Return the picture that a broker gives, with what controllers add that could be asked too."""
    leaders = [one.answer for one in said if one.answer.node_id == quorum.leader_id]
    version = leaders[0].metadata_version if leaders else None
    return _view(quorum, said, cluster_id, version, now_ms)


def view_of_answers(said: Sequence[Said], now_ms: int) -> QuorumView:
    """Return the picture that controllers give: as their newest leader sees it.

    If none of them leads, it is as the one sees it that knows of the newest term: who votes is
    known then, how far they are only of those that answered. One that gave up leading says so
    itself, while others, whose disks are full or who have not noticed, still name it.
    """
    assert said, "somebody answered"
    newest = max(said, key=_how_well_it_knows)
    told = newest.answer
    if any(_denies_leading(one.answer, told) for one in said):
        told = replace(told, leader_id=NO_NODE)
    return _view(told, said, newest.cluster_id, told.metadata_version, now_ms)


def _denies_leading(itself: DescribeQuorumAnswer, told: DescribeQuorumAnswer) -> bool:
    is_meant = itself.node_id == told.leader_id and itself.leader_epoch >= told.leader_epoch
    return is_meant and itself.leader_id != itself.node_id


def _how_well_it_knows(said: Said) -> tuple[int, bool, int]:
    answer = said.answer
    return answer.leader_epoch, answer.node_id == answer.leader_id, answer.commit_index


def _view(
    told: DescribeQuorumAnswer | QuorumDescription,
    said: Sequence[Said],
    cluster_id: str,
    metadata_version: int | None,
    now_ms: int,
) -> QuorumView:
    led = told.leader_id != NO_NODE
    voters = [
        _replica(voter, LEADER if led and voter.node_id == told.leader_id else FOLLOWER, said)
        for voter in told.voters
    ]
    observers = [_replica(observer, OBSERVER, said) for observer in told.observers]
    return QuorumView(
        cluster_id=cluster_id,
        leader_id=told.leader_id if led else None,
        leader_epoch=told.leader_epoch,
        high_watermark=told.high_watermark,
        metadata_version=metadata_version,
        replicas=(*voters, *observers),
        now_ms=now_ms,
    )


def _replica(told: ToldReplica, role: str, said: Sequence[Said]) -> Replica:
    itself = next((one.answer for one in said if _is_by(one, told)), None)
    log_end_offset = told.log_end_offset
    if log_end_offset == UNKNOWN_OFFSET and itself is not None:
        log_end_offset = itself.last_index + 1
    return Replica(
        node_id=told.node_id,
        directory_id=told.directory_id,
        endpoint=told.endpoint,
        role=role,
        log_end_offset=log_end_offset,
        last_fetch_ms=told.last_fetch_ms,
        last_caught_up_ms=told.last_caught_up_ms,
        own=None if itself is None else own_state(itself),
    )


def _is_by(said: Said, told: ToldReplica) -> bool:
    same_disk = told.directory_id in (said.directory_id, NO_DIRECTORY)
    return said.answer.node_id == told.node_id and same_disk


def own_state(answer: DescribeQuorumAnswer) -> OwnState:
    """Return what a controller says about itself."""
    return OwnState(
        log_bytes=answer.log_bytes,
        snapshot_bytes=answer.snapshot_bytes,
        snapshot_offset=answer.snapshot_index + 1 if answer.snapshot_index else 0,
        uptime_ms=answer.uptime_ms,
        disk_full=answer.disk_full,
    )


def directory_text(directory_id: bytes) -> str:
    """Return a directory id as Kafka writes it: URL-safe base64 without padding."""
    return "-" if directory_id == NO_DIRECTORY else id_text(directory_id)


def parse_directory(text: str) -> bytes | None:
    """Return the directory id of a text, or ``None`` if it is none."""
    try:
        value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    return value if len(value) == len(NO_DIRECTORY) else None


def status_table(view: QuorumView) -> Table:
    """Return the quorum as one row, for programs."""
    columns = (
        Column("leader_id"), Column("leader_epoch"), Column("high_watermark"),
        Column("metadata_version"), Column("cluster_id"), Column("majority"), Column("voters"),
        Column("observers"),
    )  # fmt: skip
    row = (
        view.leader_id, view.leader_epoch, view.high_watermark, view.metadata_version,
        view.cluster_id, view.majority, _items(view, view.voters), _items(view, view.observers),
    )  # fmt: skip
    return Table("quorums", columns, (row,))


def _items(view: QuorumView, replicas: Sequence[Replica]) -> list[dict[str, Any]]:
    columns = [column.name for column in _COLUMNS]
    return [dict(zip(columns, _row(view, replica), strict=True)) for replica in replicas]


_COLUMNS: Final = (
    Column("node_id"), Column("role"), Column("endpoint"), Column("log_end_offset"), Column("lag"),
    Column("behind_ms"), Column("last_fetch_ms", wide_only=True),
    Column("last_caught_up_ms", wide_only=True), Column("directory_id", wide_only=True),
    Column("log_bytes", wide_only=True), Column("snapshot_bytes", wide_only=True),
    Column("snapshot_offset", wide_only=True), Column("uptime_ms", wide_only=True),
    Column("disk_full", wide_only=True),
)  # fmt: skip


def _row(view: QuorumView, replica: Replica) -> tuple[Any, ...]:
    own = replica.own
    own_cells = (
        (None, None, None, None, None)
        if own is None
        else (
            own.log_bytes, own.snapshot_bytes, own.snapshot_offset, own.uptime_ms, own.disk_full,
        )
    )  # fmt: skip
    return (
        replica.node_id,
        replica.role,
        None if replica.endpoint is None else str(replica.endpoint),
        _known(replica.log_end_offset),
        view.lag(replica),
        view.behind_ms(replica),
        _known(replica.last_fetch_ms),
        _known(replica.last_caught_up_ms),
        None if replica.directory_id == NO_DIRECTORY else replica.directory_text,
        *own_cells,
    )


def _known(number: int) -> int | None:
    return None if number == UNKNOWN_OFFSET else number


def replication_table(view: QuorumView) -> Table:
    """Return a row for each replica."""
    return Table("replicas", _COLUMNS, tuple(_row(view, replica) for replica in view.replicas))
