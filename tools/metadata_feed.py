"""What running controllers tell of their decisions, to a tool that follows them."""

import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import trio

from quorate.control.messages import NO_NODE, FetchMetadata, FetchMetadataAnswer
from quorate.errors import ErrorCode, KafkaError, RequestTimedOutError
from quorate.model import Endpoint
from quorate.quorum.metadata.codec import decode_batch
from quorate.quorum.metadata.snapshot import decode_image
from quorate.tools.controllers import RETRY_S, RemoteController
from quorate.tools.metadata.decided import Batch

WAIT_MS: Final = 30_000
PASSING: Final = frozenset(
    {ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER}
)
"""What a follower hears while controllers stop, start or elect: trying again mends it."""


async def read_feed(
    endpoints: Sequence[Endpoint],
    timeout_s: float,
    take: Callable[[Batch], None],
    tls: ssl.SSLContext | None,
) -> None:
    """Hand over all that is committed by now, from the first batch or snapshot that is left.

    Raises:
        KafkaError: no controller answers in time, or what it says.
    """
    with trio.move_on_after(timeout_s) as patience:
        async with trio.open_nursery() as nursery:
            remote = RemoteController(endpoints, NO_NODE, tls)
            await nursery.start(remote.run)
            version = 0
            while True:
                answer = await remote.call(FetchMetadata(version, 0))
                if answer.version <= version:
                    nursery.cancel_scope.cancel()
                    return
                for batch in batches_of(answer):
                    take(batch)
                version = answer.version
                patience.deadline = trio.current_time() + timeout_s
    raise RequestTimedOutError(f"no controller answered in {timeout_s:g} s")


async def follow_feed(
    endpoints: Sequence[Endpoint],
    take: Callable[[Batch], None],
    on_trouble: Callable[[KafkaError], None],
    tls: ssl.SSLContext | None,
) -> None:
    """Hand over all that was and will be committed, until cancelled.

    While no controller answers, it tries again; ``on_trouble`` is told, once each time.

    Raises:
        KafkaError: a controller refuses.
    """
    async with trio.open_nursery() as nursery:
        remote = RemoteController(endpoints, NO_NODE, tls)
        await nursery.start(remote.run)
        version = 0
        in_trouble = False
        while True:
            try:
                answer = await remote.call(FetchMetadata(version, WAIT_MS))
            except KafkaError as error:
                if error.code not in PASSING:
                    raise
                if not in_trouble:
                    on_trouble(error)
                in_trouble = True
                await trio.sleep(RETRY_S)
            else:
                in_trouble = False
                if answer.version > version:
                    for batch in batches_of(answer):
                        take(batch)
                    version = answer.version


def batches_of(answer: FetchMetadataAnswer) -> Iterator[Batch]:
    """Yield what an answer tells, in order."""
    if answer.snapshot is not None:
        image = decode_image(answer.snapshot)
        yield Batch(image.version, None, image=image)
    for batch in answer.batches:
        yield Batch(batch.version, batch.term or None, tuple(decode_batch(batch.records)))
