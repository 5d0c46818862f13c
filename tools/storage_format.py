"""``quorate storage format``: makes directories a cluster's before their node starts first."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Final

from quorate.broker.log.directory import META_NAME, claim_directory, lock_directory
from quorate.broker.log.files import OsFileSystem
from quorate.dataclass import dataclass
from quorate.model import Endpoint
from quorate.quorum.controller import NO_LISTENER
from quorate.quorum.directory import (
    META,
    SUBDIRECTORY,
    new_cluster_id,
    open_controller_directory,
)
from quorate.quorum.raft.voters import (
    DIRECTORY_ID_BYTES,
    NO_VOTERS,
    VOTERS_MAX,
    ReplicaKey,
    Voter,
    VoterSet,
)
from quorate.setting_fields import INT_MAX
from quorate.settings import NodeConfig
from quorate.tools.node import controller_endpoint
from quorate.tools.output import Column, Table
from quorate.tools.problems import CommandError, UsageError
from quorate.tools.storage import Owned, owned_by

CONTROLLER: Final = "controller"
BROKER: Final = "broker"
CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-]+")


class Role(Enum):
    """What a node is; ``COMBINED`` is one of ``quorate up``: controller and broker together."""

    COMBINED = "combined"
    CONTROLLER = CONTROLLER
    BROKER = BROKER


class Begin(Enum):
    """How the cluster of a controller begins.

    Alone, with the initial controllers that are named, or there is one already that it joins.
    """

    ALONE = "standalone"
    TOGETHER = "initial-controllers"
    JOINING = "no-initial-controllers"


@dataclass(frozen=True, slots=True)
class Said:
    """What the command line says; ``cluster_id`` is empty where it says nothing."""

    role: Role
    cluster_id: str
    begins: tuple[Begin, ...]
    initial_controllers: str


@dataclass(frozen=True, slots=True)
class Formatting:
    """What shall be made of a node's directory; without a cluster id, one is drawn.

    ``endpoint`` is where a controller that begins alone is reached, ``founders`` are the initial
    controllers, if they are named.
    """

    directory: Path
    role: Role
    node_id: int
    cluster_id: str
    begin: Begin
    endpoint: Endpoint
    founders: VoterSet

    @property
    def metas(self) -> dict[str, Path]:
        """Where it is written down, by role."""
        places = {
            CONTROLLER: self.directory / SUBDIRECTORY / META,
            BROKER: self.directory / META_NAME,
        }
        wanted = (CONTROLLER, BROKER) if self.role is Role.COMBINED else (self.role.value,)
        return {role: places[role] for role in wanted}


@dataclass(frozen=True, slots=True)
class Part:
    """A directory, and whether it is formatted now or was before; no id if none is drawn yet."""

    role: str
    path: Path
    directory_id: str
    is_new: bool


def parse_controllers(text: str) -> VoterSet:
    """Return the controllers that a cluster begins with, from ``ID@HOST:PORT:DIRECTORY-ID,...``.

    Raises:
        UsageError: the text has another form, or names one twice, or what cannot be.
    """
    voters = [_parse_voter(one) for one in text.split(",")]
    if len(voters) > VOTERS_MAX:
        raise _no_controllers(text, f"at most {VOTERS_MAX} can vote")
    if len({voter.key.node_id for voter in voters}) != len(voters):
        raise _no_controllers(text, "an id is there twice")
    return VoterSet.of(voters)


def _parse_voter(text: str) -> Voter:
    match = re.fullmatch(r"([0-9]{1,10})@(.+):([0-9]{1,5}):([A-Za-z0-9_-]{22})", text.strip())
    if match is None:
        raise _no_controllers(text, "a controller is ID@HOST:PORT:DIRECTORY-ID")
    try:
        directory_id = base64.urlsafe_b64decode(match[4] + "==")
    except binascii.Error:
        directory_id = b""
    if len(directory_id) != DIRECTORY_ID_BYTES or not any(directory_id):
        raise _no_controllers(text, f"{match[4]} is no directory id")
    node_id, endpoint = int(match[1]), Endpoint(match[2].strip("[]"), int(match[3]))
    if node_id > INT_MAX:
        raise _no_controllers(text, f"ids go up to {INT_MAX}")
    if not endpoint.can_be_dialed:
        raise _no_controllers(text, f"nobody can connect to {endpoint}")
    return Voter(ReplicaKey(node_id, directory_id), endpoint)


def _no_controllers(text: str, why: str) -> UsageError:
    return UsageError(
        f"{text!r} are no initial controllers",
        why=why,
        hint="1@host1:9190:DIRECTORY-ID,2@...; quorate storage random-uuid makes directory ids",
    )


def wanted_of(said: Said, node: NodeConfig) -> Formatting:
    """Return what is wanted of a node with these settings.

    Raises:
        UsageError: it makes no sense.
    """
    begin = _begin(said)
    _check_cluster_id(said, begin)
    founders = NO_VOTERS
    if begin is Begin.TOGETHER:
        founders = parse_controllers(said.initial_controllers)
    endpoint = NO_LISTENER
    if said.role is Role.CONTROLLER and begin is Begin.ALONE:
        endpoint = controller_endpoint(
            node.controller_advertised_listener or node.controller_listener
        )
        _check_port(endpoint)
    wanted = Formatting(
        Path(node.log_dir), said.role, node.node_id, said.cluster_id, begin, endpoint, founders
    )
    if begin is Begin.TOGETHER and _own(wanted) is None:
        raise UsageError(
            f"controller {node.node_id} is none of the initial controllers",
            why=f"they are {', '.join(str(v.key.node_id) for v in founders.voters)}",
            hint="--id says which one this is; --no-initial-controllers if it joins them later",
        )
    return wanted


def _begin(said: Said) -> Begin:
    """Return how the cluster begins; a controller has to say it."""
    if said.role is not Role.CONTROLLER:
        others = [begin for begin in said.begins if begin is not Begin.ALONE]
        if others or (said.begins and said.role is Role.BROKER):
            raise UsageError(
                f"--{said.begins[0].value} is for controllers",
                why=f"the role of this node is {said.role.value}",
                hint="--role controller",
            )
        return Begin.ALONE
    if len(said.begins) != 1:
        raise UsageError(
            "say how the cluster of this controller begins",
            why="a directory of a voter is not like one of a controller that joins later",
            hint="one of " + ", ".join(f"--{begin.value}" for begin in Begin),
        )
    return said.begins[0]


def _check_cluster_id(said: Said, begin: Begin) -> None:
    if said.cluster_id and CLUSTER_ID.fullmatch(said.cluster_id) is None:
        raise UsageError(
            f"{said.cluster_id!r} is no cluster id",
            why="it has letters, digits, - and _ only",
            hint="quorate storage random-uuid makes one",
        )
    if not said.cluster_id and (said.role is Role.BROKER or begin is not Begin.ALONE):
        raise UsageError(
            "which cluster is it?",
            why="only a node with which a cluster begins can make up an id",
            hint="-t CLUSTER-ID, the same for all of its nodes",
        )


def _check_port(endpoint: Endpoint) -> None:
    if not endpoint.port:
        raise UsageError(
            "a controller that begins a cluster needs a port",
            why="others are told to find it there",
            hint="--listen 127.0.0.1:9190",
        )


def _own(wanted: Formatting) -> Voter | None:
    voters = wanted.founders.voters
    return next((v for v in voters if v.key.node_id == wanted.node_id), None)


def plan(said: Said, node: NodeConfig, *, ignore_formatted: bool) -> tuple[Formatting, list[Part]]:
    """Look whose the directories are, and return what is to be done; nothing is written.

    Raises:
        UsageError: what was said makes no sense.
        CommandError: a directory is another's, or cannot be read, or all are formatted already.
    """
    wanted = wanted_of(said, node)
    found = {role: owned_by(meta) for role, meta in wanted.metas.items()}
    known = [owned.cluster_id for owned in found.values() if owned and owned.cluster_id]
    wanted = replace(wanted, cluster_id=wanted.cluster_id or next(iter(known), ""))
    return wanted, parts_of(wanted, found, ignore_formatted=ignore_formatted)


def parts_of(
    wanted: Formatting, found: Mapping[str, Owned | None], *, ignore_formatted: bool
) -> list[Part]:
    """Return what is to be done, given whose the directories are by role.

    Raises:
        CommandError: one is another cluster's or node's, or all are formatted already.
    """
    parts: list[Part] = []
    own = _own(wanted)
    for role, meta in wanted.metas.items():
        owned = found.get(role)
        drawn = "" if own is None else _id_text(own.key.directory_id)
        if owned is None:
            parts.append(Part(role, meta.parent, drawn, is_new=True))
            continue
        _check_owner(wanted, owned, drawn)
        parts.append(Part(role, meta.parent, owned.directory_id, is_new=not owned.cluster_id))
    if not any(part.is_new for part in parts) and not ignore_formatted:
        raise CommandError(
            f"{wanted.directory} is formatted already",
            why=f"it is node {wanted.node_id}'s, of cluster {wanted.cluster_id}",
            hint="--ignore-formatted leaves it as it is",
        )
    return parts


def _check_owner(wanted: Formatting, owned: Owned, directory_id: str) -> None:
    problem = ""
    if owned.cluster_id and owned.cluster_id != wanted.cluster_id:
        problem = f"cluster {owned.cluster_id}, not {wanted.cluster_id}"
    elif owned.node_id != wanted.node_id:
        problem = f"node {owned.node_id}, not {wanted.node_id}"
    elif directory_id and owned.directory_id != directory_id:
        problem = f"directory id {owned.directory_id}, not {directory_id}"
    if problem:
        raise CommandError(
            f"{owned.path} belongs to another node or cluster",
            why=f"{META_NAME} in it says {problem}",
            hint="another --dir; what is in it is not touched",
        )


def carry_out(wanted: Formatting, parts: Sequence[Part]) -> tuple[Formatting, list[Part]]:
    """Format what is to be formatted, durably; return it with the ids that were drawn.

    Raises:
        QuorateError: a directory is in use, or cannot be written.
    """
    wanted = replace(wanted, cluster_id=wanted.cluster_id or new_cluster_id())
    try:
        return wanted, [_formatted(wanted, part) if part.is_new else part for part in parts]
    except OSError as error:
        raise CommandError(
            f"cannot use {wanted.directory}",
            why=error.strerror or str(error),
            hint="another --dir",
        ) from None


def _formatted(wanted: Formatting, part: Part) -> Part:
    if part.role == CONTROLLER:
        return replace(part, directory_id=_format_controller(wanted))
    wanted.directory.mkdir(parents=True, exist_ok=True)
    fs = OsFileSystem()
    path = str(wanted.directory)
    lock = lock_directory(fs, path)
    try:
        meta = claim_directory(fs, path, cluster_id=wanted.cluster_id, node_id=wanted.node_id)
    finally:
        lock.release()
    return replace(part, directory_id=meta.directory_id)


def _format_controller(wanted: Formatting) -> str:
    own = _own(wanted)
    opened = open_controller_directory(
        wanted.directory,
        wanted.node_id,
        cluster_id=wanted.cluster_id,
        directory_id=b"" if own is None else own.key.directory_id,
    )
    with closing(opened) as directory:
        if wanted.begin is Begin.ALONE:
            directory.found_alone(wanted.cluster_id, wanted.endpoint)
        elif not directory.meta.is_formatted:
            directory.format(wanted.cluster_id, wanted.founders)
        return _id_text(directory.meta.key.directory_id)


def _id_text(directory_id: bytes) -> str:
    return base64.urlsafe_b64encode(directory_id).rstrip(b"=").decode()


def parts_table(wanted: Formatting, parts: Sequence[Part], *, dry_run: bool) -> Table:
    """Return a row for each directory."""
    columns = ("path", "role", "node_id", "cluster_id", "directory_id", "state")
    state = "would be formatted" if dry_run else "formatted"
    rows = tuple(
        (
            str(part.path),
            part.role,
            wanted.node_id,
            wanted.cluster_id or None,
            part.directory_id or None,
            state if part.is_new else "formatted before",
        )
        for part in parts
    )
    return Table("formatted", tuple(map(Column, columns)), rows)
