"""Compiles readers: straight-line Python that decodes one version of one message.

Runs of fixed-size values become one `struct` call, varints have a fast path for one byte, an empty
tag section costs one comparison. Every length is checked against what is left, every array also
against the least that its elements take, before anything is allocated. What a `struct` call or an
index reads beyond `end` is caught by one comparison at the end: the reader never goes back, so a
position that was once too far stays too far.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from quorate.protocol.fields import (
    FIXED,
    FRESH,
    NUMBERS,
    Field,
    Fixed,
    Layout,
    layout_of,
    minimum_value_bytes,
)
from quorate.protocol.primitives import read_uvarint, skip_tags
from quorate.protocol.source import SHORT_ARRAY_COUNTS, Source

BYTE: Final = Fixed("B", 1)
STRING_BYTES_MAX: Final = 32_767


def compile_reader(cls: type[Any], version: int) -> Callable[..., Any]:
    """Returns `(buffer, pos, end) -> (message, next position)` for one version."""
    return _Reader(layout_of(cls), version).compile(cls)


class _Reader:
    """Writes the source of one reader. In it, `b` is the buffer and `p` the position.

    What has a fixed size is only noted down at first; all that was noted down is read by one call
    as soon as anything else is to be read.
    """

    def __init__(self, layout: Layout, version: int) -> None:
        self._version = version
        self._flexible = version in layout.flexible
        self._elements_max = layout.elements_max
        self._noted: list[tuple[str, Fixed]] = []
        self._source = Source()
        self._source.constant("new", object.__new__)
        self._source.constant("read_uvarint", read_uvarint)
        self._source.constant("skip_tags", skip_tags)
        self._source.constant("unpack_from", struct.unpack_from)
        self._source.constant("struct_error", struct.error)

    def compile(self, cls: type[Any]) -> Callable[..., Any]:
        source = self._source
        with source.block("def read(b, p, end):"):
            if self._elements_max is not None:
                source.line(f"left = {self._elements_max}")
            with source.block("try:"):
                self._struct("o", cls)
                self._read_noted()
            with source.block("except (struct_error, IndexError, UnicodeDecodeError) as error:"):
                source.line("raise DecodeError(str(error)) from None")
            self._refuse_if("p > end", f"{cls.__name__}: cut off")
            source.line("return o, p")
        return source.function("read", f"{cls.__name__} v{self._version} reader")

    def _refuse_if(self, condition: str, reason: str) -> None:
        self._source.line(f"if {condition}: raise DecodeError({reason!r})")

    def _note(self, target: str, fixed: Fixed) -> None:
        self._noted.append((target, fixed))

    def _read_noted(self) -> None:
        if self._noted:
            unpack = self._source.unpacker("".join(fixed.character for _, fixed in self._noted))
            targets = "".join(f"{target}, " for target, _ in self._noted).strip()
            self._source.line(f"{targets} = {unpack}(b, p)")
            self._source.line(f"p += {sum(fixed.size_bytes for _, fixed in self._noted)}")
            self._noted.clear()

    def _read_uvarint(self) -> str:
        """Reads an unsigned varint: its first byte together with what was noted down."""
        n = self._source.temporary("n")
        self._note(n, BYTE)
        self._read_noted()
        self._source.line(f"if {n} > 127: {n}, p = read_uvarint(b, p - 1)")
        return n

    def _struct(self, target: str, cls: type[Any]) -> None:
        layout = layout_of(cls)
        self._source.line(f"{target} = new({self._class(cls)})")
        present = layout.untagged(self._version)
        for field in layout.fields:
            if field not in present:
                self._default(f"{target}.{field.name}", layout.name, field)
        for field in present:
            self._field(f"{target}.{field.name}", field)
        if self._flexible:
            self._tags(target, layout.name, layout.tagged(self._version))

    def _class(self, cls: type[Any]) -> str:
        return self._source.constant(f"class_{cls.__name__}", cls)

    def _default(self, target: str, owner: str, field: Field) -> None:
        if field.default is not FRESH:
            value = self._source.constant(f"default_{owner}_{field.name}", field.default)
        elif field.is_array:
            value = "[]"
        else:
            assert field.struct is not None
            value = f"{self._class(field.struct)}()"
        self._source.line(f"{target} = {value}")

    def _field(self, target: str, field: Field) -> None:
        nullable = self._version in field.nullable
        if field.is_array:
            self._array(target, field, nullable=nullable)
        elif field.struct is not None:
            self._inner_struct(target, field, field.struct, nullable=nullable)
        else:
            self._value(target, field, nullable=nullable)

    def _value(self, target: str, field: Field, *, nullable: bool) -> None:
        """A value that is neither an array nor a struct."""
        if field.kind in FIXED:
            self._note(target, FIXED[field.kind])
            return
        source = self._source
        width = FIXED["int16" if field.kind == "string" else "int32"]
        count = self._length(target, field, width=width, nullable=nullable)
        with source.block("else:"):
            if field.kind == "string" and self._flexible:
                # As Kafka does: so it fits wherever its length is written in two bytes.
                self._refuse_if(f"{count} > {STRING_BYTES_MAX}", f"{field.name}: too long")
            stop = source.temporary("e")
            source.line(f"{stop} = p + {count}")
            self._refuse_if(f"{stop} > end", f"{field.name}: longer than what is left")
            piece = {
                "string": f"b[p:{stop}].decode()",
                "records": f"memoryview(b)[p:{stop}]",
                "bytes": f"bytes(b[p:{stop}])",
            }[field.kind]
            source.line(f"{target} = {piece}")
            source.line(f"p = {stop}")

    def _length(self, target: str, field: Field, *, width: Fixed, nullable: bool) -> str:
        """Reads a length and deals with null; returns its expression for the else block."""
        source = self._source
        if self._flexible:
            n = self._read_uvarint()
            length, is_null = f"{n} - 1", f"{n} == 0"
        else:
            n = source.temporary("n")
            self._note(n, width)
            self._read_noted()
            length, is_null = n, f"{n} < 0"
        with source.block(f"if {is_null}:"):
            if not nullable:
                source.line(f"raise DecodeError({field.name + ': null'!r})")
            else:
                if not self._flexible:
                    self._refuse_if(f"{n} != -1", f"{field.name}: a length below -1")
                source.line(f"{target} = None")
        return length

    def _array(self, target: str, field: Field, *, nullable: bool) -> None:
        source = self._source
        length = self._length(target, field, width=FIXED["int32"], nullable=nullable)
        with source.block("else:"):
            count = source.temporary("c")
            source.line(f"{count} = {length}")
            # A struct without fields takes no byte; counted as one, its number stays bounded.
            least = max(1, minimum_value_bytes(field, self._version, flexible=self._flexible))
            room = "end - p" if least == 1 else f"(end - p) // {least}"
            self._refuse_if(
                f"{count} > {room}", f"{field.name}: more elements than what is left can hold"
            )
            if self._elements_max is not None:
                source.line(f"left -= {count}")
                self._refuse_if("left < 0", f"more than {self._elements_max} elements")
            if field.kind in NUMBERS:
                self._numbers(target, field.kind, count)
            else:
                self._elements(target, field, count)

    def _numbers(self, target: str, kind: str, count: str) -> None:
        source = self._source
        character, size_bytes = FIXED[kind]
        short = f"{source.array_unpackers(character)}[{count}](b, p)"
        long = f"unpack_from('>%d{character}' % {count}, b, p)"
        source.line(f"{target} = list({short} if {count} < {SHORT_ARRAY_COUNTS} else {long})")
        source.line(f"p += {size_bytes} * {count}")

    def _elements(self, target: str, field: Field, count: str) -> None:
        source = self._source
        items, item = source.temporary("a"), source.temporary("x")
        source.line(f"{target} = {items} = []")
        with source.block(f"for _ in range({count}):"):
            if field.struct is not None:
                self._struct(item, field.struct)
            else:
                self._value(item, field, nullable=False)
            self._read_noted()
            source.line(f"{items}.append({item})")

    def _inner_struct(self, target: str, field: Field, cls: type[Any], *, nullable: bool) -> None:
        source = self._source
        item = source.temporary("x")
        if not nullable:
            self._struct(item, cls)
            source.line(f"{target} = {item}")
            return
        presence = source.temporary("n")
        self._note(presence, FIXED["int8"])
        self._read_noted()
        # Null is -1; in a tagged field it is 0.
        source.line(f"if {presence} < {0 if field.tag is None else 1}: {target} = None")
        with source.block("else:"):
            self._struct(item, cls)
            self._read_noted()
            source.line(f"{target} = {item}")

    def _tags(self, target: str, owner: str, tagged: list[Field]) -> None:
        source = self._source
        count = source.temporary("k")
        self._note(count, BYTE)
        self._read_noted()
        if not tagged:
            source.line(f"if {count}: p = skip_tags(b, p - 1, end)")
            return
        with source.block(f"if {count}:"):
            source.line(f"{count}, p = read_uvarint(b, p - 1)")
            with source.block(f"for _ in range({count}):"):
                self._tag(target, owner, tagged)

    def _tag(self, target: str, owner: str, tagged: list[Field]) -> None:
        source = self._source
        tag, stop = source.temporary("t"), source.temporary("q")
        source.line(f"{tag}, p = read_uvarint(b, p)")
        source.line(f"{stop}, p = read_uvarint(b, p)")
        source.line(f"{stop} += p")
        self._refuse_if(f"{stop} > end", f"{owner}: a tagged field is longer than what is left")
        for field in tagged:
            with source.block(f"if {tag} == {field.tag}:"):
                self._field(f"{target}.{field.name}", field)
                self._read_noted()
                self._refuse_if(f"p != {stop}", f"{field.name}: not as long as its tag says")
        source.line(f"p = {stop}")
