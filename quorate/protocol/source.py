"""Generated Python: lines, the objects that they name, and how they become a function."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from struct import Struct
from typing import Any

from quorate.protocol.primitives import DecodeError, structs_by_count

SHORT_ARRAY_COUNTS = 33
_SHORT_ARRAYS: dict[str, list[Struct]] = {}


def _short_arrays(character: str) -> list[Struct]:
    if character not in _SHORT_ARRAYS:
        _SHORT_ARRAYS[character] = structs_by_count(character, SHORT_ARRAY_COUNTS)
    return _SHORT_ARRAYS[character]


class Source:
    """The text of one function that grows line by line.

    Every name that a line uses is a parameter, a temporary, a builtin, or was registered as a
    constant. Nothing that comes from a peer ever becomes part of the text.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._temporaries = 0
        self._constants: dict[str, Any] = {"DecodeError": DecodeError}

    def line(self, text: str) -> None:
        """Adds a line at the current depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Generator[None]:
        """Adds `header`; lines added inside the `with` are one level deeper."""
        self.line(header)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def temporary(self, prefix: str) -> str:
        """Returns a local name that nothing else uses."""
        self._temporaries += 1
        return f"{prefix}{self._temporaries}"

    def constant(self, name: str, value: object) -> str:
        """Makes `value` known as `name`; equal names must mean equal values."""
        assert self._constants.setdefault(name, value) == value, name
        return name

    def unpacker(self, characters: str) -> str:
        """Returns the name of a function that reads these numbers: `(buffer, pos) -> tuple`."""
        return self._struct_method("unpack", characters, Struct(">" + characters).unpack_from)

    def packer(self, characters: str) -> str:
        """Returns the name of a function that writes these numbers."""
        return self._struct_method("pack", characters, Struct(">" + characters).pack)

    def array_unpackers(self, character: str) -> str:
        """Returns the name of a list of functions: the one at index n reads n numbers."""
        readers = [each.unpack_from for each in _short_arrays(character)]
        return self._struct_method("unpack_array", character, readers)

    def array_packers(self, character: str) -> str:
        """Returns the name of a list of functions: the one at index n writes n numbers."""
        writers = [each.pack for each in _short_arrays(character)]
        return self._struct_method("pack_array", character, writers)

    def function(self, name: str, title: str) -> Callable[..., Any]:
        """Returns the function that the lines define; `title` is the file name in tracebacks."""
        assert self._depth == 0
        namespace = dict(self._constants)
        code = compile("\n".join(self._lines), f"<{title}>", "exec")
        exec(code, namespace)  # noqa: S102 the text is made of our own declarations only
        function: Callable[..., Any] = namespace[name]
        return function

    def _struct_method(self, action: str, characters: str, method: object) -> str:
        name = f"{action}_{characters.replace('?', 'B0')}"
        self._constants.setdefault(name, method)
        return name
