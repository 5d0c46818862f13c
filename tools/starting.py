"""Starting nodes from the command line: configuration, and what is printed when they serve.

The modules ``starting_...`` add what each kind of node needs, and none imports that of another.
"""

import json
import logging
import os
import shlex
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from quorate.broker.listeners import PLAINTEXT, Listener, parse_listeners
from quorate.dataclass import dataclass
from quorate.errors import InvalidConfigError
from quorate.setting_relations import NODE_DOUBTS, broken_rules
from quorate.settings import NodeConfig, node_values
from quorate.tools.arguments import DEFAULT_BOOTSTRAP, GlobalOptions
from quorate.tools.config_file import load_node_config
from quorate.tools.limits import allow_open_files
from quorate.tools.node import NodePlan, Ready, run_until_stopped
from quorate.tools.problems import UsageError
from quorate.tools.session import given_properties, note, run

PROCESS_STARTED_S = time.monotonic()

logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StartArguments:
    """What the command line says about a node; None where it says nothing.

    ``defaults`` are properties that hold unless the file or ``-X`` say otherwise. ``with_parent``:
    the node ends when its standard input does.
    """

    config: Path | None
    directory: Path | None
    port: int | None
    node_id: int | None
    defaults: dict[str, str]
    with_parent: bool = False


LOCAL_GROUP_PARTITIONS: Final = 8
"""Enough for the groups of one machine."""


def local_defaults(brokers: int) -> dict[str, str]:
    """Return how a cluster of so many brokers on one machine keeps its groups by default."""
    return {
        "offsets.topic.num.partitions": str(LOCAL_GROUP_PARTITIONS),
        "offsets.topic.replication.factor": str(min(3, brokers)),
        "transaction.state.log.num.partitions": str(LOCAL_GROUP_PARTITIONS),
        "transaction.state.log.replication.factor": str(min(3, brokers)),
        "transaction.state.log.min.isr": str(min(2, brokers)),
        "group.initial.rebalance.delay.ms": "0",  # nobody starts hundreds of consumers here
    }


def plan_node(options: GlobalOptions, arguments: StartArguments) -> NodePlan:
    """Return the node that the command line, the file and the properties describe; tell doubts.

    Raises:
        UsageError: a property is unknown or invalid, or contradicts another or an option.
    """
    properties = _with_options(given_properties(options), arguments)
    config, texts = load_node_config(arguments.config, properties, arguments.defaults)
    check_listeners(config)
    for doubt in broken_rules(NODE_DOUBTS, node_values(texts)):
        logger.warning(doubt)
    return NodePlan(config, texts)


def _with_options(given: dict[str, str], arguments: StartArguments) -> dict[str, str]:
    """Return properties with what options say.

    Raises:
        UsageError: a property says otherwise.
    """
    said = {
        "log.dir": ("--dir", arguments.directory),
        "listeners": ("--port", arguments.port),
        "node.id": ("--id", arguments.node_id),
    }
    properties = dict(given)
    for name, (option, value) in said.items():
        if value is None:
            continue
        text = f"{PLAINTEXT}://127.0.0.1:{value}" if option == "--port" else str(value)
        if given.get(name, text) != text:
            raise UsageError(
                f"{option} and {name} contradict each other",
                why=f"{option} {value} means {name}={text}, and {name}={given[name]} was given",
                hint=f"leave {option} or {name} out",
            )
        properties[name] = text
    return properties


def check_listeners(config: NodeConfig) -> None:
    """Refuse listeners that are none, before anything else is done.

    Raises:
        UsageError: what is wrong with them.
    """
    try:
        parse_listeners(config.listeners, "listeners")
        parse_listeners(config.advertised_listeners, "advertised.listeners")
    except InvalidConfigError as error:
        raise UsageError(
            error.message, why="INVALID_CONFIG", hint="PLAINTEXT://127.0.0.1:9092"
        ) from None


def run_node(
    options: GlobalOptions,
    arguments: StartArguments,
    main: Callable[[], Awaitable[None]],
    listeners: list[Listener],
) -> None:
    """Run a node until it is told to stop, then close its listeners."""
    allow_open_files()
    try:
        run(run_until_stopped, main, with_parent=arguments.with_parent)
    finally:
        for listener in listeners:
            listener.sock.close()
    note(options, "stopped cleanly")


def print_ready(options: GlobalOptions, plan: NodePlan, ready: Ready) -> None:
    """Print that a node serves, where, and what to try next."""
    took_s = _process_age_s()
    if options.format in {"json", "jsonl"}:
        event = {
            "event": "ready",
            "version": 1,
            "listeners": {name: str(endpoint) for name, endpoint in ready.endpoints.items()},
            "cluster_id": ready.cluster_id,
            "node_id": plan.config.node_id,
            "directory": str(ready.directory),
            "pid": os.getpid(),
            "metrics": None if ready.metrics is None else f"http://{ready.metrics}/metrics",
            "seconds": round(took_s, 3),
        }
        text = json.dumps(event)
    elif options.quiet:
        text = str(next(iter(ready.endpoints.values())))
    else:
        text = "\n".join(_welcome(plan, ready, took_s))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _welcome(plan: NodePlan, ready: Ready, took_s: float) -> list[str]:
    addresses = ", ".join(map(str, ready.endpoints.values()))
    lines = [
        f"node {plan.config.node_id} is ready at {addresses}, {took_s:.2f} s after its start",
        f"cluster {ready.cluster_id}, data in {ready.directory}",
        "",
    ]
    if ready.metrics is not None:
        lines.insert(2, f"metrics at http://{ready.metrics}/metrics")
    endpoint = ready.endpoints.get(PLAINTEXT)
    if endpoint is not None:
        b = "" if str(endpoint) == DEFAULT_BOOTSTRAP else f" -b {endpoint}"
        lines += [
            "try, in another terminal:",
            f"  quorate topics create appLogs --partitions 4{b}",
            f"  echo hello | quorate produce appLogs{b}",
            f"  quorate consume appLogs --from-beginning{b}",
            "or any Kafka client. ",
        ]
    elif ready.controllers:
        addresses = shlex.quote(",".join(map(str, ready.controllers)))
        lines += [
            "start brokers with:",
            f"  quorate broker start --id 2 --controllers {addresses} --dir .quorate-broker-2",
        ]
    return [*lines[:-1], f"{lines[-1].rstrip()}", "Ctrl-C stops this node."]


def _process_age_s() -> float:
    """Return how long ago this process began, interpreter included where that can be known."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s
    except (OSError, AttributeError, ValueError):
        return time.monotonic() - PROCESS_STARTED_S
