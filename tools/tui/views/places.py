"""Where one can be in the admin screen: views, what they are called, what follows a colon."""

import difflib
from collections.abc import Sequence
from typing import Final

from quorate.dataclass import dataclass

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
QUORUM: Final = "quorum"
PARTITIONS: Final = "partitions"
GROUPS: Final = "groups"
OFFSETS: Final = "offsets"
TXNS: Final = "txns"
CONFIGS: Final = "configs"
MESSAGES: Final = "messages"
EVENTS: Final = "events"
VERIFY: Final = "verify"

VIEWS: Final = {
    TOPICS: "topics: records, rate, size, what is wrong",
    BROKERS: "brokers: state, what they lead, what they have",
    QUORUM: "controllers: who leads, who lags, by how much",
    PARTITIONS: "partitions [TOPIC]: leader, replicas, log end, high watermark",
    GROUPS: "consumer groups: members, lag in records and seconds, trend",
    OFFSETS: "offsets GROUP: how far a group has read each partition, and who reads it",
    TXNS: "transactional ids: what is open, for how long, where",
    CONFIGS: "configs topic/NAME | broker/ID | broker/default",
    MESSAGES: "messages TOPIC [FROM]: follow it; FROM as in quorate consume -o",
    EVENTS: "events: what the controllers decided, when, and why",
    VERIFY: "runs of quorate verify on disk: verdict, load, faults; verify [FOLDER]",
}

ALIASES: Final = {
    "t": TOPICS, "topic": TOPICS, "b": BROKERS, "broker": BROKERS, "nodes": BROKERS,
    "controllers": QUORUM, "controller": QUORUM, "p": PARTITIONS, "partition": PARTITIONS,
    "g": GROUPS, "group": GROUPS, "consumers": GROUPS, "o": OFFSETS, "offset": OFFSETS,
    "lag": OFFSETS, "x": TXNS, "txn": TXNS, "transactions": TXNS, "c": CONFIGS, "config": CONFIGS,
    "m": MESSAGES, "message": MESSAGES, "msg": MESSAGES, "tail": MESSAGES, "consume": MESSAGES,
    "e": EVENTS, "event": EVENTS, "metadata": EVENTS, "v": VERIFY, "runs": VERIFY,
    "jepsen": VERIFY,
}  # fmt: skip
QUIT: Final = frozenset({"q", "q!", "quit", "exit", "wq"})
HELP: Final = frozenset({"help", "h", "?"})
NEED_ARGUMENT: Final = frozenset({OFFSETS, MESSAGES})


@dataclass(frozen=True, slots=True)
class Place:
    """A view, and what it is about: ``messages`` of ``orders``."""

    view: str
    argument: str = ""

    @property
    def title(self) -> str:
        """What to call it."""
        return f"{self.view} {self.argument}".strip()


@dataclass(frozen=True, slots=True)
class Command:
    """What somebody typed after a colon; exactly one of the four is so."""

    place: Place | None = None
    quits: bool = False
    helps: bool = False
    error: str = ""


def parse_command(text: str) -> Command:
    """Return what is meant, or what is wrong with it."""
    word, _, argument = text.strip().lstrip(":").strip().partition(" ")
    word, argument = word.lower(), argument.strip()
    if word in QUIT:
        return Command(quits=True)
    if word in HELP:
        return Command(helps=True)
    view = ALIASES.get(word, word)
    if view not in VIEWS:
        near = [
            name
            for names in (VIEWS, ALIASES)
            for name in difflib.get_close_matches(word, names, n=1, cutoff=0.5)
        ]
        meant = f"did you mean :{near[0]}?" if near else "there are " + " ".join(VIEWS)
        return Command(error=f"there is no view {word!r}; {meant}")
    if view in NEED_ARGUMENT and not argument:
        return Command(error=f":{VIEWS[view].partition(':')[0]} wants a name")
    return Command(Place(view, argument))


def completions(text: str, topics: Sequence[str], groups: Sequence[str]) -> list[str]:
    """Return the commands that a text may become, the likeliest first."""
    word, space, argument = text.partition(" ")
    if not space:
        return [name for name in (*VIEWS, "help", "quit") if name.startswith(word) and word]
    view = ALIASES.get(word, word)
    names: Sequence[str] = ()
    if view in (PARTITIONS, MESSAGES):
        names = topics
    elif view == OFFSETS:
        names = groups
    elif view == CONFIGS:
        names = ["broker/default", *(f"topic/{topic}" for topic in topics)]
    return [f"{word} {name}" for name in names if name.startswith(argument)]


@dataclass(frozen=True, slots=True)
class History:
    """Where one was: places, and which of them is shown."""

    places: tuple[Place, ...]
    at: int = 0

    @property
    def here(self) -> Place:
        """The place that is shown."""
        return self.places[self.at]

    def went(self, place: Place) -> "History":
        """Return the history after going somewhere: what lay ahead is forgotten."""
        if place == self.here:
            return self
        places = (*self.places[: self.at + 1], place)[-50:]
        return History(places, len(places) - 1)

    def back(self) -> "History":
        """Return the history one step back, if there is one."""
        return History(self.places, max(0, self.at - 1))

    def forward(self) -> "History":
        """Return the history one step ahead, if there is one."""
        return History(self.places, min(len(self.places) - 1, self.at + 1))
