"""What the benchmark of readers measures, small: partitions are read side by side, crowds pass."""

import pytest
import trio

from quorate.client import Producer
from quorate.client.sync import Admin
from quorate.tools.bench import readers
from quorate.tools.bench.crowd import Crowd, Reader
from quorate.tools.bench.measuring import MeasurementFailedError
from quorate.tools.bench.topics import Address

pytestmark = pytest.mark.integration

SECONDS = 0.6
WORK_S = 0.05
"""Beside so long a wait, what a busy machine adds to each record does not count."""


async def filled(bootstrap: str, name: str, *, partitions: int, records: int) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=partitions)
    async with Producer(bootstrap) as producer:
        for n in range(records):
            await producer.enqueue(name, b"x", partition=n % partitions)


async def test_four_partitions_are_read_by_four_readers_faster_than_one_by_one(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "WORK_S", WORK_S)
    rates: list[float] = []
    for partitions in (1, 4):
        name = f"side-by-side-{partitions}"
        await filled(bootstrap, name, partitions=partitions, records=100 * partitions)
        rates.append(await readers.read_slowly(bootstrap, name, partitions, SECONDS))
    assert rates[1] > 2 * rates[0]


async def test_a_crowd_comes_reads_all_there_is_and_goes(bootstrap: str) -> None:
    await filled(bootstrap, "crowded", partitions=1, records=10)
    address = Address.parse(bootstrap)
    crowd = Crowd(lambda: Reader(address, "crowded", last_offset=9))
    run = trio.to_thread.run_sync
    await run(lambda: crowd.run(readers=50, per_s=200, stay_s=0.5))
    assert (crowd.told.came, crowd.told.finished) == (50, 50)
    assert crowd.told.there_at_once > 25


def test_a_crowd_that_disturbs_a_reader_too_much_fails_the_sample() -> None:
    alone = [1.0] * 600
    assert readers.in_peace(alone, [2.9] * 600)["most_ratio"] == pytest.approx(2.9)
    assert readers.in_peace(alone, [*[1.0] * 400, *[99.0] * 200])["most_ratio"] == pytest.approx(
        1.0
    )
    with pytest.raises(MeasurementFailedError, match=r"3.1 times .* \(1.00 ms\)"):
        readers.in_peace(alone, [3.1] * 600)
