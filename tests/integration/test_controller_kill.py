"""A controller process that is killed again and again loses nothing that it acknowledged."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

import quorate

pytestmark = [pytest.mark.integration, pytest.mark.slow]

KILLS = int(os.environ.get("KILLS", "25"))

PROCESS = """
import json, sys, uuid
from pathlib import Path
from random import Random
import trio
from quorate.control import messages as m
from quorate.model import Endpoint
from quorate.quorum.controller import NO_LISTENER, Controller, alone
from quorate.quorum.directory import open_controller_directory
from quorate.quorum.metadata.features import SUPPORTED
from quorate.quorum.raft_node import inline
from quorate.settings import NodeConfig


def say(*words):
    print(json.dumps(words), flush=True)


async def main(path, life):
    directory = open_controller_directory(Path(path), 1, cluster_id=None)
    directory.found_alone(None, NO_LISTENER)
    controller = Controller(directory, NodeConfig(), Random(life), alone(inline))
    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(controller.run)
        quorum = await controller.handle(m.DescribeQuorum())
        say("ready", trio.current_time() - started, quorum.leader_epoch, controller.image.version,
            sorted(controller.image.topics))
        endpoints = {"P": Endpoint("h", 1)}
        features = tuple(SUPPORTED.values())
        register = m.RegisterBroker(
            1, uuid.uuid4().bytes, endpoints, directory_id=b"d", features=features
        )
        epoch = (await controller.handle(register)).broker_epoch
        await controller.handle(m.BrokerHeartbeat(1, epoch, controller.image.version))
        for task in range(8):
            nursery.start_soon(create_topics, controller, f"{life}-{task}")


async def create_topics(controller, prefix):
    number = 0
    while True:
        name = f"{prefix}-{number}"
        (topic,) = (await controller.handle(m.CreateTopics((m.NewTopic(name, 1),)))).topics
        assert topic.failure == m.DONE, topic
        say("created", name)
        number += 1


trio.run(main, sys.argv[1], int(sys.argv[2]))
"""


def live_and_die(path: Path, life: int, after_s: float) -> list[list[object]]:
    """Run the process until it was ready for a while, kill it, and return what it said."""
    root = str(Path(quorate.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(path), str(life)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert process.stdout is not None
    with process, process.stdout:
        said = [process.stdout.readline()]
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
        said += process.stdout.readlines()
    return [json.loads(line) for line in said if line.endswith(b"\n")]


def test_acknowledged_topics_survive_kills(tmp_path: Path) -> None:
    rng = Random(1)
    acknowledged: set[str] = set()
    term, version = 0, 0
    ready_s: list[float] = []
    for life in range(KILLS):
        (_, seconds, new_term, new_version, topics), *created = live_and_die(
            tmp_path, life, rng.uniform(0, 0.2)
        )
        assert acknowledged <= set(topics)  # type: ignore[call-overload]
        assert new_term > term  # type: ignore[operator]
        assert new_version >= version  # type: ignore[operator]
        term, version = new_term, new_version  # type: ignore[assignment]
        ready_s.append(float(seconds))  # type: ignore[arg-type]
        acknowledged |= {str(name) for _, name in created}
    assert len(acknowledged) > KILLS
    assert sorted(ready_s)[KILLS // 2] < 1
    print(f"{len(acknowledged)} topics, ready after {sorted(ready_s)[KILLS // 2]:.3f} s")  # noqa: T201
