"""Trio shell of ``quorate txns``: asks how transactions stand, and ends them."""

from collections.abc import Mapping, Sequence

from quorate.client.admin import Admin
from quorate.client.transactions.describing import (
    OpenTransaction,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
    hanging_of,
)
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import TopicPartition
from quorate.tools.problems import CommandError
from quorate.tools.topics import Client


async def listed(
    client: Client, states: Sequence[str], open_for_ms: int | None, pattern: str | None
) -> list[TransactionListing]:
    """Return the transactional ids of all coordinators, or those that pass the filters."""
    async with client.admin() as admin:
        return await admin.list_transactions(
            states=states, open_for_ms=open_for_ms, pattern=pattern
        )


async def described(client: Client, wanted: Sequence[str]) -> list[TransactionDescription]:
    """Return how transactional ids stand; all of them, if none is named.

    Raises:
        CommandError: there is no such transactional id.
    """
    async with client.admin() as admin:
        names = wanted or [each.transactional_id for each in await admin.list_transactions()]
        found: list[TransactionDescription] = []
        for name, told in (await admin.describe_transactions(names)).items():
            if isinstance(told, QuorateError):
                raise explained(name, told)
            found.append(told)
        return found


def explained(name: str, error: QuorateError) -> QuorateError:
    """Return an error about a transactional id, with what to do if there is none."""
    if isinstance(error, KafkaError) and error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return CommandError(
            f"there is no transactional id {name!r}",
            why=f"{error.code.name}: its coordinator does not know it, or has forgotten it",
            hint="quorate txns list",
        )
    return error


async def producers(
    client: Client, topic: str, partition: int | None, broker_id: int | None
) -> dict[TopicPartition, list[ProducerDescription]]:
    """Return who writes to a topic, or to one partition of it."""
    async with client.admin() as admin:
        wanted = await _partitions_of(admin, topic, partition)
        return await _producers(admin, wanted, broker_id)


async def hanging(
    client: Client, topic: str | None, partition: int | None, broker_id: int | None, older_ms: int,
    now_ms: int,
) -> list[OpenTransaction]:  # fmt: skip
    """Return transactions that are open for longer and that no coordinator will end."""
    async with client.admin() as admin:
        topics = [topic] if topic is not None else await _topics(admin)
        wanted = [p for name in topics for p in await _partitions_of(admin, name, partition)]
        if broker_id is not None:
            wanted = [p for p in wanted if await admin.connected().leader_of(p) == broker_id]
        found = await _producers(admin, wanted, None)
        candidates = [
            each
            for where, its_producers in found.items()
            for producer in its_producers
            if producer.transaction_start_offset is not None
            and (each := OpenTransaction(where, producer)).open_ms(now_ms) >= older_ms
        ]
        if not candidates:
            return []
        ids = {each.producer.producer_id for each in candidates}
        known = await admin.list_transactions(producer_ids=ids)
        told = await admin.describe_transactions(each.transactional_id for each in known)
        described_as = {
            name: each for name, each in told.items() if isinstance(each, TransactionDescription)
        }
        return hanging_of(candidates, known, described_as)


async def producer_at(client: Client, partition: TopicPartition, offset: int) -> OpenTransaction:
    """Return the transaction that begins at an offset.

    Raises:
        CommandError: none does.
    """
    async with client.admin() as admin:
        found = await _producers(admin, [partition], None)
    open_ones = [p for p in found[partition] if p.transaction_start_offset is not None]
    for producer in open_ones:
        if producer.transaction_start_offset == offset:
            return OpenTransaction(partition, producer)
    offsets = ", ".join(str(each.transaction_start_offset) for each in open_ones)
    raise CommandError(
        f"no open transaction of {partition} begins at offset {offset}",
        why=f"open ones begin at {offsets}" if offsets else "none is open there",
        hint=f"quorate txns producers {partition.topic} --partition {partition.partition}",
    )


async def end(client: Client, transaction: OpenTransaction) -> None:
    """Write the marker that ends a transaction in one partition."""
    async with client.admin() as admin:
        await admin.abort_transaction(transaction.partition, transaction.producer)


async def fence(client: Client, names: Sequence[str]) -> Mapping[str, QuorateError | None]:
    """Fence the producers of transactional ids, so that what they have open is aborted."""
    async with client.admin() as admin:
        return await admin.fence_producers(names)


async def _topics(admin: Admin) -> list[str]:
    return [each.name for each in await admin.list_topics(include_internal=True)]


async def _partitions_of(admin: Admin, topic: str, partition: int | None) -> list[TopicPartition]:
    if partition is not None:
        return [TopicPartition(topic, partition)]
    view = await admin.connected().topic(topic)
    return [TopicPartition(topic, number) for number in sorted(view.partitions)]


async def _producers(
    admin: Admin, wanted: Sequence[TopicPartition], broker_id: int | None
) -> dict[TopicPartition, list[ProducerDescription]]:
    found: dict[TopicPartition, list[ProducerDescription]] = {}
    for where, told in (await admin.describe_producers(wanted, broker_id=broker_id)).items():
        if isinstance(told, QuorateError):
            raise told
        found[where] = told
    return found
