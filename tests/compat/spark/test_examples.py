"""The examples of docs/spark.md do what the page says."""

import json
import re
from pathlib import Path
from typing import Any, Final

from quorate.client.sync import Admin, Consumer, Producer
from tests.compat.spark.conftest import ROOT

PAGE: Final = (ROOT / "docs/spark.md").read_text(encoding="utf-8")
EXAMPLES: Final[dict[str, str]] = dict(
    re.findall(r"```python\n# ([\w-]+)\n(.*?)```", PAGE, re.DOTALL)
)
HOUR_MS: Final = 1_767_258_000_000
"""2026-01-01T09:00Z."""


def example(name: str) -> Any:
    """Return the ``main`` of an example."""
    space: dict[str, Any] = {"__name__": name}
    exec(compile(EXAMPLES[name], f"docs/spark.md: {name}", "exec"), space)  # the page is ours
    return space["main"]


def make(servers: str, *topics: str) -> None:
    with Admin(servers) as admin:
        for topic in topics:
            admin.create_topic(topic, partitions=2)


def values(servers: str, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    found: list[tuple[bytes | None, bytes | None]] = []
    with Consumer(servers, auto_offset_reset="earliest") as consumer:
        consumer.assign_topics(topic)
        while len(found) < count:
            records = consumer.poll(timeout_ms=20_000)
            assert records
            found += [(record.key, record.value) for record in records]
    return sorted(found, key=repr)


def test_every_example_has_a_test() -> None:
    source = Path(__file__).read_text()
    assert set(EXAMPLES) == set(re.findall(r'example\("(\w+)"\)', source))
    assert PAGE.count("```python") == len(EXAMPLES)


def test_an_hour_is_replaced_by_itself(spark: Any, servers: str, tmp_path: Path) -> None:
    make(servers, "logs")
    with Producer(servers) as producer:
        for minute in range(-30, 90):
            producer.enqueue("logs", b"%d" % minute, timestamp_ms=HOUR_MS + minute * 60_000)
    for _ in range(2):
        example("hourly")(spark, servers, "logs", "2026-01-01T09:00", str(tmp_path))
    frame = spark.read.parquet(str(tmp_path))
    assert frame.count() == 60
    assert [row.hour for row in frame.select("hour").distinct().collect()] == ["2026-01-01T09"]


def test_sums_by_minute_go_on_where_they_were(spark: Any, servers: str, tmp_path: Path) -> None:
    make(servers, "amounts", "sums")
    for part in range(2):
        with Producer(servers) as producer:
            for second in range(part * 120, (part + 1) * 120):
                stamp = HOUR_MS + second * 1_000
                producer.enqueue("amounts", b"2", key=b"a", timestamp_ms=stamp)
        example("windows")(spark, servers, "amounts", "sums", str(tmp_path))
    sums = [json.loads(value or b"") for _, value in values(servers, "sums", 3)]
    assert [each["n"] for each in sums] == [120, 120, 120]
    assert len({each["minute"] for each in sums}) == 3


def test_a_stream_meets_the_last_value_of_each_key(
    spark: Any, servers: str, tmp_path: Path
) -> None:
    make(servers, "clicks", "users", "named")
    with Producer(servers) as producer:
        for key, name in ((b"1", b"Ann"), (b"2", b"Bob"), (b"1", b"Anna"), (b"2", None)):
            producer.send("users", name, key=key)
        for key in (b"1", b"2"):
            producer.send("clicks", b"click", key=key)
    example("join")(spark, servers, "clicks", "users", "named", str(tmp_path))
    assert values(servers, "named", 2) == [(b"1", b"click by Anna"), (b"2", b"click")]
