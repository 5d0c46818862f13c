"""Metadata of a moment in a file: JSON that says them in words, too, or CBOR, which is small.

Both carry the snapshot that controllers would make, so that nothing is lost, and a checksum of it.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, cast

from quorate.control.codec import dump_cbor, load_cbor
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.quorum.metadata.image import MetadataImage
from quorate.quorum.metadata.snapshot import decode_image, encode_image
from quorate.tools.metadata.decided import Batch
from quorate.tools.metadata.tree import contents, root_of
from quorate.tools.problems import CommandError, UsageError
from quorate.tools.whole_files import unfinished_file

KIND: Final = "metadata-export"
VERSION: Final = 1
SUFFIXES: Final = (".json", ".cbor")


@dataclass(frozen=True, slots=True)
class Exported:
    """The metadata as they were; ``time_ms`` is when they became so, None if nobody knows."""

    image: MetadataImage
    time_ms: int | None

    def document(self) -> dict[str, Any]:
        """Return what both kinds of files say, but for the snapshot."""
        return {
            "kind": KIND,
            "version": VERSION,
            "cluster_id": self.image.cluster_id,
            "offset": self.image.version,
            "time_ms": self.time_ms,
        }


def exported(image: MetadataImage, batches: Iterable[Batch]) -> Exported:
    """Return an image that batches led to, with its time."""
    times = [
        record.time_ms
        for batch in batches
        if batch.offset == image.version
        for record in batch.changes
    ]
    return Exported(image, max(times, default=None))


def check_name(path: Path) -> None:
    """Refuse a file whose name does not say what to write.

    Raises:
        UsageError: it ends in something else.
    """
    if path.suffix not in SUFFIXES:
        raise UsageError(
            f"{path} does not say what to write",
            why=f"it ends in {' or '.join(SUFFIXES)}",
            hint="--to metadata.json",
        )


def encode(one: Exported, suffix: str) -> bytes:
    """Return the content of a file, whose name ends so."""
    snapshot = encode_image(one.image)
    digest = hashlib.sha256(snapshot).hexdigest()
    document: dict[str, Any] = {**one.document(), "sha256": digest}
    if suffix == ".cbor":
        return dump_cbor({**document, "snapshot": snapshot})
    document["contents"] = contents(root_of(one.image, None))
    document["snapshot"] = base64.b64encode(snapshot).decode()
    return (json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n").encode()


def decode(data: bytes) -> Exported:
    """Return what :func:`encode` was given.

    Raises:
        ValueError: it is no such file, or not as it was written.
        UnsupportedLevelError: the cluster works at a level that is not known here.
    """
    try:
        document: Any = json.loads(data) if data[:1] == b"{" else load_cbor(data)
        if document["kind"] != KIND or document["version"] != VERSION:
            raise ValueError(f"it is a {document['kind']} of version {document['version']}")
        snapshot, time_ms = document["snapshot"], document["time_ms"]
        if isinstance(snapshot, str):
            snapshot = base64.b64decode(snapshot, validate=True)
        if hashlib.sha256(snapshot).hexdigest() != document["sha256"]:
            raise ValueError("its checksum says that it was changed")
        return Exported(decode_image(snapshot), cast("int | None", time_ms))
    except (KeyError, TypeError) as error:
        raise ValueError(f"it is no export of metadata: {error!r}") from error


def read_exported(path: Path) -> Exported:
    """Read a file.

    Raises:
        CommandError: there is none, or it is not as it was written.
    """
    hint = "a file of quorate metadata export"
    try:
        return decode(path.read_bytes())
    except OSError as error:
        why = error.strerror or str(error)
        raise CommandError(f"cannot read {path}", why=why, hint=hint) from None
    except (ValueError, QuorateError) as error:
        raise CommandError(f"cannot read {path}", why=str(error), hint=hint) from None


def write_exported(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Write a file, which appears when it is whole.

    Raises:
        RefusedError: it is there, and is not to be overwritten.
        CommandError: it cannot be written.
    """
    with unfinished_file(path, overwrite=overwrite) as unfinished:
        unfinished.touch(mode=0o600)  # what passwords are checked with is in it, too
        unfinished.write_bytes(data)
