"""A controller's directory: whose it is, and that only one process uses it.

``<dir>/controller/`` holds ``meta.json``, ``lock``, and the journal and snapshots of
``quorum.raft``.  ``meta.json`` says which controller this is (node id, and a directory id that is
drawn once) before the controller says it to anybody, and which cluster's as soon as that is known.
"""

import base64
import fcntl
import json
import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import Endpoint, looks_like_option
from quorate.quorum.raft.forming import CLUSTER_ID_BYTES, cluster_id_of
from quorate.quorum.raft.journal_file import FILE_NAME as JOURNAL
from quorate.quorum.raft.storage import FileStorage
from quorate.quorum.raft.voters import (
    DIRECTORY_ID_BYTES,
    NO_VOTERS,
    ReplicaKey,
    Voter,
    VoterSet,
)

SUBDIRECTORY: Final = "controller"
META: Final = "meta.json"
LOCK: Final = "lock"
FORMAT: Final = 2


class ControllerDirectoryError(QuorateError):
    """The directory cannot be used; the message is one line for the person who gave it."""


@dataclass(frozen=True, slots=True)
class ControllerMeta:
    """Whose directory it is.

    ``cluster_id`` is empty until the directory is formatted. ``founders`` are the voters that the
    cluster began with; nobody, if this controller joined a cluster that there was already.
    """

    key: ReplicaKey
    cluster_id: str = ""
    founders: VoterSet = NO_VOTERS

    @property
    def node_id(self) -> int:
        """The node id of this controller."""
        return self.key.node_id

    @property
    def is_formatted(self) -> bool:
        """Whether it belongs to a cluster."""
        return bool(self.cluster_id)


class ControllerDirectory:
    """Owns the lock on a controller's directory; ``storage`` holds the Raft files in it."""

    def __init__(self, path: Path, meta: ControllerMeta, lock: int) -> None:
        self.path: Final = path
        self.meta = meta
        self.storage: Final = FileStorage(path)
        self._lock = lock

    def format(self, cluster_id: str, founders: VoterSet) -> None:
        """Make it a cluster's, durably.

        Raises:
            ControllerDirectoryError: it cannot be written.
        """
        assert not self.meta.is_formatted, "a directory is formatted once"
        meta = replace(self.meta, cluster_id=cluster_id, founders=founders)
        _write_meta(self.path, meta)
        self.meta = meta

    def found_alone(self, cluster_id: str | None, endpoint: Endpoint) -> None:
        """Begin a cluster whose only controller this is, unless it is in a cluster already."""
        if not self.meta.is_formatted:
            self.format(
                cluster_id or new_cluster_id(), VoterSet.of([Voter(self.meta.key, endpoint)])
            )

    def close(self) -> None:
        """Let go of the files and the lock."""
        self.storage.close()
        os.close(self._lock)


def new_cluster_id() -> str:
    """Return a random cluster id as Kafka writes them: 22 characters of URL-safe base64."""
    return cluster_id_of(_drawn(CLUSTER_ID_BYTES))


def _drawn(size_bytes: int) -> bytes:
    drawn = secrets.token_bytes(size_bytes)
    while looks_like_option(drawn):
        drawn = secrets.token_bytes(size_bytes)
    return drawn


def open_controller_directory(
    node_directory: Path, node_id: int, *, cluster_id: str | None, directory_id: bytes = b""
) -> ControllerDirectory:
    """Lock a controller's directory and check whose it is, making it ours if it is nobody's.

    Args:
        node_directory: the node's directory; the controller's is in it.
        node_id: who we are.
        cluster_id: which cluster's it must be if it is formatted, ``None`` for any.
        directory_id: which directory it must be; a new one gets this id, a random one if empty.

    Raises:
        ControllerDirectoryError: it cannot be used, and why.
    """
    path = node_directory / SUBDIRECTORY
    try:
        _make_durably(path)
        lock = _lock(path)
    except OSError as error:
        raise ControllerDirectoryError(f"cannot use {path}: {error.strerror}") from error
    try:
        meta = _read_meta(path) or _new_identity(path, node_id, directory_id)
        _check_owner(path, meta, node_id, cluster_id)
        _check_directory_id(path, meta, directory_id)
        return ControllerDirectory(path, meta, lock)
    except BaseException:
        os.close(lock)
        raise


def _make_durably(path: Path) -> None:
    """Make a directory, if it is not there, so that no power cut takes its name away again.

    One that is there may have been made by a process that was killed before it could see to that.
    """
    made = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in dict.fromkeys([path, *made]):
        descriptor = os.open(each.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _lock(path: Path) -> int:
    lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        message = f"{path} is in use by another controller process"
        raise ControllerDirectoryError(message) from None
    except BaseException:
        os.close(lock)
        raise
    return lock


def _read_meta(path: Path) -> ControllerMeta | None:
    try:
        text = (path / META).read_text()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ControllerDirectoryError(f"cannot read {path / META}: {error.strerror}") from error
    except ValueError as error:
        raise ControllerDirectoryError(f"{path / META} is damaged: {error!r}") from error
    try:
        content = cast("dict[str, Any]", json.loads(text))
        if content["format"] != FORMAT:
            raise ControllerDirectoryError(
                f"{path} has format {content['format']}; this version knows {FORMAT}"
            )
        meta = _meta_of(content)
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise ControllerDirectoryError(f"{path / META} is damaged: {error!r}") from error
    if not meta.is_formatted and (path / JOURNAL).exists():
        raise ControllerDirectoryError(f"{path} has a journal, but no cluster: whose is it?")
    return meta


def _meta_of(content: dict[str, Any]) -> ControllerMeta:
    founders = [
        Voter(_key_of(founder), Endpoint(str(founder["host"]), int(founder["port"])))
        for founder in content["founders"]
    ]
    return ControllerMeta(_key_of(content), str(content["cluster_id"]), VoterSet.of(founders))


def _key_of(content: dict[str, Any]) -> ReplicaKey:
    directory_id = base64.urlsafe_b64decode(content["directory_id"] + "==")
    if len(directory_id) != DIRECTORY_ID_BYTES:
        raise ValueError(f"a directory id has {DIRECTORY_ID_BYTES} bytes")
    return ReplicaKey(int(content["node_id"]), directory_id)


def _key_content(key: ReplicaKey) -> dict[str, Any]:
    directory_id = base64.urlsafe_b64encode(key.directory_id).rstrip(b"=").decode()
    return {"node_id": key.node_id, "directory_id": directory_id}


def _write_meta(path: Path, meta: ControllerMeta) -> None:
    founders = [
        {**_key_content(v.key), "host": v.endpoint.host, "port": v.endpoint.port}
        for v in meta.founders.voters
    ]
    content = {
        "format": FORMAT,
        "cluster_id": meta.cluster_id,
        **_key_content(meta.key),
        "founders": founders,
    }
    storage = FileStorage(path)
    try:
        storage.put(META, (json.dumps(content, indent=2) + "\n").encode())
    except OSError as error:
        raise ControllerDirectoryError(f"cannot write {path / META}: {error.strerror}") from error
    finally:
        storage.close()


def _new_identity(path: Path, node_id: int, directory_id: bytes) -> ControllerMeta:
    if (path / JOURNAL).exists():
        raise ControllerDirectoryError(f"{path} has a journal, but no {META}: whose is it?")
    meta = ControllerMeta(ReplicaKey(node_id, directory_id or _drawn(DIRECTORY_ID_BYTES)))
    _write_meta(path, meta)
    return meta


def _check_owner(path: Path, meta: ControllerMeta, node_id: int, cluster_id: str | None) -> None:
    if cluster_id is not None and meta.is_formatted and meta.cluster_id != cluster_id:
        raise ControllerDirectoryError(
            f"{path} belongs to cluster {meta.cluster_id}, not to {cluster_id}"
        )
    if meta.node_id != node_id:
        raise ControllerDirectoryError(f"{path} belongs to node {meta.node_id}, not to {node_id}")


def _check_directory_id(path: Path, meta: ControllerMeta, directory_id: bytes) -> None:
    if directory_id and meta.key.directory_id != directory_id:
        wanted = ReplicaKey(meta.node_id, directory_id)
        raise ControllerDirectoryError(f"{path} is the directory of {meta.key}, not of {wanted}")
