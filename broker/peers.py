"""Trio shell: requests to other brokers, over one connection to each for each API asked."""

import logging
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import trio

from quorate.broker.conversing import connected, until_one_breaks
from quorate.broker.handlers.context import Broker
from quorate.broker.listeners import BetweenBrokers
from quorate.errors import KafkaError, NetworkError, QuorateError
from quorate.net.bell import Bell
from quorate.net.exchange import Exchange
from quorate.promise import Promise
from quorate.protocol.apis import ApiKey
from quorate.quorum.metadata.delta import MetadataDelta

logger = logging.getLogger(__name__)

APIS_ASKED: Final = (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.WRITE_TXN_MARKERS)
RECONNECT_MIN_S: Final = 0.02
RECONNECT_MAX_S: Final = 1.0
ANSWER_S_MAX: Final = 40.0
"""A broker that is silent for longer is gone: no answer takes it longer than 30 s."""
WAITING_MAX: Final = 1_000
"""More requests than that do not wait for one broker: they fail at once."""


class _Question(NamedTuple):
    api_key: int
    request: Any
    promise: Promise[Any]


class _Peer:
    """One other broker, and one API. State: what is to be asked, what is asked and not answered.

    Answers come in the order of questions. So each API has a connection of its own: a marker that
    waits for a slow follower must not keep transactions elsewhere from beginning.
    """

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.bell = Bell()
        self.to_send: deque[_Question] = deque()
        self.sent: deque[_Question] = deque()
        self.patience = trio.CancelScope()
        self.pause_s = RECONNECT_MIN_S
        """Before the next connection: longer each time, until one was of use."""

    def be_patient(self) -> None:
        """Wait for the next answer for a while from now on; for ever if there is none to come."""
        self.patience.deadline = trio.current_time() + ANSWER_S_MAX if self.sent else math.inf

    def take_all(self) -> list[_Question]:
        """Return all that has no answer, which is forgotten here."""
        questions = [*self.sent, *self.to_send]
        self.sent.clear()
        self.to_send.clear()
        return questions


class Peers:
    """Owns the connections over which this broker asks others.

    ``begin_turn`` and ``end_turn`` enclose what answers bring about. What cannot be asked fails
    with a KafkaError: who asks decides whether to ask again.
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
        self._peers: dict[tuple[int, int], _Peer] = {}
        """By broker and API."""
        self._nursery: trio.Nursery | None = None
        broker.ask_peer = self.ask
        broker.replicas.on_followed.append(self._give_up_the_fenced)

    async def run(self) -> None:
        """Keep asking until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for peer in self._peers.values():
                nursery.start_soon(self._serve, peer)
            await trio.sleep_forever()

    def ask(self, broker_id: int, api_key: int, request: Any) -> Promise[Any]:
        """Ask another broker; the promise is of its answer, or of a KafkaError instead."""
        promise: Promise[Any] = Promise()
        peer = self._peers.get((broker_id, api_key))
        if peer is None:
            peer = self._peers[broker_id, api_key] = _Peer(broker_id)
            if self._nursery is not None:
                self._nursery.start_soon(self._serve, peer)
        if len(peer.to_send) >= WAITING_MAX:
            promise.resolve(NetworkError(f"too much is waiting for broker {broker_id}"))
        else:
            peer.to_send.append(_Question(api_key, request, promise))
            peer.bell.ring()
        return promise

    def _give_up_the_fenced(self, delta: MetadataDelta) -> None:
        """Wait no longer for brokers that have just gone out of service: others lead by now.

        If one's machine is gone, nothing comes over its connection, not even that it is broken.
        """
        brokers = delta.after.brokers
        for peer in self._peers.values():
            known = brokers.get(peer.broker_id)
            is_out = known is None or known.fenced
            if is_out and peer.sent and peer.broker_id in delta.touched.brokers:
                peer.patience.cancel()

    async def _serve(self, peer: _Peer) -> None:
        """Ask one broker what is to be asked, over one connection after the other."""
        while True:
            while not peer.to_send:
                await peer.bell.wait()
            try:
                await self._converse(peer)
            except QuorateError as error:
                if peer.sent or peer.to_send:
                    logger.info("cannot ask broker %d: %s", peer.broker_id, error)
                failure = error if isinstance(error, KafkaError) else NetworkError(str(error))
                self._fail(peer, failure)
            await trio.sleep(peer.pause_s)
            peer.pause_s = min(2 * peer.pause_s, RECONNECT_MAX_S)

    def _fail(self, peer: _Peer, error: KafkaError) -> None:
        self._begin_turn()
        for question in peer.take_all():
            question.promise.resolve(error)
        self._end_turn()

    async def _converse(self, peer: _Peer) -> None:
        """Use a connection until it breaks.

        Raises:
            QuorateError: it did, or there is none.
        """
        connection = connected(
            self._broker, peer.broker_id, self._way, role="asks", apis=APIS_ASKED
        )
        async with connection as exchange:
            await until_one_breaks(
                partial(self._listen, peer, exchange), partial(self._ask_all, peer, exchange)
            )

    async def _ask_all(self, peer: _Peer, exchange: Exchange) -> None:
        while True:
            while peer.to_send:
                question = peer.to_send.popleft()
                peer.sent.append(question)
                peer.be_patient()
                await exchange.send(question.api_key, question.request)
            await peer.bell.wait()

    async def _listen(self, peer: _Peer, exchange: Exchange) -> None:
        with trio.CancelScope() as peer.patience:
            while True:
                peer.be_patient()
                answer = await exchange.receive()
                peer.pause_s = RECONNECT_MIN_S
                self._begin_turn()
                question = peer.sent.popleft()
                question.promise.resolve(answer)
                self._end_turn()
        raise NetworkError(f"broker {peer.broker_id} is silent, or out of service")
