"""A network between nodes in which any direction of any pair can be cut or slow, without root.

Nothing is needed of the nodes: redirect.c, preloaded, brings their connections to a proxy of their
own for each pair.  A cut holds bytes back, as a network does that drops packets: the end of a
connection is not seen either, and what was sent before a heal arrives after it, late.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Final

from quorate.net.ports import LOOPBACK

REDIRECT_C: Final = Path(__file__).with_name("redirect.c")
CHUNK_BYTES: Final = 1 << 16
CONNECT_S_MAX: Final = 5.0

Pair = tuple[int, int]
"""Who sends, and to whom: places in the list of nodes."""


class Network:
    """Owns a listener for each ordered pair, and the connections through them.

    Threads: one for each listener, two for each connection; all end with :meth:`close`.
    """

    def __init__(self, ports: Sequence[int], pairs: Iterable[Pair] | None = None) -> None:
        """Stand between those that listen on these ports: all of them, or who calls whom."""
        self._ports = tuple(ports)
        self._changed = threading.Condition()
        self._cut: frozenset[Pair] = frozenset()
        self._delays_s: Mapping[Pair, float] = {}
        self._closed = False
        self._open: dict[socket.socket, Pair] = {}
        self._listeners: dict[Pair, socket.socket] = {}
        self.held_back = 0
        """How often something did not arrive because of a cut."""
        self.delayed = 0
        """How often something arrived late."""
        for source, target in permutations(range(len(ports)), 2) if pairs is None else pairs:
            self._listen(source, target)

    @property
    def has_clients(self) -> bool:
        """Clients call nodes directly."""
        return False

    def redirects(self, source: int) -> str:
        """Return ``QUORATE_REDIRECT`` for a process."""
        return ",".join(
            f"{self._ports[pair[1]]}:{listener.getsockname()[1]}"
            for pair, listener in self._listeners.items()
            if pair[0] == source
        )

    @property
    def cuts(self) -> frozenset[Pair]:
        """What is cut now."""
        return self._cut

    def cut(self, pairs: Iterable[Pair]) -> None:
        """From now on, what these send to those does not arrive; everything else does."""
        with self._changed:
            self._cut = frozenset(pairs)
            self._changed.notify_all()

    def slow(self, delays_s: Mapping[Pair, float]) -> None:
        """From now on, what these send to those takes so much longer, at most twice as much."""
        with self._changed:
            self._delays_s = dict(delays_s)

    def reset(self, pairs: Collection[Pair]) -> int:
        """Break the connections that these made to those; return how many."""
        with self._changed:
            doomed = [sock for sock, pair in self._open.items() if pair in pairs]
        for sock in doomed:
            with contextlib.suppress(OSError):  # what was not sent yet is never sent
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._drop(sock)
        return len(doomed) // 2  # each has two halves

    def heal(self, *, hard: bool) -> None:
        """Let through what was cut; ``hard`` breaks all connections instead of delivering late."""
        if hard:
            self._break_all()
        self.cut(())

    def close(self) -> None:
        """End everything."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for listener in self._listeners.values():
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self._break_all()

    def _listen(self, source: int, target: int) -> None:
        listener = socket.create_server((LOOPBACK, 0))
        self._listeners[source, target] = listener
        _start(self._accept, listener, (source, target))

    def _accept(self, listener: socket.socket, pair: Pair) -> None:
        while not self._closed:
            try:
                dialed, _ = listener.accept()
            except OSError:
                return
            _start(self._join, dialed, pair)

    def _join(self, dialed: socket.socket, pair: Pair) -> None:
        """Connect the other half, once a connection could be made at all."""
        self._keep(dialed, pair)
        source, target = pair
        if not self._wait_for((source, target)) or not self._wait_for((target, source)):
            self._drop(dialed)
            return
        try:
            served = socket.create_connection((LOOPBACK, self._ports[target]), CONNECT_S_MAX)
        except OSError:
            self._drop(dialed)
            return
        served.settimeout(None)
        self._keep(served, pair)
        _start(self._pump, dialed, served, (source, target))
        self._pump(served, dialed, (target, source))

    def _pump(self, sender: socket.socket, receiver: socket.socket, pair: Pair) -> None:
        with contextlib.suppress(OSError):
            while True:
                data = sender.recv(CHUNK_BYTES)
                if delay_s := self._delays_s.get(pair):
                    self.delayed += 1
                    time.sleep(delay_s)
                if not self._wait_for(pair) or not data:
                    break
                receiver.sendall(data)
        self._drop(sender)
        self._drop(receiver)

    def _wait_for(self, pair: Pair) -> bool:
        """Wait until a direction is open; return whether there still is a network."""
        with self._changed:
            self.held_back += pair in self._cut
            self._changed.wait_for(lambda: self._closed or pair not in self._cut)
            return not self._closed

    def _keep(self, sock: socket.socket, pair: Pair) -> None:
        with self._changed:
            self._open[sock] = pair

    def _drop(self, sock: socket.socket) -> None:
        with self._changed:
            self._open.pop(sock, None)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()

    def _break_all(self) -> None:
        with self._changed:
            doomed = list(self._open)
        for sock in doomed:
            self._drop(sock)


def isolated(who: int, count: int, *, sends: bool, receives: bool) -> frozenset[Pair]:
    """Return what to cut so that a controller only sends to, or only hears of, or neither."""
    others = [other for other in range(count) if other != who]
    silent = frozenset[Pair]() if sends else frozenset((who, other) for other in others)
    deaf = frozenset[Pair]() if receives else frozenset((other, who) for other in others)
    return silent | deaf


def apart(first: int, second: int) -> frozenset[Pair]:
    """Return what to cut so that two do not hear of each other; a third one hears both."""
    return frozenset({(first, second), (second, first)})


def _start(run: object, *arguments: object) -> None:
    assert callable(run)
    threading.Thread(target=run, args=arguments, daemon=True).start()
