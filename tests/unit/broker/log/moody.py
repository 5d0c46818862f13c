"""MoodyDisk: a simulated disk that refuses what it is told to refuse."""

import os
from random import Random
from typing import Any

from quorate.broker.log.files import Space
from tests.simulation.disk import SimDisk


class MoodyDisk(SimDisk):
    """Refuses what it is told to refuse: ``(operation, part of the path) -> errno``."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(Random(seed))
        self.refused: dict[tuple[str, str], int] = {}
        self.make_directory("/data")
        self.sync_directory("/")

    def _ask(self, operation: str, path: str) -> None:
        for (refused, part), code in self.refused.items():
            if refused == operation and part in path:
                raise OSError(code, os.strerror(code))

    def open(self, path: str, *, create: bool) -> Any:
        self._ask("create" if create else "open", path)
        return super().open(path, create=create)

    def rename(self, old: str, new: str) -> None:
        self._ask("rename", new)
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self._ask("remove", path)
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self._ask("sync_directory", path)
        super().sync_directory(path)

    def space(self, path: str) -> Space:
        self._ask("space", path)
        return super().space(path)
