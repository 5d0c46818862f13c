"""Keys and what they do: one list for the screen's bindings, its help and the docs."""

from typing import Final

from quorate.dataclass import dataclass
from quorate.tools.tui.views import places


@dataclass(frozen=True, slots=True)
class Key:
    """A key.

    Attributes:
        keys: Textual's names of it, with commas.
        shown: What to call it.
        action: The name of what it does.
        meaning: What that is, for the help.
        label: The same in a word, for the last line of the screen; empty if it is not shown there.
        views: Where it works; empty for everywhere.
        writes: Whether it changes the cluster, and so needs ``--rw``.
    """

    keys: str
    shown: str
    action: str
    meaning: str
    label: str = ""
    views: tuple[str, ...] = ()
    writes: bool = False


_T, _B, _Q, _P = places.TOPICS, places.BROKERS, places.QUORUM, places.PARTITIONS
_G, _O, _C, _M = places.GROUPS, places.OFFSETS, places.CONFIGS, places.MESSAGES
_E, _X = places.EVENTS, places.TXNS

KEYS: Final = (
    Key("question_mark", "?", "help", "this help", "help"),
    Key("colon", ":", "command", "go to a view; tab completes", "view"),
    Key("slash", "/", "filter", "filter: a regex, !regex, column:regex", "filter"),
    Key("escape", "esc", "leave", "clear the filter, the marks; leave the past; go back"),
    Key("enter", "enter", "drill", "drill in", "open"),
    Key("d", "d", "describe", "describe: all that is known of it", "describe"),
    Key("w", "w", "why", "why it is as it is, with the records that say so", "why",
        (_P, _T, _B, _G, _O, _X)),
    Key("y", "y", "raw", "the row as JSON"),
    Key("l", "l", "tail", "follow the messages of the topic", "messages", (_T, _P, _O)),
    Key("p", "p", "pause", "stop following and refreshing, or go on", "pause", (_M,)),
    Key("space", "space", "mark", "mark the row; what takes several takes the marked"),
    Key("O", "shift-o", "sort_next", "sort by the next column; shift-i turns it round"),
    Key("I", "shift-i", "sort_turn", "turn the order round"),
    Key("N", "shift-n", "sort_name", "sort by the first column: name, id"),
    Key("A", "shift-a", "sort_age", "sort by the column that grows: time, lag, rate"),
    Key("S", "shift-s", "sort_state", "sort by state: the worst first"),
    Key("ctrl+w", "ctrl-w", "wide", "all columns, or those that fit"),
    Key("ctrl+r", "ctrl-r", "refresh", "look now; it looks by itself every 2 s"),
    Key("minus", "-", "last", "the view before this one, and back again"),
    Key("left_square_bracket", "[", "go_back", "back in the history"),
    Key("right_square_bracket", "]", "go_forward", "forward in the history"),
    Key("t", "t", "travel", "the past: the cluster after each decision; again: to a moment", "past",
        (_T, _P, _B, _C, _E)),
    Key("less_than_sign,comma", "<", "earlier", "in the past: one decision back"),
    Key("greater_than_sign,full_stop", ">", "later", "in the past: one decision on"),
    Key("ctrl+s", "ctrl-s", "save", "save the rows to a file, .csv or .json"),
    Key("ctrl+n", "ctrl-n", "create", "create a topic", "create", (_T,), writes=True),
    Key("a", "a", "add_partitions", "add partitions to the topic", "", (_T, _P), writes=True),
    Key("e", "e", "edit", "edit settings; shows a diff first", "edit", (_T, _B, _C), writes=True),
    Key("ctrl+d", "ctrl-d", "delete", "delete; the name is to be typed", "delete", (_T, _G),
        writes=True),
    Key("L", "L", "elect", "have the preferred replicas lead", "elect", (_T, _P), writes=True),
    Key("D", "D", "drain", "drain the broker, or let it lead again", "drain", (_B,), writes=True),
    Key("r", "r", "reset", "reset the group's offsets; shows a preview first", "reset", (_G, _O),
        writes=True),
    Key("x", "x", "chaos", "kill, pause, go on, start a node; only in a cluster of quorate up",
        "chaos", (_B, _Q, _P), writes=True),
    Key("ctrl+c", ":q ctrl-c", "quit_now", "quit"),
)  # fmt: skip


def keys_of(view: str, *, can_write: bool) -> list[Key]:
    """Return the keys that do something in a view."""
    return [
        key
        for key in KEYS
        if (not key.views or view in key.views) and (can_write or not key.writes)
    ]


def footer_of(view: str, *, can_write: bool, width: int = 1_000) -> list[tuple[str, str]]:
    """Return keys and words for the last line of the screen: those of the view first.

    There are as many as have room; each takes three columns more than its texts.
    """
    shown = [key for key in keys_of(view, can_write=can_write) if key.label]
    shown.sort(key=lambda key: (key.action != "help", not key.views))
    found: list[tuple[str, str]] = []
    for key in shown:
        width -= len(key.shown) + len(key.label) + 3
        if width >= 0:
            found.append((key.shown, key.label))
    return found
