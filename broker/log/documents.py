"""Documents: the small files beside the logs, as JSON that says what it is and sums itself up.

``{"kind": "leader-epochs", "version": 1, "crc32c": 123, "body": {...}}``: readable with any tool,
and refused when a byte of it changed.
"""

import json
from typing import Any

from quorate.broker.log.files import FileSystem, read_file
from quorate.errors import QuorateError
from quorate.records.checksum import crc32c


class CorruptDocumentError(QuorateError):
    """A file is not the document it should be."""


def encode_document(kind: str, version: int, body: object) -> bytes:
    """Return the document's bytes."""
    checksum = crc32c(_canonical(kind, version, body))
    document = {"kind": kind, "version": version, "crc32c": checksum, "body": body}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def decode_document(data: bytes, kind: str, version: int) -> Any:
    """Return the body of a document of that kind and version.

    Raises:
        CorruptDocumentError: it is none, is of another kind, newer, or was damaged.
    """
    try:
        document = json.loads(data)
        found = (document["kind"], document["version"], document["crc32c"])
        body = document["body"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CorruptDocumentError(f"not a {kind} document") from None
    if found[:2] != (kind, version):
        raise CorruptDocumentError(
            f"{found[0]} of version {found[1]} instead of {kind} of version {version}"
        )
    if found[2] != crc32c(_canonical(kind, version, body)):
        raise CorruptDocumentError(f"the checksum of the {kind} document does not match")
    return body


def read_document(fs: FileSystem, path: str, kind: str, version: int) -> Any:
    """Read the body of the document at the path.

    Raises:
        CorruptDocumentError: see decode_document.
        OSError: it cannot be read.
    """
    return decode_document(read_file(fs, path), kind, version)


def _canonical(kind: str, version: int, body: object) -> bytes:
    """The bytes that the checksum covers: the same for equal values, whatever the layout."""
    return json.dumps([kind, version, body], separators=(",", ":"), sort_keys=True).encode()
