"""How a test types what the pages say, where it is not simply run to its end (values only).

Every command of every page is run, in the order of the page (`tests/integration/pasting.py`),
and has to end with 0. So a new command needs a row here only if it

- is not run at all: NOT_RUN, with the reason;
- ends otherwise, asks something, or goes on until it is ended: WAYS;
- needs something that its page does not make: GIVEN.

A row whose command no page has any more fails a test.
"""

from dataclasses import dataclass
from typing import Final

CTRL_C: Final = "\x03"
CTRL_D: Final = "\x04"


@dataclass(frozen=True, slots=True)
class Way:
    """How a command is run; with a terminal of its own if it is typed into, or stays."""

    codes: tuple[int, ...] = (0,)
    """Exit codes that are no mistake."""

    types: str = ""
    """What the person types into it..."""

    once_shown: str = ""
    """...as soon as this can be seen; and when a command that stays may be left alone."""

    stays: bool = False
    """It goes on in its terminal, until the page ends."""

    ends: str = ""
    """What stays and begins like this is ended before, with Ctrl-C."""


ENDED: Final = (0, 130, -2)
"""By Ctrl-C; the last, before Python was there to see it."""
YES: Final = Way(types="y\n")
NODE: Final = Way(stays=True, once_shown="ready", codes=ENDED)
STARTING: Final = Way(stays=True, codes=ENDED)
"""As NODE, but ready only when others are."""
SCREEN: Final = Way(types=":q\r", once_shown="? help")
MAY_FIND: Final = Way(codes=(0, 3))

_SETUP: Final = "installs; the test has it installed"
_SHELL: Final = "sets up a shell; that of the test has quorate on its path"
_HOSTS: Final = "six hosts; tests/integration/test_replication_tls.py has TLS between processes"
_MINUTES: Final = "measures for minutes"
_SEEDS: Final = "simulates for minutes; tests/simulation runs fewer seeds"

NOT_RUN: Final = {
    "make setup": _SETUP,
    "pip install '.[spark]'": _SETUP,
    ". .venv/bin/activate": _SHELL,
    "source .venv/bin/activate": _SHELL,
    "make demo": "is tests/unit/tools/test_demo.py",
    "make test": "is what runs this",
    "quorate spark read orders --since -1h --to parquet:out/": "starts Spark: tests/compat/spark",
    "make bench": _MINUTES,
    "python -m quorate.tools.bench --quick": _MINUTES,
    "python -m quorate.tools.bench 'produce-*' 'e2e*'": _MINUTES,
    "python -m quorate.tools.bench --no-kafka --rounds 5": _MINUTES,
    "python -m quorate.tools.bench startup --startup-gigabytes 10": _MINUTES,
    "python -m quorate.tools.bench --name before": _MINUTES,
    "make sim-quorum COUNT=3000": _SEEDS,
    "make sim-quorum SEED=4711": _SEEDS,
    "make sim-brokers COUNT=3000": _SEEDS,
    "make sim SEED=4711 STEPS=20000": _SEEDS,
    "quorate controller start --id 101 --listen c1:9190 --join c1:9190,c2:9190,c3:9190"
    " --dir /var/lib/quorate --config tls.toml": _HOSTS,
    "quorate broker start --id 1 --listen b1:9092 --controllers c1:9190,c2:9190,c3:9190"
    " --rack a --dir /var/lib/quorate --config tls.toml": _HOSTS,
    "export QUORATE_BOOTSTRAP=b1:9092,b2:9092,b3:9092": _HOSTS,
}
"""Commands that the test leaves out, and why; they are parsed all the same (`test_docs.py`)."""

WAYS: Final = {
    # nodes, each in a terminal of its own
    "quorate up": NODE,
    "rm -r .quorate": Way(ends="quorate up"),
    "quorate up --brokers 3 --controllers 3": Way(stays=True, once_shown="nodes run", codes=ENDED),
    "quorate up --brokers 3 --controllers 3 --metrics": Way(
        stays=True, once_shown="nodes run", codes=ENDED
    ),
    "quorate up --dir alone -X quorate.metrics.listener=127.0.0.1:9308": Way(
        stays=True, once_shown="ready", ends="quorate up", codes=ENDED
    ),
    **{
        f"quorate controller start --id {node_id} --listen 127.0.0.1:{port}"
        f" --join $C --dir c{node_id}": way
        for node_id, port, way in (
            (1, 9190, STARTING),
            (2, 9191, STARTING),
            (3, 9192, NODE),
            (4, 9193, NODE),
            (101, 9190, STARTING),
            (102, 9191, STARTING),
            (103, 9192, NODE),
        )
    },
    **{
        f"quorate broker start --id {n} --port {9091 + n} --controllers $C --dir b{n}": NODE
        for n in (1, 2, 3, 4)
    },
    "quorate broker start --id 101 --port 9092 --controllers $C --dir b101": NODE,
    "rm -r c3": Way(ends="quorate controller start --id 3"),
    # screens, and what goes on until Ctrl-C
    "quorate tui": SCREEN,
    "quorate tui -b broker:9092 groups": SCREEN,
    "quorate tui messages orders @-1h": SCREEN,
    "quorate quorum watch -C $C": Way(types=CTRL_C, once_shown="term", codes=ENDED),
    "quorate metadata cat -C $C --follow --topic appLogs": Way(
        types=CTRL_C, once_shown="appLogs", codes=ENDED
    ),
    "quorate metadata shell -C $C": Way(types="ls\nexit\n", once_shown="> "),
    "quorate connect run connectors.toml": Way(types=CTRL_C, once_shown="orders", codes=ENDED),
    "quorate consume appLogs -g billing --from-beginning": Way(
        types=CTRL_C, once_shown="request 2", codes=ENDED
    ),
    "quorate kafka-console-producer --bootstrap-server localhost:9092 --topic orders"
    " --property parse.key=true --property key.separator=:": Way(types=f"a:1\nb:2\n{CTRL_D}"),
    # what asks first
    "quorate partitions reassign apply plan.json --throttle 50MB -w": YES,
    "quorate partitions reassign apply orders:0=1,2,3": YES,
    "quorate partitions reassign cancel": YES,
    "quorate brokers drain 2": YES,
    "quorate brokers decommission 2": YES,
    "quorate quorum remove 1 -C $C": YES,
    "quorate quorum remove 3 -C $C": YES,
    # what says how things are by its exit code
    "quorate partitions list --under-replicated --exit-code": MAY_FIND,
    "quorate doctor": MAY_FIND,
    "quorate doctor machine --dir /data --port 9092": MAY_FIND,
    "quorate verify run append --time 20 --faults directed:sleeping-followers --seed 1"
    " --inject-bug ack-before-isr": Way(codes=(3,)),
}

GIVEN: Final = {
    "docs/tui.md": ("quorate topics create orders",),
}
"""What is typed before the first command of a page, because its reader has that already."""

INSTEAD: Final = {
    "--time 20": "--time 3 --rate 100",
    "--time 10": "--time 2 --rate 100",
}
"""Words that the test replaces, to be done earlier."""
