"""Trio shell of ``quorate bench metadata``: makes topics, asks for them, deletes them, times it."""

import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

import trio

from quorate.client.admin import Admin, raise_first
from quorate.client.admin_results import NewTopic
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.tools.bench_figures import Requests
from quorate.tools.problems import CommandError
from quorate.tools.progress import Between
from quorate.tools.topics import Client

KNOWN_WAIT_S: Final = 30.0
KNOWN_POLL_S: Final = 0.02
CLEAN_UP_S: Final = 60.0
LATE_S: Final = 0.2
"""How long a broker may need to learn of a topic."""
DELETED_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What to make, and to delete again.

    Attributes:
        partitions: of each topic; None for the cluster's default, as ``replicas``.
        at_once: how many ask at the same time, on a connection each.
    """

    topics: int
    partitions: int | None
    replicas: int | None
    at_once: int


async def measure_topics(client: Client, plan: TopicPlan, between: Between) -> list[Requests]:
    """Create, describe and delete topics, one in a request; however it ends, they are gone.

    Raises:
        CommandError: brokers do not come to know the topics; or some may be left, because the
            cluster does not answer any more.
        QuorateError: one of the requests is refused.
    """
    prefix = f"quorate-bench-{os.urandom(4).hex()}-"
    names = [f"{prefix}{number}" for number in range(plan.topics)]
    async with client.admin():
        pass  # who cannot be reached has nothing that would have to be cleaned up
    try:
        created = await _measure(client, plan, names, "create", _creating(plan), between)
        await _wait_until_known(client, names)
        described = await _measure(client, plan, names, "describe", _describe, between)
        deleted = await _measure(client, plan, names, "delete", _delete, between)
    except BaseException:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + CLEAN_UP_S):
            await _clean_up(client, prefix)
        raise
    return [created, described, deleted]


Ask = Callable[[Admin, str], Awaitable[None]]


def _creating(plan: TopicPlan) -> Ask:
    async def create(admin: Admin, name: str) -> None:
        raise_first(await admin.create_topics([NewTopic(name, plan.partitions, plan.replicas)]))

    return create


async def _describe(admin: Admin, name: str) -> None:
    raise_first(await admin.describe_topics([name]))


async def _delete(admin: Admin, name: str) -> None:
    raise_first(await admin.delete_topics([name]))


async def _measure(
    client: Client, plan: TopicPlan, names: Sequence[str], what: str, ask: Ask, between: Between
) -> Requests:
    """Ask about every topic once, and take the time of each request."""
    took_ms: list[float] = []
    left: Iterator[str] = iter(names)
    connected = trio.Event()
    waiting = plan.at_once
    begun_s = 0.0

    async def work() -> None:
        nonlocal waiting, begun_s
        async with client.admin() as admin:
            waiting -= 1
            if not waiting:  # what connections cost is not counted
                begun_s = time.perf_counter()
                connected.set()
            await connected.wait()
            for name in left:
                if plan.at_once == 1:
                    between(len(took_ms), what)
                asked_s = time.perf_counter()
                await ask(admin, name)
                took_ms.append(1e3 * (time.perf_counter() - asked_s))

    async with trio.open_nursery() as nursery:
        for _ in range(plan.at_once):
            nursery.start_soon(work)
    return Requests(what, time.perf_counter() - begun_s, took_ms)


async def _wait_until_known(client: Client, names: Sequence[str]) -> None:
    async with client.admin() as admin:
        with trio.move_on_after(KNOWN_WAIT_S):
            while True:
                found = await admin.describe_topics(names)
                if not any(isinstance(each, QuorateError) for each in found.values()):
                    return
                await trio.sleep(KNOWN_POLL_S)
    raise CommandError(
        "topics that were created are not known",
        why=f"brokers did not learn of them for {KNOWN_WAIT_S:.0f} s", hint="quorate status",
    )  # fmt: skip


async def _clean_up(client: Client, prefix: str) -> None:
    """Delete what was made.

    Raises:
        CommandError: it cannot be.
    """
    try:
        await _delete_all(client, prefix)
    except QuorateError as error:
        raise CommandError(
            f"topics may be left that begin with {prefix}", why=str(error),
            hint=f"quorate topics rm --regex '{prefix}.*'",
        ) from error  # fmt: skip


async def _delete_all(client: Client, prefix: str) -> None:
    """Delete what is there, until twice nothing is: a request may still have been under way."""
    quiet = 0
    async with client.admin() as admin:
        while quiet < 2:
            there = [t.name for t in await admin.list_topics() if t.name.startswith(prefix)]
            quiet = 0 if there else quiet + 1
            if there:
                await admin.delete_topics(there[:DELETED_AT_ONCE])
            await trio.sleep(LATE_S)
