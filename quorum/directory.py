"""A controller's directory: whose it is, and that only one process uses it.

``<dir>/controller/`` holds ``meta.json`` (cluster id, node id, voters), ``lock``, and the journal
and snapshots of ``quorum.raft``.
"""

import base64
import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast

from quorate.errors import QuorateError
from quorate.quorum.raft.journal import FILE_NAME as JOURNAL
from quorate.quorum.raft.storage import FileStorage

SUBDIRECTORY: Final = "controller"
META: Final = "meta.json"
LOCK: Final = "lock"
FORMAT: Final = 1
CLUSTER_ID_BYTES: Final = 16
CLUSTER_ID_LENGTH: Final = 22


class ControllerDirectoryError(QuorateError):
    """The directory cannot be used; the message is one line for the person who gave it."""


@dataclass(frozen=True, slots=True)
class ControllerMeta:
    """Whose directory it is."""

    cluster_id: str
    node_id: int
    voters: tuple[int, ...]


class ControllerDirectory:
    """Owns the lock on a controller's directory; ``storage`` holds the Raft files in it."""

    def __init__(self, path: Path, meta: ControllerMeta, lock: int) -> None:
        self.path: Final = path
        self.meta: Final = meta
        self.storage: Final = FileStorage(path)
        self._lock = lock

    def close(self) -> None:
        """Let go of the files and the lock."""
        self.storage.close()
        os.close(self._lock)


def new_cluster_id() -> str:
    """Return a random cluster id as Kafka writes them: 22 characters of URL-safe base64."""
    while True:
        encoded = base64.urlsafe_b64encode(secrets.token_bytes(CLUSTER_ID_BYTES)).decode()
        # An id with a dash in front would look like an option on a command line.
        if not encoded.startswith("-"):
            return encoded[:CLUSTER_ID_LENGTH]


def open_controller_directory(
    node_directory: Path, node_id: int, *, cluster_id: str | None, format_if_empty: bool
) -> ControllerDirectory:
    """Lock a controller's directory and check whose it is, formatting it first if that is wanted.

    Args:
        node_directory: the node's directory; the controller's is in it.
        node_id: who we are.
        cluster_id: which cluster we expect (or found), ``None`` for whatever is there or a new one.
        format_if_empty: whether an empty directory becomes a controller's.

    Raises:
        ControllerDirectoryError: it cannot be used, and why.
    """
    path = node_directory / SUBDIRECTORY
    try:
        if format_if_empty:
            path.mkdir(parents=True, exist_ok=True)
        elif not path.is_dir():
            raise ControllerDirectoryError(f"{node_directory} is not formatted for a controller")
        lock = _lock(path)
    except OSError as error:
        raise ControllerDirectoryError(f"cannot use {path}: {error.strerror}") from error
    try:
        meta = _read_meta(path)
        if meta is None:
            meta = _format(path, node_id, cluster_id, format_if_empty=format_if_empty)
        _check_owner(path, meta, node_id, cluster_id)
        return ControllerDirectory(path, meta, lock)
    except BaseException:
        os.close(lock)
        raise


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
    try:
        content = cast("dict[str, Any]", json.loads(text))
        if content["format"] != FORMAT:
            raise ControllerDirectoryError(
                f"{path} has format {content['format']}; this version knows {FORMAT}"
            )
        return ControllerMeta(
            str(content["cluster_id"]), int(content["node_id"]), tuple(content["voters"])
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ControllerDirectoryError(f"{path / META} is damaged: {error!r}") from error


def _format(
    path: Path, node_id: int, cluster_id: str | None, *, format_if_empty: bool
) -> ControllerMeta:
    if (path / JOURNAL).exists():
        raise ControllerDirectoryError(f"{path} has a journal, but no {META}: whose is it?")
    if not format_if_empty:
        raise ControllerDirectoryError(f"{path} is not formatted")
    meta = ControllerMeta(cluster_id or new_cluster_id(), node_id, (node_id,))
    content = json.dumps({"format": FORMAT, **asdict(meta)}, indent=2) + "\n"
    storage = FileStorage(path)
    try:
        storage.put(META, content.encode())
    except OSError as error:
        raise ControllerDirectoryError(f"cannot write {path / META}: {error.strerror}") from error
    finally:
        storage.close()
    return meta


def _check_owner(path: Path, meta: ControllerMeta, node_id: int, cluster_id: str | None) -> None:
    if cluster_id is not None and meta.cluster_id != cluster_id:
        raise ControllerDirectoryError(
            f"{path} belongs to cluster {meta.cluster_id}, not to {cluster_id}"
        )
    if meta.node_id != node_id:
        raise ControllerDirectoryError(f"{path} belongs to node {meta.node_id}, not to {node_id}")
    if meta.voters != (node_id,):
        raise ControllerDirectoryError(
            f"{path} belongs to a quorum of {len(meta.voters)} voters; this version runs one"
        )
