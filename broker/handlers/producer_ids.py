"""Producer ids: handed out from blocks that the controller allocates to this broker."""

from collections import deque
from collections.abc import Callable

Taker = Callable[[int | None], None]


class ProducerIds:
    """Ids that this broker may hand out, each once.

    State: the rest of the current block, and who waits for the next one. ``request_block`` asks for
    a block; its outcome comes back through :meth:`add_block` or :meth:`no_block`.
    """

    __slots__ = ("_end", "_next", "_waiting", "request_block")

    def __init__(self) -> None:
        self._next = 0
        self._end = 0
        self._waiting: deque[Taker] = deque()
        self.request_block: Callable[[], None] | None = None

    def take(self, taker: Taker) -> None:
        """Give ``taker`` an id, now or when a block has come; None if none can be had."""
        if self._next < self._end:
            self._next += 1
            taker(self._next - 1)
            return
        self._waiting.append(taker)
        if len(self._waiting) == 1:
            assert self.request_block is not None, "set when the broker is built"
            self.request_block()

    def add_block(self, first: int, count: int) -> None:
        """Go on with the block ``first`` to ``first + count - 1``."""
        assert count > 0, "an empty block would be asked for again for ever"
        self._next, self._end = first, first + count
        waiting, self._waiting = self._waiting, deque()
        for taker in waiting:
            self.take(taker)

    def no_block(self) -> None:
        """Tell those who wait that there is no id for them."""
        waiting, self._waiting = self._waiting, deque()
        for taker in waiting:
            taker(None)
