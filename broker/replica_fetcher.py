"""Trio shell: one task per leader that is followed, fetching all its partitions together."""

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from quorate.broker.aside import sync_logs
from quorate.broker.conversing import connected, until_one_breaks
from quorate.broker.handlers.context import Broker
from quorate.broker.listeners import BetweenBrokers
from quorate.broker.log.files import FatalStorageError
from quorate.broker.replication.fetching import LeaderFetcher
from quorate.errors import NetworkError, QuorateError
from quorate.net.bell import Bell
from quorate.net.exchange import Exchange
from quorate.protocol.apis import ApiKey

logger = logging.getLogger(__name__)

RECONNECT_MIN_S: Final = 0.05
RECONNECT_MAX_S: Final = 1.0
IN_FLIGHT_MAX: Final = 2
"""A second request is sent while one is parked, if there is something new to ask for."""
ANSWER_S_MAX: Final = 30.0
"""Beyond the time that the leader may wait; a leader that is silent for longer is gone."""
PATIENCE_STEP_S: Final = 1.0


class _Leader:
    """One leader that is followed: what rings for it, and how patiently it is connected to."""

    def __init__(self) -> None:
        self.bell = Bell()
        self.pause_s = RECONNECT_MIN_S
        """Before the next connection: longer each time, until one was of use."""


class ReplicaFetchers:
    """Owns the tasks that fetch; one of each leader, while there is anything to fetch of it.

    ``begin_turn`` and ``end_turn`` enclose what changes replicas.
    """

    def __init__(
        self,
        broker: Broker,
        begin_turn: Callable[[], int],
        end_turn: Callable[[], None],
        way: BetweenBrokers,
    ) -> None:
        self._broker = broker
        self._begin_turn = begin_turn
        self._end_turn = end_turn
        self._way = way
        self._leaders: dict[int, _Leader] = {}
        self._nursery: trio.Nursery | None = None
        broker.replicas.on_fetchers = self._something_new

    async def run(self) -> None:
        """Fetch until cancelled.

        Raises:
            FatalStorageError: the disk failed to sync; we cannot say any more what we have.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for leader_id in self._broker.replicas.fetchers:
                self._something_new(leader_id)
            await trio.sleep_forever()

    def _something_new(self, leader_id: int) -> None:
        leader = self._leaders.get(leader_id)
        if leader is not None:
            leader.bell.ring()
        elif self._nursery is not None:
            leader = self._leaders[leader_id] = _Leader()
            fetcher = self._broker.replicas.fetchers[leader_id]
            self._nursery.start_soon(self._fetch_from, leader, fetcher)

    async def _fetch_from(self, leader: _Leader, fetcher: LeaderFetcher) -> None:
        """Keep fetching from a leader, over one connection after the other."""
        while True:
            if not len(fetcher):
                await leader.bell.wait()
                continue
            try:
                await self._converse(leader, fetcher)
            except FatalStorageError:
                raise  # nothing more is to be said, to this leader or another
            except QuorateError as error:
                logger.info("cannot fetch from leader %d: %s", fetcher.leader_id, error)
            fetcher.disconnected()
            await trio.sleep(leader.pause_s)
            leader.pause_s = min(2 * leader.pause_s, RECONNECT_MAX_S)

    async def _converse(self, leader: _Leader, fetcher: LeaderFetcher) -> None:
        """Use a connection until it breaks.

        Raises:
            QuorateError: it did, or there is none.
        """
        connection = connected(
            self._broker, fetcher.leader_id, self._way, role="fetcher", apis=(ApiKey.FETCH,)
        )
        async with connection as exchange:
            await until_one_breaks(
                partial(self._fetch, leader, fetcher, exchange),
                partial(self._ask_in_between, leader.bell, fetcher, exchange),
            )

    async def _fetch(self, leader: _Leader, fetcher: LeaderFetcher, exchange: Exchange) -> None:
        # One scope for all answers, and seldom moved: each would cost more than to read the answer.
        with trio.move_on_after(ANSWER_S_MAX) as patience:
            while True:
                if unsynced := fetcher.unsynced():
                    patience.deadline = math.inf
                    # What counts only when synced, before we say that we have it.
                    store = self._broker.replicas.store
                    await sync_logs(store, [follower.log for follower in unsynced])
                    patience.deadline = trio.current_time() + ANSWER_S_MAX
                if not fetcher.in_flight:
                    self._begin_turn()
                    await exchange.send(ApiKey.FETCH, fetcher.build())
                response = await exchange.receive()
                _be_patient(patience)
                self._begin_turn()
                try:
                    grown = fetcher.take(response, self._broker.now_ms)
                    leader.pause_s = RECONNECT_MIN_S
                    if grown and not fetcher.in_flight and not fetcher.unsynced():
                        # The leader waits for our word; who reads here can wait for theirs.
                        await exchange.send(ApiKey.FETCH, fetcher.build())
                finally:
                    self._end_turn()
        raise NetworkError(f"leader {fetcher.leader_id} is silent")

    async def _ask_in_between(self, bell: Bell, fetcher: LeaderFetcher, exchange: Exchange) -> None:
        """Ask for what is new while the leader still holds an answer back.

        It gives that one at once then, so new partitions need not wait for it.
        """
        while True:
            next_ms = fetcher.next_ms()
            at_s = float("inf") if next_ms is None else next_ms / 1000
            await bell.wait_until(at_s)
            next_ms = fetcher.next_ms()
            due = next_ms is not None and next_ms <= trio.current_time() * 1000
            if due and 0 < fetcher.in_flight < IN_FLIGHT_MAX:
                self._begin_turn()
                await exchange.send(ApiKey.FETCH, fetcher.build())


def _be_patient(patience: trio.CancelScope) -> None:
    """Wait for the next answer as long as for this one, or almost."""
    deadline = trio.current_time() + ANSWER_S_MAX
    if deadline - patience.deadline > PATIENCE_STEP_S:
        patience.deadline = deadline
