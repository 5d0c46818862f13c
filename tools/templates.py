r"""Formats of records: ``-f '%t %p %o %k %v\n'`` to print them, ``-f '%k %v'`` to read them.

The verbs are those of ``kcat`` and ``rpk``: %t topic, %p partition, %o offset, %k key, %v or %s
value, %T timestamp in ms, %h headers, %K, %V and %S lengths of key and value, %% a percent sign.
"""

import re
from collections.abc import Callable
from typing import Final

from quorate.records.record import Record
from quorate.tools.problems import UsageError

Render = Callable[[Record], bytes]

NULL: Final = b"NULL"

_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_TOKEN: Final = re.compile(r"%(.)|\\x([0-9A-Fa-f]{2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)


def _length(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


def headers_text(record: Record, between: bytes = b"=") -> bytes:
    """Return headers as ``name=value,name=value``, or with something else ``between``."""
    return b",".join(
        name.encode() + between + (NULL if value is None else value)
        for name, value in record.headers
    )


VERBS: Final[dict[str, Render]] = {
    "t": lambda r: r.topic.encode(),
    "p": lambda r: b"%d" % r.partition,
    "o": lambda r: b"%d" % r.offset,
    "k": lambda r: NULL if r.key is None else r.key,
    "v": lambda r: NULL if r.value is None else r.value,
    "s": lambda r: NULL if r.value is None else r.value,
    "T": lambda r: b"%d" % r.timestamp_ms,
    "h": headers_text,
    "K": lambda r: _length(r.key),
    "V": lambda r: _length(r.value),
    "S": lambda r: _length(r.value),
}


def _constant(data: bytes) -> Render:
    return lambda _: data


def unescape(text: str) -> bytes:
    r"""Return text with ``\n``, ``\t``, ``\x00`` and the like replaced."""
    parts = _TOKEN.findall(text)
    return b"".join(
        f"%{verb}".encode() if verb else _literal(byte, escaped, plain + other)
        for verb, byte, escaped, plain, other in parts
    )


def _literal(byte: str, escaped: str, plain: str) -> bytes:
    if byte:
        return bytes([int(byte, 16)])
    if escaped:
        return _ESCAPES.get(escaped, f"\\{escaped}".encode())
    return plain.encode()


def compile_output(template: str) -> Render:
    """Return a function from a record to its text.

    Raises:
        UsageError: the template has an unknown verb.
    """
    steps: list[Render] = []
    for verb, byte, escaped, plain, other in _TOKEN.findall(template):
        if verb == "%":
            steps.append(_constant(b"%"))
        elif verb:
            steps.append(_verb(verb))
        else:
            steps.append(_constant(_literal(byte, escaped, plain + other)))
    return lambda record: b"".join([step(record) for step in steps])


def _verb(verb: str) -> Render:
    if verb not in VERBS:
        raise UsageError(
            f"the format has no verb %{verb}",
            why="the verbs are %" + ", %".join(VERBS) + " and %%",
            hint=r"-f '%t %p %o %k %v\n'",
        )
    return VERBS[verb]


_INPUT_VERBS: Final = {"k": "key", "v": "value", "s": "value", "p": "partition", "h": "headers"}


def compile_input(template: str) -> re.Pattern[bytes]:
    """Return the pattern of a line with groups ``key``, ``value``, ``partition`` and ``headers``.

    Each field ends where the text behind it begins; the last one takes the rest of the line.

    Raises:
        UsageError: an unknown verb, one twice, or two without text in between.
    """
    pattern: list[bytes] = []
    after_verb = False
    text = template.removesuffix("\\n")
    for verb, byte, escaped, plain, other in _TOKEN.findall(text):
        if not verb or verb == "%":
            literal = b"%" if verb else _literal(byte, escaped, plain + other)
            pattern.append(re.escape(literal))
            after_verb = False
            continue
        name = _INPUT_VERBS.get(verb)
        if name is None or after_verb:
            why = "two fields need text between them" if after_verb else f"%{verb} cannot be read"
            raise _no_input(template, why)
        pattern.append(rf"(?P<{name}>\d+)".encode() if verb == "p" else f"(?P<{name}>.*?)".encode())
        after_verb = True
    try:
        return re.compile(b"".join(pattern), re.DOTALL)
    except re.error:
        raise _no_input(template, "a field stands there twice") from None


def _no_input(template: str, why: str) -> UsageError:
    return UsageError(
        f"{template!r} is no format to read records with",
        why=f"{why}; it takes %k, %v, %p and %h",
        hint="-f '%k %v'",
    )
