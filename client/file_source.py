"""Trio shell: carries the lines of a file to a topic, each exactly once."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from quorate.client.admin import Admin
from quorate.client.catching_up import ensure_compacted, read_up
from quorate.client.connect.lines import Position, PositionError
from quorate.client.connector import ConnectorError
from quorate.client.consumer import Consumer
from quorate.client.following_files import FollowedFile
from quorate.client.producer import Producer
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from quorate.client.connect.config import FileSource
    from quorate.client.connector import Context
    from quorate.client.following_files import Piece
    from quorate.records.record import Record


async def run_file_source(source: FileSource, context: Context) -> None:
    """Carry lines until cancelled; with ``once``, up to the end of the file.

    The lines and the position behind them are one transaction. Opening the producer ends what a
    predecessor left open, and fences it, before the position is asked for.
    """
    producer = Producer(
        context.bootstrap,
        transactional_id=f"connect-{source.common.name}",
        linger_ms=0,
        **context.options,
    )
    async with producer:
        async with Admin(context.bootstrap, **context.options) as admin:
            position = await _stored_position(source, context, admin)
        at = 0 if position is None else position.offset
        context.tell(f"{source.path} goes to topic {source.topic}, from byte {at}")
        said = ""
        with FollowedFile(source) as file:
            while True:
                look = partial(file.read, position, is_last=context.once)
                piece = await trio.to_thread.run_sync(look)
                if piece.notice and piece.notice != said:
                    context.tell(piece.notice)
                said = piece.notice
                if piece.lines or (position is None and piece.position is not None):
                    # The first position of all is written down before anything is read: the file
                    # may be renamed before the first lines are committed.
                    await _write(source, context, producer, piece)
                position = piece.position
                if context.once and piece.is_last:
                    return
                if piece.is_end:
                    await trio.sleep(source.poll_interval_ms / 1000)


def _key(source: FileSource) -> bytes:
    """Return the key of a source's position; that of Kafka Connect has this form, too."""
    return json.dumps([source.common.name, {"filename": source.path}]).encode()


async def _stored_position(source: FileSource, context: Context, admin: Admin) -> Position | None:
    topic, wanted = context.offsets_topic, _key(source)
    try:
        await ensure_compacted(admin, topic, 1)
    except ValueError as error:
        raise ConnectorError(str(error)) from error
    found: list[bytes | None] = [None]

    def apply(record: Record) -> None:
        if record.key == wanted:
            found[0] = record.value

    consumer = Consumer[Any, Any](
        context.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        **context.options,
    )
    async with consumer:
        await read_up(admin, consumer, {TopicPartition(topic, 0): 0}, apply)
    if found[0] is None:
        return None
    try:
        return Position.from_json(json.loads(found[0]))
    except ValueError as error:
        message = f"topic {topic!r} has no position under {wanted!r}, but {found[0]!r}"
        raise PositionError(message) from error


async def _write(
    source: FileSource, context: Context, producer: Producer[bytes, bytes], piece: Piece
) -> None:
    assert piece.position is not None
    position = json.dumps(piece.position.to_json()).encode()
    async with producer.transaction() as tx:
        for line in piece.lines:
            await tx.enqueue(source.topic, line, key=source.key)
        await tx.enqueue(context.offsets_topic, position, key=_key(source), partition=0)
    context.counted.records += len(piece.lines)
