"""Compiles writers: straight-line Python that encodes one version of one message in parts."""

import struct
from collections.abc import Callable
from typing import Any

from quorate.protocol.fields import FIXED, FRESH, NUMBERS, Field, layout_of
from quorate.protocol.primitives import uvarint
from quorate.protocol.source import SHORT_ARRAY_COUNTS, Source

TAG_MAX = 127
"""Tags that we declare fit into one byte."""


def compile_writer(cls: type[Any], version: int) -> Callable[..., None]:
    """Returns `(message, parts) -> None` for one version."""
    flexible = version in layout_of(cls).flexible
    return _Writer(version=version, flexible=flexible).compile(cls)


class _Writer:
    """Writes the source of one writer. In it, `a` is the bytearray that grows.

    What has a fixed size is only noted down at first, as characters for `struct` and values; all
    that was noted down is written by one call as soon as anything else is to be written.
    """

    def __init__(self, *, version: int, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible
        self._noted: list[tuple[str, str]] = []
        self._source = Source()
        self._source.constant("uvarint", uvarint)
        self._source.constant("pack", struct.pack)

    def compile(self, cls: type[Any]) -> Callable[..., None]:
        source = self._source
        with source.block("def write(o, parts):"):
            source.line("a = parts.pop() if parts else bytearray()")
            self._struct("o", cls)
            self._write_noted()
            source.line("parts.append(a)")
        return source.function("write", f"{cls.__name__} v{self._version} writer")

    def _note(self, character: str, value: str) -> None:
        self._noted.append((character, value))

    def _write_noted(self) -> None:
        if self._noted:
            self._source.line(f"a += {self._packed(self._noted)}")
            self._noted.clear()

    def _packed(self, noted: list[tuple[str, str]]) -> str:
        pack = self._source.packer("".join(character for character, _ in noted))
        return f"{pack}({', '.join(value for _, value in noted if value)})"

    def _struct(self, value: str, cls: type[Any]) -> None:
        layout = layout_of(cls)
        for field in layout.untagged(self._version):
            self._field(f"{value}.{field.name}", field)
        if not self._flexible:
            return
        tagged = layout.tagged(self._version)
        if tagged:
            self._tags(value, layout.name, tagged)
        else:
            self._note("x", "")

    def _field(self, value: str, field: Field) -> None:
        if field.kind in FIXED and not field.is_array:
            self._note(FIXED[field.kind].character, value)
            return
        source = self._source
        local = source.temporary("v")
        source.line(f"{local} = {value}")
        if self._version not in field.nullable:
            self._present(local, field)
            return
        # Either branch writes what was noted down before, each together with what it adds.
        before = list(self._noted)
        with source.block(f"if {local} is None:"):
            self._note(*self._null(field))
            self._write_noted()
        self._noted = before
        with source.block("else:"):
            if field.kind == "struct" and not field.is_array:
                self._note("b", "1")
            self._present(local, field)
            self._write_noted()

    def _null(self, field: Field) -> tuple[str, str]:
        if field.kind == "struct" and not field.is_array:
            return "b", "-1" if field.tag is None else "0"
        if self._flexible:
            return "x", ""
        return "h" if field.kind == "string" and not field.is_array else "i", "-1"

    def _present(self, value: str, field: Field) -> None:
        if field.is_array:
            self._array(value, field)
        else:
            self._value(value, field)

    def _value(self, value: str, field: Field) -> None:
        """One value, or one element of an array."""
        source = self._source
        if field.struct is not None:
            self._struct(value, field.struct)
            return
        if field.kind in FIXED:
            self._note(FIXED[field.kind].character, value)
            return
        if field.kind == "string":
            source.line(f"{value} = {value}.encode()")
        self._length(value, character="h" if field.kind == "string" else "i")
        self._write_noted()
        if field.kind == "records":
            assert field.tag is None
            source.line(f"parts.append(a); parts.append({value}); a = bytearray()")
        else:
            source.line(f"a += {value}")

    def _length(self, value: str, *, character: str) -> None:
        source = self._source
        if not self._flexible:
            self._note(character, f"len({value})")
            return
        n = source.temporary("n")
        source.line(f"{n} = len({value}) + 1")
        if self._noted:
            source.line(f"if {n} < 128: a += {self._packed([*self._noted, ('B', n)])}")
            source.line(f"else: a += {self._packed(self._noted)} + uvarint({n})")
            self._noted.clear()
        else:
            source.line(f"if {n} < 128: a.append({n})")
            source.line(f"else: a += uvarint({n})")

    def _array(self, value: str, field: Field) -> None:
        source = self._source
        self._length(value, character="i")
        self._write_noted()
        if field.kind in NUMBERS:
            character = FIXED[field.kind].character
            short = f"{source.array_packers(character)}[len({value})](*{value})"
            long = f"pack('>%d{character}' % len({value}), *{value})"
            source.line(f"a += {short} if len({value}) < {SHORT_ARRAY_COUNTS} else {long}")
            return
        item = source.temporary("x")
        with source.block(f"for {item} in {value}:"):
            self._value(item, field)
            self._write_noted()

    def _tags(self, value: str, owner: str, tagged: list[Field]) -> None:
        source = self._source
        self._write_noted()
        conditions = [self._differs_from_default(f"{value}.{f.name}", owner, f) for f in tagged]
        source.line(f"if not ({' or '.join(conditions)}): a.append(0)")
        with source.block("else:"):
            source.line(f"a.append({' + '.join(f'bool({condition})' for condition in conditions)})")
            for field, condition in zip(tagged, conditions, strict=True):
                assert field.tag is not None
                assert field.tag <= TAG_MAX
                outer = source.temporary("w")
                with source.block(f"if {condition}:"):
                    source.line(f"{outer} = a; a = bytearray()")
                    self._field(f"{value}.{field.name}", field)
                    self._write_noted()
                    source.line(f"{outer}.append({field.tag}); {outer} += uvarint(len(a))")
                    source.line(f"{outer} += a; a = {outer}")

    def _differs_from_default(self, value: str, owner: str, field: Field) -> str:
        if field.default is FRESH:
            assert field.is_array
            return value
        if field.struct is not None and not field.is_array:
            if self._version in field.nullable:
                return "True"  # as Kafka does: it says in so many words that there is none
            empty = self._source.constant(f"empty_{field.struct.__name__}", field.struct())
            return f"({value} is not None and {value} != {empty})"
        if field.default is None:
            return f"{value} is not None"
        default = self._source.constant(f"default_{owner}_{field.name}", field.default)
        return f"{value} != {default}"
