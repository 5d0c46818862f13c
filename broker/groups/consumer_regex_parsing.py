"""Regular expressions as RE2 writes them, read to match names of topics and transactional ids.

A set of characters is a number with a bit for each that ASCII has, and one for all others, which
are not told apart: ``.`` matches them, and what excludes some characters, but nothing names them.
"""

import string
import sys
from typing import Final, TypeAlias

from quorate.broker.groups.consumer_errors import InvalidRegularExpressionError
from quorate.dataclass import dataclass
from quorate.errors import shortened

NESTING_MAX: Final = 100
REPEATS_MAX: Final = 1000
"""The largest count in braces, as in RE2."""

CharSet: TypeAlias = int
"""Which characters: bit n is the one with the code n."""

_OTHERS: Final = 128
"""The bit of characters that ASCII does not have."""


def bit_of(char: str) -> CharSet:
    """Return the set that a character of a name is in."""
    return 1 << min(ord(char), _OTHERS)


def chars(text: str) -> CharSet:
    """Return the characters of a text as a set, as far as they can be named."""
    found = 0
    for char in text:
        if char.isascii():
            found |= 1 << ord(char)
    return found


def _between(low: str, high: str) -> CharSet:
    return chars("".join(map(chr, range(ord(low), min(ord(high) + 1, _OTHERS)))))


ANY: Final = (1 << _OTHERS + 1) - 1
_LOWER, _UPPER = chars(string.ascii_lowercase), chars(string.ascii_uppercase)
_DIGITS: Final = chars(string.digits)
_SPACES: Final = chars("\t\n\f\r ")
WORD: Final = chars(string.ascii_letters + string.digits + "_")

_PERL: Final = {
    "d": _DIGITS,
    "D": ANY & ~_DIGITS,
    "w": WORD,
    "W": ANY & ~WORD,
    "s": _SPACES,
    "S": ANY & ~_SPACES,
}
_POSIX: Final = {
    "alnum": _LOWER | _UPPER | _DIGITS,
    "alpha": _LOWER | _UPPER,
    "ascii": ANY & ~(1 << _OTHERS),
    "blank": chars("\t "),
    "cntrl": _between("\0", "\x1f") | chars("\x7f"),
    "digit": _DIGITS,
    "graph": _between("!", "~"),
    "lower": _LOWER,
    "print": _between(" ", "~"),
    "punct": chars(string.punctuation),
    "space": _SPACES | chars("\v"),
    "upper": _UPPER,
    "word": WORD,
    "xdigit": chars(string.hexdigits),
}
_CONTROLS: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_AT: Final = {"A": "start", "z": "end", "b": "boundary", "B": "no boundary"}


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set."""

    allowed: CharSet


@dataclass(frozen=True, slots=True)
class At:
    """A place, without a character: ``start``, ``end``, ``boundary`` or ``no boundary``."""

    place: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other; nothing at all if there are none."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """Any of these."""

    options: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """From so many to so many times; None: without a limit."""

    part: "Node"
    least: int
    most: int | None


Node: TypeAlias = Chars | At | Sequence | Choice | Repeat


def parse(text: str) -> Node:
    """Return what an expression says.

    Raises:
        InvalidRegularExpressionError: it says nothing that RE2 understands, or uses classes of
            Unicode.
    """
    parser = _Parser(text)
    node = parser.choice()
    if parser.more():
        raise parser.error("unexpected )")
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._ignore_case = False

    def error(self, what: str) -> InvalidRegularExpressionError:
        """Return the error to raise; of a long expression, it repeats the beginning."""
        return InvalidRegularExpressionError(
            f"SubscribedTopicRegex `{shortened(self._text)}` is not a valid regular expression:"
            f" {what} (at character {self._at})."
        )

    def more(self) -> bool:
        return self._at < len(self._text)

    def choice(self) -> Node:
        """Read up to the end, or to a bracket that closes."""
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _take(self, what: str) -> bool:
        if not self._text.startswith(what, self._at):
            return False
        self._at += len(what)
        return True

    def _next(self, missing: str) -> str:
        if not self.more():
            raise self.error(missing)
        self._at += 1
        return self._text[self._at - 1]

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self.more() and self._text[self._at] not in "|)":
            part = self._part()
            if part is not None:
                parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _part(self) -> Node | None:
        """Return the next part; None for what stands for nothing, such as ``(?i)``."""
        char = self._next("")
        if char in "*+?":
            raise self.error("missing argument to repetition operator")
        special = {
            "(": self._group,
            "[": lambda: Chars(self._char_class()),
            ".": lambda: Chars(ANY),
            "^": lambda: At("start"),
            "$": lambda: At("end"),
            "\\": self._escaped,
        }.get(char)
        return self._literal(char) if special is None else special()

    def _literal(self, char: str) -> Chars:
        return Chars(self._cased(chars(char)))

    def _cased(self, found: CharSet) -> CharSet:
        if self._ignore_case:
            found |= (found & _LOWER) >> 32 | (found & _UPPER) << 32
        return found

    # --- groups and repetition ---------------------------------------------------

    def _group(self) -> Node | None:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise self.error("expression nests too deeply")
        ignore_case = self._ignore_case
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                self._group_name()
            elif self._flags():
                self._depth -= 1
                return None
        node = self.choice()
        if not self._take(")"):
            raise self.error("missing closing )")
        self._ignore_case = ignore_case
        self._depth -= 1
        return node

    def _group_name(self) -> None:
        end = self._text.find(">", self._at)
        name = self._text[self._at : max(end, self._at)]
        if not name or not name.isascii() or not name.replace("_", "a").isalnum():
            raise self.error("invalid named capture")
        self._at = end + 1

    def _flags(self) -> bool:
        """Read flags; return whether they stand alone and hold from here on."""
        on = True
        while True:
            match self._next("missing closing )"):
                case "-" if on:
                    on = False
                case "i":
                    self._ignore_case = on
                case "m" | "s" | "U":
                    pass  # names are one line, and whether they match is all we want
                case ":":
                    return False
                case ")":
                    return True
                case _:
                    raise self.error("invalid or unsupported Perl syntax")

    def _repeated(self, part: Node) -> Node:
        counts = self._counts()
        while counts is not None:
            part = Repeat(part, *counts)
            self._take("?")  # lazy or not makes no difference to whether a name matches
            counts = self._counts()
            if counts is not None:
                raise self.error("invalid nested repetition operator")
        return part

    def _counts(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        return self._braces()

    def _braces(self) -> tuple[int, int | None] | None:
        """Read a count in braces; braces that hold none are characters like others."""
        end = self._text.find("}", self._at)
        if end < 0 or not self._text.startswith("{", self._at):
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not _is_count(low) or (high and not _is_count(high)):
            return None
        least = _count(low)
        most = _count(high) if high else (None if comma else least)
        if max(least, most or 0) > REPEATS_MAX or (most is not None and most < least):
            raise self.error("invalid repeat count")
        self._at = end + 1
        return least, most

    # --- characters ----------------------------------------------------------------

    def _escaped(self) -> Node:
        char = self._next("trailing backslash at end of expression")
        if char in _AT:
            return At(_AT[char])
        if char == "Q":
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at : end if end >= 0 else len(self._text)]
            self._at = end + 2 if end >= 0 else len(self._text)
            return Sequence(tuple(self._literal(each) for each in quoted))
        return Chars(self._escaped_set(char))

    def _escaped_set(self, char: str) -> CharSet:
        if char in _PERL:
            return _PERL[char]
        return self._cased(chars(self._escaped_char(char)))

    def _escaped_char(self, char: str) -> str:
        """Return the character that an escape stands for."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x":
            return self._hexadecimal()
        if char in "01234567":
            return self._octal(char)
        if char.isascii() and not char.isalnum():
            return char
        raise self.error("invalid escape sequence")

    def _hexadecimal(self) -> str:
        if self._take("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : max(end, self._at)]
            self._at = end + 1
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += 2
        if not digits or len(digits) > 6 or not all(d in string.hexdigits for d in digits):
            raise self.error("invalid escape sequence")
        code = int(digits, 16)
        if code > sys.maxunicode:
            raise self.error("invalid escape sequence")
        return chr(code)

    def _octal(self, first: str) -> str:
        digits = first
        while len(digits) < 3 and self.more() and self._text[self._at] in "01234567":
            digits += self._next("")
        if first != "0" and len(digits) < 2:
            raise self.error("invalid escape sequence")  # would refer to a group
        return chr(int(digits, 8))

    def _char_class(self) -> CharSet:
        negated = self._take("^")
        found, first = 0, True
        while first or not self._take("]"):
            first = False
            if self._take("[:"):
                found |= self._posix()
                continue
            low = self._class_part()
            if isinstance(low, int):
                found |= low
                continue
            high = low
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                end = self._class_part()
                if isinstance(end, int) or end < low:
                    raise self.error("invalid character class range")
                high = end
            found |= self._cased(_between(low, high))
        return ANY & ~found if negated else found

    def _class_part(self) -> str | CharSet:
        """Return a character, or the set that an escape stands for."""
        char = self._next("missing closing ]")
        if char != "\\":
            return char
        char = self._next("trailing backslash at end of expression")
        return _PERL[char] if char in _PERL else self._escaped_char(char)

    def _posix(self) -> CharSet:
        negated = self._take("^")
        end = self._text.find(":]", self._at)
        name = self._text[self._at : max(end, self._at)]
        if name not in _POSIX:
            raise self.error("invalid character class range")
        self._at = end + 2
        found = self._cased(_POSIX[name])
        return ANY & ~found if negated else found


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _count(digits: str) -> int:
    """Return a count, or one that is too large: int() takes only so many digits."""
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= len(str(REPEATS_MAX)) else REPEATS_MAX + 1
