"""Large requests to controllers begin one after the other: each takes memory until it is answered.

What is decoded takes up to a hundred times as much memory as its bytes, on its way to a controller
more than once. So what has to wait waits as the bytes in which it came.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from quorate.protocol.apis import ApiKey

ASK_CONTROLLERS: Final = frozenset(
    {
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.ELECT_LEADERS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.UPDATE_FEATURES,
    }
)
"""The requests with arrays that are answered when a controller has answered, if one is asked.

So is Metadata, where it makes topics; but what all clients ask for waits for none of these.
"""

IN_WORK_BYTES_MAX: Final = 1 << 20


class LargeRequest:
    """One that begins when it is its turn, unless it was forgotten."""

    __slots__ = ("begin", "size_bytes")

    def __init__(self, size_bytes: int, begin: Callable[[], None]) -> None:
        self.size_bytes = size_bytes
        self.begin: Callable[[], None] | None = begin

    def forget(self) -> None:
        """Do not begin any more: nobody wants the answer."""
        self.begin = None


class LargeRequests:
    """Those of a node, in the order in which they came.

    State: the bytes of those in work, and those that wait. Invariant: as long as one waits, another
    one is in work. So whoever began has to say when it ended, in whatever way.
    """

    __slots__ = ("_beginning", "_in_work_bytes", "_waiting")

    def __init__(self) -> None:
        self._in_work_bytes = 0
        self._waiting: deque[LargeRequest] = deque()
        self._beginning = False

    def add(self, request: LargeRequest) -> None:
        """Begin a request, now or later."""
        self._waiting.append(request)
        self._begin()

    def ended(self, request: LargeRequest) -> None:
        """Begin more, for one is not in work any more."""
        self._in_work_bytes -= request.size_bytes
        self._begin()

    def _begin(self) -> None:
        if self._beginning:  # one that began ended at once: the loop below goes on
            return
        self._beginning = True
        try:
            while self._waiting and self._fits(self._waiting[0]):
                request = self._waiting.popleft()
                begin, request.begin = request.begin, None  # or it might hold itself
                if begin is not None:
                    self._in_work_bytes += request.size_bytes
                    begin()
        finally:
            self._beginning = False

    def _fits(self, request: LargeRequest) -> bool:
        in_work_bytes = self._in_work_bytes
        return not in_work_bytes or in_work_bytes + request.size_bytes <= IN_WORK_BYTES_MAX


def new_lines() -> Mapping[int, LargeRequests]:
    """Return in which line the large requests of an API wait, for those that have to."""
    return {**dict.fromkeys(ASK_CONTROLLERS, LargeRequests()), ApiKey.METADATA: LargeRequests()}
