"""Kafka Streams, exactly once."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quorate.client import sync
from tests.compat.clients.model import TopicSpec
from tests.compat.peers import cache, java

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.compat.clients.model import Server
    from tests.compat.clients.ours import Ours

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Java kafka-streams")]

DEADLINE_S = 90.0
LINES = [f"all streams lead to {place}" for place in ("kafka", "trio", "kafka", "rome")] * 10
WORDS = [word for line in LINES for word in line.split()]


@contextmanager
def word_count(server: Server, words: list[str], log: Path) -> Generator[subprocess.Popen[bytes]]:
    """Run the program until the end of the block."""
    jars = java.streams_folder()
    classes = java.compile_java(Path(__file__).parent / "streams", jars=jars)
    command = java.java_command(
        "WordCount",
        [server.bootstrap, *words],
        options=java.TOOL_OPTIONS,
        classes=[classes],
        jars=jars,
    )
    with (
        log.open("ab") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as program,
    ):
        try:
            yield program
        finally:
            program.send_signal(signal.SIGKILL)


def counts_of(
    consumer: sync.Consumer, found: dict[str, list[int]], total: int, log: Path
) -> dict[str, list[int]]:
    """Read until so many counts are committed."""
    deadline = time.monotonic() + DEADLINE_S
    while sum(map(len, found.values())) < total:
        assert time.monotonic() < deadline, f"{dict(found)}\n{log.read_text()[-3000:]}"
        for record in consumer.poll(timeout_ms=200):
            assert record.key is not None
            found[record.key.decode()].append(int.from_bytes(record.value or b"", "big"))
    return found


@pytest.mark.feature("word count, processing.guarantee=exactly_once_v2, killed in between")
def test_words_are_counted_exactly_once(
    server: Server, topic: str, ours: Ours, tmp_path: Path
) -> None:
    try:
        java.streams_folder()
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)
    output, log = f"{topic}-out", tmp_path / "log"
    for name in (topic, output):
        ours.create(server, TopicSpec(name))
    words = [topic, topic, output, str(tmp_path / "state")]
    found: dict[str, list[int]] = defaultdict(list)
    half = len(LINES) // 2
    with (
        sync.Producer(server.bootstrap) as producer,
        sync.Consumer(
            server.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer,
    ):
        consumer.assign([(output, 0)])
        for line in LINES[:half]:
            producer.enqueue(topic, line.encode())
        producer.flush()
        with word_count(server, words, log):
            counts_of(consumer, found, len(" ".join(LINES[:half]).split()), log)
            for line in LINES[half : half + 4]:
                producer.send(topic, line.encode())
        # killed, in the middle of a transaction or not
        for line in LINES[half + 4 :]:
            producer.enqueue(topic, line.encode())
        producer.flush()
        with word_count(server, words, log):
            counts_of(consumer, found, len(WORDS), log)
    assert {word: found[word] for word in found} == {
        word: list(range(1, WORDS.count(word) + 1)) for word in set(WORDS)
    }
