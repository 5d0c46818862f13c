"""Trio shell: which topics a subscription means, and whether they have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from quorate.client.membership.topics import TopicsView, view_of
from quorate.errors import QuorateError
from quorate.net.bell import Bell

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable

    from quorate.client.connections import Cluster

MISSING_CHECK_MS: Final = 1_000
"""How often to look for topics that are subscribed to and do not exist."""


class GroupTopics:
    """Looks now and then which topics there are, and how many partitions they have.

    As often as the client's ``metadata_max_age_ms``, and every second while a topic is missing.
    """

    def __init__(self, cluster: Cluster, on_change: Callable[[], None]) -> None:
        self._cluster = cluster
        self._on_change = on_change
        self._bell = Bell()
        self._names: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._also: frozenset[str] = frozenset()
        self._seen = TopicsView({})

    def follow(self, names: frozenset[str], pattern: re.Pattern[str] | None) -> None:
        """Follow these topics, or those whose whole name matches the pattern."""
        self._names, self._pattern = names, pattern
        self._also = frozenset()

    async def look(self) -> frozenset[str]:
        """Return the topics that the subscription means now.

        Raises:
            QuorateError: No broker answers.
        """
        self._seen = await self._fetch(None if self._pattern else self._names)
        self._bell.ring()
        return self._meant(self._seen)

    async def look_at(self, names: frozenset[str]) -> TopicsView:
        """Return what there is of topics whose partitions are to be assigned; follow them, too.

        Raises:
            QuorateError: No broker answers.
        """
        if not names:
            return TopicsView({})
        self._also = names
        self._seen = await self._fetch(None if self._pattern else names | self._names)
        return self._seen

    def _meant(self, seen: TopicsView) -> frozenset[str]:
        if self._pattern is None:
            return self._names
        return seen.matching(self._pattern)

    async def _fetch(self, names: Iterable[str] | None) -> TopicsView:
        asked = None if names is None else sorted(names)
        return view_of(await self._cluster.metadata_of(asked))

    async def run(self) -> None:
        """Call back when something has changed, until the consumer is closed."""
        while True:
            missing = self._names - self._seen.topics.keys()
            interval_ms = (
                MISSING_CHECK_MS if missing else self._cluster.settings.metadata_max_age_ms
            )
            with trio.move_on_after(interval_ms / 1000):
                await self._bell.wait()
                continue
            if not self._names and self._pattern is None:
                continue
            try:
                seen = await self._fetch(None if self._pattern else self._names | self._also)
            except QuorateError:
                continue
            changed = self._changed(seen)
            self._seen = seen
            if changed:
                self._on_change()

    def _changed(self, seen: TopicsView) -> bool:
        if self._meant(seen) != self._meant(self._seen):
            return True
        followed = self._meant(seen) | self._also
        return seen.counts(followed) != self._seen.counts(followed)
