"""What a process is started with: streams closed, short of characters, or without a reader."""

import codecs
import io
import os
import sys
from typing import Any


def occupy_what_is_closed() -> None:
    """Have what is printed go nowhere if output is closed (``>&-``).

    Else the first file or socket that is opened gets its number, and what others print.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
            if name != "stdin":  # a command that would read it says that it is closed
                setattr(sys, name, os.fdopen(number, "w"))


def write_all_characters(stream: Any) -> None:
    r"""Have a stream write what its encoding lacks as ``\u2713``, which JSON reads, and not fail.

    Where it is UTF-8 that takes the place of errors only: names of files that are not UTF-8, which
    the C locale would write as they are, still are.
    """
    if not isinstance(stream, io.TextIOWrapper):
        return
    utf8 = codecs.lookup(stream.encoding).name == "utf-8"
    if not utf8 or stream.errors == "strict":
        codecs.register_error("quorate-escapes", _escaped)
        stream.reconfigure(errors="quorate-escapes")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = zip(units[::2], units[1::2], strict=True)
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in pairs), error.end


def forget_output() -> None:
    """Whoever read our output has gone: nothing may be written at the interpreter's end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
