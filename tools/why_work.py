"""Asks the cluster why: reads the metadata log and coordinators', measures, has answers made."""

import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

from quorate.broker.shards.topics import TRANSACTIONS_TOPIC
from quorate.client.admin_results import OffsetSpec
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import Endpoint, TopicPartition
from quorate.records.record import Record
from quorate.tools import txns_work
from quorate.tools import why_looking as looking
from quorate.tools.arguments import GlobalOptions
from quorate.tools.groups_work import described, lags_of, with_times
from quorate.tools.metadata.decided import Batch, Decided, Reader
from quorate.tools.metadata.directory import batches_of, controller_folder
from quorate.tools.metadata_feed import read_feed
from quorate.tools.problems import UsageError
from quorate.tools.quorum_work import wall_clock_ms
from quorate.tools.reaching import client_of, find_controllers, tls_of
from quorate.tools.topics import Client
from quorate.tools.why.answer import Answer
from quorate.tools.why.answers import (
    deleted_answer,
    why_isr,
    why_lag,
    why_leader,
    why_offline,
    why_rebalance,
)
from quorate.tools.why.groups import GroupReader, coordinating_partition
from quorate.tools.why.looks import Reached
from quorate.tools.why.past import Past, past_of, pasts_of
from quorate.tools.why.producers import (
    TransactionReader,
    why_rejected_commits,
    why_rejected_producer,
)
from quorate.tools.why.rejected import why_rejected
from quorate.tools.why.stuck import why_stuck

READING_S: Final = 5.0
"""How long to read a coordinator's log; what is not read by then is not told."""
PARTITION_QUESTIONS: Final = {"leader": why_leader, "isr": why_isr, "offline": why_offline}


@dataclass(frozen=True, slots=True)
class Asked:
    """Whom to ask: brokers, and controllers or a directory of one of them."""

    client: Client
    controllers: Sequence[Endpoint]
    timeout_s: float
    tls: ssl.SSLContext | None = None
    directory: Path | None = None


async def whom_to_ask(
    options: GlobalOptions, environment: Mapping[str, str], directory: Path | None = None
) -> Asked:
    """Return whom the options name; brokers tell where the controllers are.

    Raises:
        QuorateError: nobody answers.
    """
    controllers: list[Endpoint] = []
    if directory is None:
        controllers = await find_controllers(options, environment)
    client = client_of(options, environment)
    return Asked(client, controllers, options.timeout_s, tls_of(options), directory)


async def read_decided(asked: Asked) -> list[Decided]:
    """Return every metadata record that is left.

    Raises:
        QuorateError: no controller answers, or the directory is damaged.
    """
    reader = Reader()
    return [decided for batch in await read_batches(asked) for decided in reader.read(batch)]


async def read_batches(asked: Asked) -> list[Batch]:
    """Return every batch of metadata records that is left, oldest first.

    Raises:
        QuorateError: no controller answers, or the directory is damaged.
    """
    batches: list[Batch] = []
    if asked.directory is not None:
        batches += batches_of(controller_folder(asked.directory))
    else:
        await read_feed(asked.controllers, asked.timeout_s, batches.append, asked.tls)
    return batches


async def ask_about_partition(asked: Asked, question: str, partition: TopicPartition) -> Answer:
    """Answer ``leader``, ``isr`` or ``offline``.

    Raises:
        QuorateError: there never was such a partition, or nobody answers.
    """
    return PARTITION_QUESTIONS[question](await read_decided(asked), partition)


async def ask_about_rebalance(asked: Asked, group_id: str) -> Answer:
    """Answer why a group rebalanced.

    Raises:
        QuorateError: there is no such group, or nobody answers.
    """
    decided = await read_decided(asked)
    place = coordinating_partition(decided, group_id)
    async with asked.client.admin() as admin:
        (group,) = await described(admin, [group_id])
    reader = await _read_group(asked, group_id, place)
    return why_rebalance(decided, group, reader.generations, place)


async def ask_about_lag(asked: Asked, group_id: str, topics: Sequence[str] = ()) -> Answer:
    """Answer why a group is behind, in some topics or all.

    Raises:
        QuorateError: there is no such group, or nobody answers.
    """
    decided = await read_decided(asked)
    async with asked.client.admin() as admin:
        groups = await described(admin, [group_id])
        lags = await lags_of(admin, groups)
    lags = [lag for lag in lags if not topics or lag.partition.topic in topics]
    lags = await with_times(asked.client, lags)
    reader = await _read_group(asked, group_id, coordinating_partition(decided, group_id))
    return why_lag(decided, groups[0], lags, reader.generations, reader.commits)


async def ask_about_stuck(asked: Asked, partition: TopicPartition) -> Answer:
    """Answer why a partition's high watermark, last stable offset or move stands still.

    Raises:
        QuorateError: there never was such a partition, or nobody answers.
    """
    decided = await read_decided(asked)
    past = past_of(decided, partition)
    standing = None if past is None else await looking.standing_of(asked.client, past)
    return why_stuck(decided, partition, standing)


async def ask_about_writes(asked: Asked, topic: str, number: int | None) -> Answer:
    """Answer why writes to a topic, or to one partition of it, are refused.

    Raises:
        QuorateError: there never was such a partition, or nobody answers.
    """
    decided = await read_decided(asked)
    pasts = pasts_of(decided, topic, number)
    if not pasts:
        return deleted_answer(decided, TopicPartition(topic, number or 0))
    async with asked.client.admin() as admin:
        reached = await looking.reached_by_number(admin, pasts)
        settings = await looking.settings_of(admin, topic)
    subject = topic if number is None else pasts[0].name
    return why_rejected(decided, subject, pasts, reached, settings, wall_clock_ms())


async def ask_about_producer(asked: Asked, transactional_id: str) -> Answer:
    """Answer which writes of a transactional id are refused.

    Raises:
        QuorateError: there is no such transactional id, or nobody answers.
    """
    decided = await read_decided(asked)
    place = coordinating_partition(decided, transactional_id, TRANSACTIONS_TOPIC)
    (told,) = await txns_work.described(asked.client, [transactional_id])
    now_ms = wall_clock_ms()
    reader = TransactionReader(transactional_id)
    await _read_log(asked, place, reader.take)
    coordinated = await _coordinated(asked, decided, place)
    return why_rejected_producer(decided, told, reader.written, coordinated, now_ms)


async def ask_about_commits(asked: Asked, group_id: str) -> Answer:
    """Answer which commits of a group are refused.

    Raises:
        QuorateError: there is no such group, or nobody answers.
    """
    decided = await read_decided(asked)
    place = coordinating_partition(decided, group_id)
    async with asked.client.admin() as admin:
        (group,) = await described(admin, [group_id])
    now_ms = wall_clock_ms()
    reader = await _read_group(asked, group_id, place)
    coordinated = await _coordinated(asked, decided, place)
    return why_rejected_commits(decided, group, reader.generations, coordinated, now_ms)


async def _coordinated(
    asked: Asked, decided: Sequence[Decided], place: TopicPartition
) -> tuple[Past, Reached | None]:
    """Return the partition of a coordinator, and what its leader answers."""
    (past,) = pasts_of(decided, *place)
    async with asked.client.admin() as admin:
        reached = await looking.reached_by_number(admin, [past])
    return past, reached.get(place.partition)


async def _read_group(asked: Asked, group_id: str, place: TopicPartition) -> GroupReader:
    """Read what the log of groups has of a group; nothing, if it cannot be read."""
    reader = GroupReader(group_id)
    await _read_log(asked, place, reader.take)
    return reader


async def _read_log(asked: Asked, place: TopicPartition, take: Callable[[Record], None]) -> None:
    """Read a coordinator's log, as far as it can be read soon."""
    async with asked.client.admin() as admin:
        ends = await admin.list_offsets({place: OffsetSpec.LATEST})
        starts = await admin.list_offsets({place: OffsetSpec.EARLIEST})
    end, start = ends[place], starts[place]
    if isinstance(end, QuorateError) or isinstance(start, QuorateError):
        return
    at = start.offset
    with trio.move_on_after(READING_S):
        async with asked.client.consumer() as consumer:
            consumer.assign([place])
            consumer.seek(place, at)
            while at < end.offset:
                records = await consumer.poll(timeout_ms=500)
                if not records and (await consumer.position(place)) >= end.offset:
                    break
                for record in records:
                    take(record)
                    at = record.offset + 1


def parse_topic(text: str) -> tuple[str, int | None]:
    """Return the topic that a text names, and the number of a partition of it, if it has one.

    Only a colon parts them: ``orders-0`` may be the name of a topic.
    """
    topic, _, number = text.rpartition(":")
    return (topic, int(number)) if topic and number.isdecimal() else (text, None)


def parse_partition(text: str) -> TopicPartition:
    """Return the partition that a text names: ``orders-0`` or ``orders:0``.

    Raises:
        UsageError: it names none.
    """
    at = max(text.rfind("-"), text.rfind(":"))
    topic, number = text[:at], text[at + 1 :]
    if at < 1 or not number.isdecimal():
        raise UsageError(
            f"{text!r} names no partition",
            why="a partition is its topic's name, a colon and a number",
            hint="quorate why leader orders:0",
        )
    return TopicPartition(topic, int(number))
