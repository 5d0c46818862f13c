"""Which brokers are connected, as one can tell from what they always do: wait for metadata."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

ABSENT_MS: Final = 200
"""A broker that has not waited for metadata for so long is looked for."""

LOOKED_FOR_MS: Final = 500
"""It is looked for again so long after that."""

LOOKS_MAX: Final = 20
"""So many are looked for at once: a controller that has just become active may miss thousands."""

FIRST_MS: Final = 1000
"""How long brokers have to find a controller that has just become active."""


class Presence:
    """Owns who waits for metadata, in memory of the active controller only.

    A broker asks for the next metadata as soon as it has applied what came. So one that does not is
    busy, or cut off, or its process is gone: the last can be found out by looking.

    Whoever waits is looked for once, too: if it seems to be gone then, its clients reach it some
    way that is not ours (they are on another host, or outside of a container), and looking says
    nothing of it.
    """

    def __init__(self) -> None:
        self._waiting: Counter[int] = Counter()
        self._look_ms: dict[int, int] = {}
        self._looking: set[int] = set()
        self._seen: set[int] = set()
        self._hidden: set[int] = set()

    def expect(self, brokers: Iterable[int], now_ms: int) -> None:
        """Give brokers some time to come: their controller has just become active."""
        self._look_ms = {b: now_ms if b in self._waiting else now_ms + FIRST_MS for b in brokers}
        for known in (self._looking, self._seen, self._hidden):
            known.clear()

    def begin(self, broker_id: int, now_ms: int) -> None:
        """Note that a broker waits."""
        self._waiting[broker_id] += 1
        if broker_id in self._seen:
            self._look_ms.pop(broker_id, None)
        else:
            self._look_ms.setdefault(broker_id, now_ms)

    def end(self, broker_id: int, now_ms: int) -> None:
        """Note that it does not wait any more: it has its answer, or its connection ended."""
        self._waiting[broker_id] -= 1
        if not self._waiting[broker_id]:
            del self._waiting[broker_id]
            if broker_id not in self._hidden:
                self._look_ms[broker_id] = now_ms + ABSENT_MS

    def is_gone(self, broker_id: int, *, refused: bool) -> bool:
        """Return whether a broker is gone, by what was seen of it."""
        if broker_id not in self._waiting:
            return refused and broker_id not in self._hidden
        self._seen.add(broker_id)
        if refused:
            self._hidden.add(broker_id)
        self._look_ms.pop(broker_id, None)
        return False

    def forget(self, broker_id: int) -> None:
        """Look for a broker no more, until it waits again."""
        self._look_ms.pop(broker_id, None)
        self._seen.discard(broker_id)
        self._hidden.discard(broker_id)

    def absent(self, now_ms: int) -> list[int]:
        """Return the brokers to look for now; say :meth:`looked` of each when that is over."""
        due = sorted(
            (look_ms, broker_id)
            for broker_id, look_ms in self._look_ms.items()
            if look_ms <= now_ms and broker_id not in self._looking
        )
        found = [broker_id for _, broker_id in due[: max(0, LOOKS_MAX - len(self._looking))]]
        self._looking.update(found)
        return found

    def looked(self, broker_id: int, now_ms: int) -> None:
        """Note that a broker was looked for, whatever was found."""
        self._looking.discard(broker_id)
        if broker_id in self._look_ms:
            self._look_ms[broker_id] = now_ms + LOOKED_FOR_MS
