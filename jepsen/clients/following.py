"""Follows the metadata of one controller: what it says of the cluster, version by version."""

import time
from collections.abc import Sequence
from typing import Final

from quorate.control import messages as m
from quorate.jepsen.clients.controllers import (
    Address,
    ControlSocket,
    MaybeDoneError,
    NotDoneError,
)
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.codec import decode_batch
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.quorum.metadata.records import MetadataRecord
from quorate.quorum.metadata.snapshot import decode_image

GIVE_UP_S: Final = 0.1


class Follower:
    """Owns a connection to a controller and an image of the metadata; for one thread."""

    def __init__(self, where: Address) -> None:
        self._where = where
        self._connection: ControlSocket | None = None
        self.image: MetadataImage = EMPTY_IMAGE

    def poll(self, wait_ms: int, timeout_s: float) -> None:
        """Take what is new, if anything is within that time.

        Raises:
            NotDoneError, MaybeDoneError: the controller is not there, or does not answer.
        """
        deadline_s = time.monotonic() + timeout_s
        try:
            if self._connection is None:
                self._connection = ControlSocket(self._where, cluster_id="", deadline_s=deadline_s)
            request = m.FetchMetadata(self.image.version, wait_ms)
            answer = self._connection.ask(request, request_id=b"", deadline_s=deadline_s)
        except (NotDoneError, MaybeDoneError):
            self.close()
            raise
        if not isinstance(answer, m.FetchMetadataAnswer):
            raise NotDoneError(str(answer))
        self._take(answer)

    def reach(self, version: int, deadline_s: float) -> bool:
        """Take what is new until a version is there; return whether it is in time."""
        while self.image.version < version:
            rest_s = deadline_s - time.monotonic()
            if rest_s <= 0:
                return False
            try:
                self.poll(int(1000 * rest_s), rest_s + GIVE_UP_S)
            except (NotDoneError, MaybeDoneError):
                time.sleep(min(GIVE_UP_S, rest_s))
        return True

    def _take(self, answer: m.FetchMetadataAnswer) -> None:
        if answer.snapshot is not None:
            before, self.image = self.image.version, decode_image(answer.snapshot)
            assert self.image.version > before, "a snapshot is for those who are behind"
            self.took_snapshot(before)
        for batch in answer.batches:
            records = decode_batch(batch.records)
            self.image = apply_records(self.image, batch.version, records)
            self.took(batch.version, records)

    def took_snapshot(self, before: int) -> None:
        """A snapshot came in place of all that happened since a version; 0: since ever."""

    def took(self, version: int, records: Sequence[MetadataRecord]) -> None:
        """These came, and are in the image."""

    def close(self) -> None:
        """Hang up; the image stays."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
