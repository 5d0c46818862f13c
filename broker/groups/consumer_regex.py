"""Matches names with a regular expression, in a time that no expression can stretch.

Python's own ``re`` goes back and tries again: a few characters can keep it busy for years, and here
they come from anybody who may join a group, or list transactions. So, as in RE2, all ways through
an expression are followed at once, and sets of places that were met before are remembered with what
follows them.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from quorate.broker.groups.consumer_errors import InvalidRegularExpressionError
from quorate.broker.groups.consumer_regex_parsing import (
    WORD,
    At,
    Chars,
    CharSet,
    Choice,
    Node,
    Repeat,
    Sequence,
    bit_of,
    parse,
)

PLACES_MAX: Final = 2_000
"""Larger expressions are refused."""

STEPS_MAX: Final = 100_000
"""So much is done at most with one expression: about a tenth of a second, in which nobody else is
served. Usual expressions need a few hundred steps however many topics there are."""

KNOWN_MAX: Final = 20_000
"""So many transitions are remembered at most."""

_MATCH: Final = -1


class _Step(NamedTuple):
    """A place in an expression: take a character, or go on from a place, or two."""

    allowed: CharSet
    place: str
    then: tuple[int, ...]


class _State(NamedTuple):
    """Where one is: at these places of the expression, after a character of a word or not."""

    places: frozenset[int]
    begun: bool
    after_word: bool


class Regex:
    """A compiled expression."""

    def __init__(self, text: str, steps: list[_Step], first: int) -> None:
        self._text = text
        self._program = steps
        self._start = _State(frozenset((first,)), begun=False, after_word=False)
        self._known: dict[tuple[_State, str], _State | None] = {}
        self._ends: dict[_State, bool] = {}
        self._steps = 0

    def select(self, names: Iterable[str]) -> frozenset[str]:
        """Return the names that match as a whole.

        Raises:
            InvalidRegularExpressionError: it takes too long, with all names so far.
        """
        return frozenset(name for name in names if self._matches(name))

    def _matches(self, name: str) -> bool:
        state: _State | None = self._start
        for char in name:
            assert state is not None
            key = (state, char)
            if key in self._known:
                state = self._known[key]
            else:
                state = self._after(state, char)
                if len(self._known) >= KNOWN_MAX:
                    self._known.clear()
                    self._ends.clear()
                self._known[key] = state
            if state is None:
                return False
        assert state is not None
        ends = self._ends.get(state)
        if ends is None:
            ends = self._ends[state] = _MATCH in self._reached(state, None)
        return ends

    def _after(self, state: _State, char: str) -> _State | None:
        """Return where one is after a character; None if no way leads on."""
        bit = bit_of(char)
        following = {
            then
            for place in self._reached(state, char)
            if place != _MATCH and self._program[place].allowed & bit
            for then in self._program[place].then
        }
        if not following:
            return None
        return _State(frozenset(following), begun=True, after_word=bool(WORD & bit))

    def _reached(self, state: _State, char: str | None) -> set[int]:
        """Return the places that take a character, and whether the end is among them."""
        before_word = char is not None and bool(WORD & bit_of(char))
        here = {"": True, "start": not state.begun, "end": char is None}
        here["boundary"] = state.after_word != before_word
        here["no boundary"] = not here["boundary"]
        seen = set(state.places)
        waiting = list(seen)
        reached: set[int] = set()
        while waiting:
            place = waiting.pop()
            self._steps += 1
            if place == _MATCH or self._program[place].allowed:
                reached.add(place)
            elif here[self._program[place].place]:
                new = [then for then in self._program[place].then if then not in seen]
                seen.update(new)
                waiting += new
        if self._steps > STEPS_MAX:
            raise InvalidRegularExpressionError(
                f"SubscribedTopicRegex `{self._text}` takes too long to match with the topics that "
                "there are."
            )
        return reached


def compile_regex(text: str) -> Regex:
    """Return an expression that can be matched.

    Raises:
        InvalidRegularExpressionError: it is none that RE2 understands, or too large.
    """
    compiler = _Compiler(text)
    first = compiler.add(parse(text), _MATCH)
    return Regex(text, compiler.steps, first)


class _Compiler:
    """Lays an expression out as steps, from its end to its beginning."""

    def __init__(self, text: str) -> None:
        self.steps: list[_Step] = []
        self._text = text

    def add(self, node: Node, then: int) -> int:
        """Lay out a part that is followed by a place; return where it begins."""
        match node:
            case Chars(allowed):
                # What allows no character leads nowhere: a step on without a way.
                return self._step(_Step(allowed, "", (then,) if allowed else ()))
            case At(place):
                return self._step(_Step(0, place, (then,)))
            case Sequence(parts):
                for part in reversed(parts):
                    then = self.add(part, then)
                return then
            case Choice(options):
                return self._step(_Step(0, "", tuple(self.add(each, then) for each in options)))
            case repeat:
                return self._repeat(repeat, then)

    def _repeat(self, repeat: Repeat, then: int) -> int:
        part, least, most = repeat.part, repeat.least, repeat.most
        if most is None:
            loop = self._step(_Step(0, "", ()))
            self.steps[loop] = _Step(0, "", (self.add(part, loop), then))
            then = loop
        else:
            end = then
            for _ in range(most - least):
                then = self._step(_Step(0, "", (self.add(part, then), end)))
        for _ in range(least):
            then = self.add(part, then)
        return then

    def _step(self, step: _Step) -> int:
        if len(self.steps) >= PLACES_MAX:
            raise InvalidRegularExpressionError(
                f"SubscribedTopicRegex `{self._text}` is not a valid regular expression: it is too "
                "large."
            )
        self.steps.append(step)
        return len(self.steps) - 1
