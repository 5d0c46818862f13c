"""quorate tui with a node: what its keys do is done, and it outlives the node."""

import asyncio  # noqa: TID251 - Textual's, not ours
import os
import subprocess
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from textual.pilot import Pilot

from quorate.client.sync import Admin, Producer
from quorate.tools.arguments import GlobalOptions
from quorate.tools.cli import run_command
from quorate.tools.topic_options import client_of
from quorate.tools.tui import following, gathering
from quorate.tools.tui.app import QuorateApp
from quorate.tools.tui.asked import Asked
from quorate.tools.tui.gathering import Gatherer
from quorate.tools.tui.main_screen import Mode
from quorate.tools.tui.running import local_cluster
from quorate.tools.tui.views.places import Place
from tests.compat import serving
from tests.integration.controllers import COMMAND, TIMEOUT_S, environment

pytestmark = pytest.mark.integration

DEADLINE_S = 60
HURRY_S = 0.2
"""How often the screen looks here; people have two seconds, which a test need not wait for."""

POLL_S = 0.05


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Generator[serving.Broker]:
    with serving.quorate({}, tmp_path_factory.mktemp("node")) as broker:
        yield broker


class Seat:
    """A screen in front of a node; waits for what is to be seen."""

    def __init__(self, app: QuorateApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.pilot.pause()

    async def type(self, text: str) -> None:
        names = {" ": "space", "/": "slash", ".": "full_stop", "=": "equals_sign"}
        await self.pilot.press(*(names.get(character, character) for character in text))
        await self.pilot.pause()

    async def command(self, text: str) -> None:
        await self.press("colon")
        await self.type(text)
        await self.press("enter")

    async def until(self, is_so: Callable[[str], bool]) -> str:
        """Wait until the screen's text is as it should be; return it."""
        give_up = time.monotonic() + DEADLINE_S
        while True:
            text = self.text()
            if is_so(text):
                return text
            assert time.monotonic() < give_up, text
            await self.pilot.pause(POLL_S)

    def text(self) -> str:
        main = self.app.main
        lines = [main.header_text]
        lines += [main.table.render_line(y).text for y in range(main.table.size.height)]
        over = getattr(self.app.screen, "lines", ())
        lines += ["".join(part.text for part in line) for line in over]
        return "\n".join(lines)


def test_a_topic_lives_and_dies_on_the_screen(node: serving.Broker) -> None:
    bootstrap = node.server.bootstrap

    async def main(seat: Seat) -> None:
        await create_orders(seat)
        await asyncio.to_thread(produce, bootstrap)
        await seat.press("l")
        await seat.until(lambda text: "value-9" in text and "k=v" in text)
        await set_retention(seat)
        await look_back(seat)
        await look_at_partitions(seat)
        await delete_orders(seat)

    look_at(bootstrap, node.data, main)


async def create_orders(seat: Seat) -> None:
    await seat.until(lambda text: "no topics yet" in text)
    await seat.press("ctrl+n")
    await seat.type("orders")
    await seat.press("enter", "2", "enter", "enter", "enter")
    await seat.until(lambda text: "orders" in text and "● ok" in text)


async def set_retention(seat: Seat) -> None:
    await seat.press("escape", "e")
    await seat.until(lambda _: seat.app.screen is not seat.app.main)
    await seat.type("retention.ms=5000")
    await seat.press("ctrl+s")
    await seat.until(lambda text: "+ retention.ms=5000" in text)
    await seat.press("enter")
    await seat.command("configs topic/orders")
    await seat.until(lambda text: "retention.ms" in text and "5000" in text)


async def look_back(seat: Seat) -> None:
    await seat.command("events")
    await seat.until(lambda text: "TopicCreated" in text and "by User:ANONYMOUS" in text)
    await seat.press("t")
    await seat.until(lambda text: "metadata@" in text and "term 1" in text)
    await seat.command("configs topic/orders")
    await seat.until(lambda text: "± retention.ms" in text)
    await seat.press("less_than_sign")
    await seat.until(lambda text: "nothing was set then" in text)
    await seat.press("escape")


async def look_at_partitions(seat: Seat) -> None:
    await seat.command("txns")
    await seat.until(lambda text: "nobody has written in transactions yet" in text)
    await seat.command("partitions orders")
    await seat.until(lambda text: "orders-1" in text and "▸1" in text)
    await seat.press("w")
    await seat.until(lambda text: "leads orders-0, as preferred" in text and "metadata@" in text)
    await seat.press("escape", "d")
    await seat.until(lambda text: "orders-0: ok" in text)
    await seat.press("escape")
    await seat.command("quorum")
    await seat.until(lambda text: "▸ leader" in text)


async def delete_orders(seat: Seat) -> None:
    await seat.command("topics")
    await seat.press("ctrl+d")
    await seat.type("orders")
    await seat.press("enter")
    await seat.until(lambda text: "no topics yet" in text)


def produce(bootstrap: str) -> None:
    with Producer(bootstrap) as producer:
        for number in range(10):
            headers = [("k", b"v")]
            producer.enqueue("orders", b"value-%d" % number, partition=1, headers=headers)


def look_at(bootstrap: str, data: Path, body: Callable[[Seat], object]) -> None:
    options = GlobalOptions(bootstrap=bootstrap)

    async def main() -> None:
        app = QuorateApp(
            Gatherer(Asked(options, client_of(options), data, ids=local_cluster(data)[1])),
            Place("topics"),
            Mode(can_write=True),
        )
        async with app.run_test(size=(160, 40)) as pilot:
            await pilot.pause()
            result = body(Seat(app, pilot))
            assert asyncio.iscoroutine(result)
            await result

    with (
        patch.dict(os.environ, environment()),
        patch.object(gathering, "INTERVAL_S", HURRY_S),
        patch.object(following, "DIRECTORY_S", HURRY_S),
    ):
        asyncio.run(main())


def test_an_open_transaction_has_details_and_one_that_is_over_when_it_is_described(
    node: serving.Broker,
) -> None:
    bootstrap = node.server.bootstrap
    options: dict[str, Any] = {"transactional_id": "paying"}

    async def main(seat: Seat) -> None:
        await seat.press("ctrl+w")
        with Producer(bootstrap, **options) as producer:
            with producer.transaction() as transaction:
                transaction.send("paid", b"1", partition=0)
                await seat.command("txns")
                await seat.until(lambda text: "▸ Ongoing" in text and "paid-0" in text)
            await seat.until(lambda text: "● CompleteCommit" in text and "paid-0" not in text)
            await seat.press("d")
            await seat.until(lambda text: "no partition takes part" in text and "epoch " in text)

    with Admin(bootstrap) as admin:
        admin.create_topic("paid")
    look_at(bootstrap, node.data, main)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["brokers"], "● in service"),
        (["quorum"], "▸ leader"),
        (["groups"], "no consumer groups yet"),
    ],
)
def test_one_frame_is_printed(
    node: serving.Broker, words: list[str], wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with patch.dict(os.environ, environment()):
        code = run_command(["tui", *words, "--once", "-b", node.server.bootstrap])
    told = capsys.readouterr()
    assert (code, told.err) == (0, "")
    assert "controller 1 term" in told.out
    assert wanted in told.out


def test_without_a_terminal_it_says_what_to_do(node: serving.Broker) -> None:
    command = [*COMMAND, "tui", "-b", node.server.bootstrap]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=environment(),
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--once" in done.stderr


def test_the_screen_outlives_its_node(tmp_path: Path) -> None:
    with serving.quorate({}, tmp_path / "node") as broker:
        bootstrap = broker.server.bootstrap

        async def main(seat: Seat) -> None:
            await seat.until(lambda text: "brokers 1/1" in text)
            os.kill(broker.node.popen.pid, 19)  # SIGSTOP: it hangs, which is worse than dying
            await seat.until(lambda text: "no broker answers" in text)
            await seat.press("down", "question_mark", "escape")
            os.kill(broker.node.popen.pid, 18)
            await seat.until(lambda text: "no broker answers" not in text)

        look_at(bootstrap, broker.data, main)


def test_whoever_is_started_meanwhile_is_found(node: serving.Broker) -> None:
    async def main(seat: Seat) -> None:
        told = await seat.until(lambda text: "It is asked again every" in text)
        assert "error: no broker at 127.0.0.1:1" in told
        os.environ["QUORATE_BOOTSTRAP"] = node.server.bootstrap
        await seat.until(lambda text: "brokers 1/1" in text)
        await seat.command("events")
        await seat.until(lambda text: "BrokerUnfenced" in text)

    with patch.dict(os.environ, {"QUORATE_BOOTSTRAP": "127.0.0.1:1"}):
        look_at("", node.data, main)
