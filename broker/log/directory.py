"""The data directory as a whole: whose it is (``meta.json``), and that only one process uses it."""

from enum import Enum
from typing import Any, Final

from quorate.broker.log.documents import CorruptDocumentError, encode_document, read_document
from quorate.broker.log.files import FileSystem, Lock, replace_file
from quorate.dataclass import dataclass
from quorate.errors import QuorateError

META_NAME: Final = "meta.json"
LOCK_NAME: Final = ".lock"
CLEAN_NAME: Final = ".clean"
RUNNING_NAME: Final = ".running"

META_KIND: Final = "quorate-directory"
META_VERSION: Final = 1
CLEAN_KIND: Final = "clean-shutdown"
CLEAN_VERSION: Final = 1
RUNNING_KIND: Final = "running"
RUNNING_VERSION: Final = 1


UNKNOWN_BROKER_EPOCH: Final = -1


class DirectoryError(QuorateError):
    """A data directory cannot be used; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Whose directory it is."""

    cluster_id: str
    node_id: int
    directory_id: str


class Left(Enum):
    """How the last process left a directory."""

    CLOSED = "closed"
    """All is synced, and noted."""
    ENDED = "ended"
    """The process ended, and the machine ran on: what it wrote is there."""
    UNKNOWN = "unknown"
    """The power may have gone."""


@dataclass(frozen=True, slots=True)
class CleanMarker:
    """A directory was closed cleanly, in this registration of its broker."""

    broker_epoch: int


def lock_directory(fs: FileSystem, path: str) -> Lock:
    """Take the directory for this process.

    Raises:
        DirectoryError: it does not exist, cannot be written, or another process uses it.
    """
    if not fs.exists(path):
        raise DirectoryError(f"{path}: no such directory")
    try:
        lock = fs.lock(f"{path}/{LOCK_NAME}")
    except OSError as error:
        raise DirectoryError(f"{path} cannot be written: {error.strerror}") from error
    if lock is None:
        raise DirectoryError(f"{path} is in use by another process")
    return lock


def claim_directory(fs: FileSystem, path: str, *, cluster_id: str, node_id: int) -> Meta:
    """Return the directory's identity; a directory without one becomes this node's.

    Raises:
        DirectoryError: it belongs to another cluster or node, or was written by a newer release.
        OSError: the disk fails.
    """
    meta_path = f"{path}/{META_NAME}"
    if not fs.exists(meta_path):
        meta = Meta(cluster_id, node_id, fs.random_bytes(16).hex())
        body = {
            "cluster_id": meta.cluster_id,
            "node_id": meta.node_id,
            "directory_id": meta.directory_id,
        }
        replace_file(fs, meta_path, encode_document(META_KIND, META_VERSION, body))
        return meta
    meta = _read_meta(fs, meta_path)
    if meta.cluster_id != cluster_id:
        raise DirectoryError(f"{path} belongs to cluster {meta.cluster_id}, not to {cluster_id}")
    _check_node(path, meta, node_id)
    return meta


def cluster_of_directory(fs: FileSystem, path: str, *, node_id: int) -> str:
    """Return the id of the cluster that a directory of this node belongs to; "" if it is nobody's.

    Raises:
        DirectoryError: it belongs to another node, or was written by a newer release.
        OSError: the disk fails.
    """
    meta_path = f"{path}/{META_NAME}"
    if not fs.exists(meta_path):
        return ""
    meta = _read_meta(fs, meta_path)
    _check_node(path, meta, node_id)
    return meta.cluster_id


def _read_meta(fs: FileSystem, meta_path: str) -> Meta:
    try:
        found: Any = read_document(fs, meta_path, META_KIND, META_VERSION)
        return Meta(found["cluster_id"], found["node_id"], found["directory_id"])
    except (CorruptDocumentError, KeyError, TypeError) as error:
        raise DirectoryError(f"{meta_path}: {error}") from error


def _check_node(path: str, meta: Meta, node_id: int) -> None:
    if meta.node_id != node_id:
        raise DirectoryError(f"{path} belongs to node {meta.node_id}, not to node {node_id}")


def take_clean_marker(fs: FileSystem, path: str) -> CleanMarker | None:
    """Return what was noted when the directory was closed cleanly; from now on, it is not.

    None if it was not closed cleanly.
    """
    marker = f"{path}/{CLEAN_NAME}"
    if not fs.exists(marker):
        return None
    found: CleanMarker | None = None
    try:
        body: Any = read_document(fs, marker, CLEAN_KIND, CLEAN_VERSION)
        found = CleanMarker(int(body.get("broker_epoch", UNKNOWN_BROKER_EPOCH)))
    except (CorruptDocumentError, AttributeError, TypeError, ValueError):
        pass
    fs.remove(marker)
    fs.sync_directory(path)
    return found


def leave_clean_marker(fs: FileSystem, path: str, now_ms: int, broker_epoch: int) -> None:
    """Note durably that everything in the directory was synced and closed."""
    body = {"closed_ms": now_ms, "broker_epoch": broker_epoch}
    replace_file(fs, f"{path}/{CLEAN_NAME}", encode_document(CLEAN_KIND, CLEAN_VERSION, body))


def leave_running_marker(fs: FileSystem, path: str, broker_epoch: int) -> None:
    """Note in which registration the directory is used, for whoever opens it after a crash.

    Not durably: what a power cut leaves of it says nothing, and names an earlier start of the
    machine.
    """
    boot_id = fs.boot_id()
    if not boot_id:
        return
    body = {"boot_id": boot_id, "broker_epoch": broker_epoch}
    document = encode_document(RUNNING_KIND, RUNNING_VERSION, body)
    fs.open(f"{path}/{RUNNING_NAME}", create=True).write_at(document, 0)


def take_running_marker(fs: FileSystem, path: str) -> int:
    """Return the registration in which a process used the directory last, and forget it.

    ``UNKNOWN_BROKER_EPOCH`` if the machine was started again since, so that what had not been
    synced may be lost, or if nobody knows.
    """
    marker = f"{path}/{RUNNING_NAME}"
    if not fs.exists(marker):
        return UNKNOWN_BROKER_EPOCH
    broker_epoch = UNKNOWN_BROKER_EPOCH
    try:
        body: Any = read_document(fs, marker, RUNNING_KIND, RUNNING_VERSION)
        if body["boot_id"] == fs.boot_id():
            broker_epoch = int(body["broker_epoch"])
    except (CorruptDocumentError, KeyError, TypeError, ValueError):
        pass
    fs.remove(marker)
    return broker_epoch
