"""Records out of lines of text, as console producers read them."""

import re

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.records.record import Header
from quorate.tools.problems import UsageError


class LineError(QuorateError):
    """A line is not what the options say it is."""


@dataclass(frozen=True, slots=True)
class NewRecord:
    """What is to be sent; without ``partition``, the partitioner chooses."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    partition: int | None


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How a line becomes a record.

    Attributes:
        pattern: with named groups ``key``, ``value``, ``partition`` and ``headers``; else the line
            is headers, key and value as far as there are separators for them.
        key_separator: what stands behind the key; None if lines have no key.
        headers_delimiter: what stands behind the headers; None if lines have none.
        key: of records whose lines have none.
        headers: of every record, before those of its line.
        partition: of records whose lines do not say.
        null_marker: a key or value that is this text is null.
        empty_is_null: so is an empty value.
        forgives: a line that lacks headers or a key has none, as with Kafka's ``ignore.error``.
    """

    pattern: re.Pattern[bytes] | None = None
    key_separator: bytes | None = None
    headers_delimiter: bytes | None = None
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    null_marker: bytes | None = None
    empty_is_null: bool = False
    forgives: bool = False

    def __post_init__(self) -> None:
        """Refuse separators that separate nothing.

        Raises:
            UsageError: one is empty.
        """
        separators = (
            self.key_separator,
            self.headers_delimiter,
            self.headers_separator,
            self.headers_key_separator,
        )
        if b"" in separators:
            raise UsageError(
                "a separator is empty", why="keys and headers end where it stands", hint="-K :"
            )

    def parse(self, line: bytes) -> NewRecord:
        """Return the record of a line (without its newline).

        Raises:
            LineError: the line lacks what the options say it has.
        """
        if self.pattern is not None:
            return self._match(self.pattern, line)
        headers = self.headers
        if self.headers_delimiter is not None:
            own, line = self._part(line, self.headers_delimiter, "headers")
            headers += self._headers(own or b"")
        key = self.key
        if self.key_separator is not None:
            text, line = self._part(line, self.key_separator, "key")
            key = self.key if text is None else self._null(text)
        return NewRecord(key, self._value(line), headers, self.partition)

    def _part(self, line: bytes, separator: bytes, what: str) -> tuple[bytes | None, bytes]:
        if self.forgives and separator not in line:
            return None, line
        return _cut(line, separator, what)

    def _match(self, pattern: re.Pattern[bytes], line: bytes) -> NewRecord:
        match = pattern.fullmatch(line)
        if match is None:
            raise LineError("it does not have the form that -f describes")
        found = {name: text for name, text in match.groupdict().items() if text is not None}
        return NewRecord(
            self._null(found["key"]) if "key" in found else self.key,
            self._value(found["value"]) if "value" in found else None,
            self.headers + self._headers(found.get("headers", b"")),
            int(found["partition"]) if "partition" in found else self.partition,
        )

    def _value(self, text: bytes) -> bytes | None:
        return None if self.empty_is_null and not text else self._null(text)

    def _null(self, text: bytes) -> bytes | None:
        return None if self.null_marker is not None and text == self.null_marker else text

    def _headers(self, text: bytes) -> tuple[Header, ...]:
        if not text:
            return ()
        return tuple(
            parse_header(part, self.headers_key_separator)
            for part in text.split(self.headers_separator)
        )


def parse_header(text: bytes, separator: bytes) -> Header:
    """Return a header from ``name<separator>value``.

    Raises:
        LineError: it has no separator, or its name is no text.
    """
    name, value = _cut(text, separator, "header's name")
    try:
        return name.decode(), value
    except UnicodeDecodeError:
        raise LineError("a header's name is not UTF-8") from None


def _cut(line: bytes, separator: bytes, what: str) -> tuple[bytes, bytes]:
    before, found, after = line.partition(separator)
    if not found:
        raise LineError(f"there is no {separator.decode(errors='replace')!r} behind the {what}")
    return before, after


class LineSplitter:
    """Cuts a stream of bytes into lines; it keeps what has no end yet."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete now, without their ends."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.removesuffix(b"\r") for line in lines]

    def finish(self) -> list[bytes]:
        """Return what is left at the end of the stream, if it is anything."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []
