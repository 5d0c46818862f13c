"""What starting the command line imports: every module costs whoever types a command."""

import subprocess
import sys

SLOW = ("textual", "rich", "pyspark", "pyarrow", "numpy", "prometheus_client", "confluent_kafka")


def imported_by(*modules: str) -> set[str]:
    """Return all modules that there are once some have been imported."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {', '.join(modules)}; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


def test_listing_topics_imports_nothing_that_it_does_not_need() -> None:
    imported = imported_by(
        "quorate.tools.cli", "quorate.tools.commands.topics", "quorate.tools.topics",
        "quorate.tools.reaching",
    )  # fmt: skip
    assert not {name.partition(".")[0] for name in imported} & set(SLOW)
    assert not imported & {"quorate.broker.app", "quorate.settings"}


def test_a_controller_does_without_a_broker_and_a_broker_without_a_controller() -> None:
    controller = imported_by("quorate.tools.starting_controller")
    assert "quorate.quorum.controller" in controller
    assert not controller & {"quorate.broker.app", "quorate.broker.server", "quorate.broker.log"}
    broker = imported_by("quorate.tools.starting_broker")
    assert "quorate.broker.app" in broker
    assert not broker & {"quorate.quorum.controller", "pysyncobj"}


def test_a_node_that_starts_does_without_clients() -> None:
    commands = ("quorate.tools.cli", "quorate.tools.commands.broker", "quorate.tools.commands.up")
    nodes = ("quorate.tools.starting_broker", "quorate.tools.starting_up")
    assert not {name for name in imported_by(*commands, *nodes) if "quorate.client" in name}
