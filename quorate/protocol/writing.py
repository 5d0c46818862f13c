"""Compiles writers: straight-line Python that encodes one version of one message in parts."""

import struct
from collections.abc import Callable
from typing import Any

from quorate.protocol.fields import FIXED, FRESH, Field, layout_of
from quorate.protocol.primitives import uvarint
from quorate.protocol.source import SHORT_ARRAY_COUNTS, Source

TAG_MAX = 127
"""Tags that we declare fit into one byte."""


def compile_writer(cls: type[Any], version: int) -> Callable[..., None]:
    """Returns `(message, parts) -> None` for one version."""
    flexible = version in layout_of(cls).flexible
    return _Writer(version=version, flexible=flexible).compile(cls)


class _Writer:
    """Writes the source of one writer. In it, `a` is the bytearray that grows."""

    def __init__(self, *, version: int, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible
        self._source = Source()
        self._source.constant("uvarint", uvarint)
        self._source.constant("pack", struct.pack)

    def compile(self, cls: type[Any]) -> Callable[..., None]:
        source = self._source
        with source.block("def write(o, parts):"):
            source.line("a = parts.pop() if parts else bytearray()")
            self._struct("o", cls)
            source.line("parts.append(a)")
        return source.function("write", f"{cls.__name__} v{self._version} writer")

    def _struct(self, value: str, cls: type[Any]) -> None:
        layout = layout_of(cls)
        run: list[Field] = []
        for field in layout.untagged(self._version):
            if field.fixed:
                run.append(field)
                continue
            self._run(value, run, ending="")
            run = []
            self._field(f"{value}.{field.name}", field)
        tagged = layout.tagged(self._version) if self._flexible else []
        # The zero of an empty tag section travels with the last numbers: "x" is a zero byte.
        has_zero = self._flexible and not tagged
        if has_zero and not run:
            self._source.line("a.append(0)")
        self._run(value, run, ending="x" if has_zero else "")
        if tagged:
            self._tags(value, layout.name, tagged)

    def _run(self, value: str, run: list[Field], *, ending: str) -> None:
        if run:
            pack = self._source.packer("".join(FIXED[f.kind].character for f in run) + ending)
            self._source.line(f"a += {pack}({', '.join(f'{value}.{f.name}' for f in run)})")

    def _field(self, value: str, field: Field) -> None:
        source = self._source
        local = source.temporary("v")
        source.line(f"{local} = {value}")
        if self._version not in field.nullable:
            self._present(local, field)
            return
        source.line(f"if {local} is None: {self._null(field)}")
        with source.block("else:"):
            if field.kind == "struct" and not field.is_array:
                source.line("a.append(1)")
            self._present(local, field)

    def _null(self, field: Field) -> str:
        if field.kind == "struct" and not field.is_array:
            return "a.append(255)"
        if self._flexible:
            return "a.append(0)"
        return "a += " + repr(b"\xff" * (2 if field.kind == "string" and not field.is_array else 4))

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
        elif field.kind in FIXED:
            source.line(f"a += {source.packer(FIXED[field.kind].character)}({value})")
        elif field.kind == "uuid":
            source.line(f"a += {value}")
        else:
            self._sized_value(value, field)

    def _sized_value(self, value: str, field: Field) -> None:
        source = self._source
        if field.kind == "string":
            source.line(f"{value} = {value}.encode()")
        self._length(value, character="h" if field.kind == "string" else "i")
        if field.kind == "records":
            assert field.tag is None
            source.line(f"parts.append(a); parts.append({value}); a = bytearray()")
        else:
            source.line(f"a += {value}")

    def _length(self, value: str, *, character: str) -> None:
        source = self._source
        if not self._flexible:
            source.line(f"a += {source.packer(character)}(len({value}))")
            return
        n = source.temporary("n")
        source.line(f"{n} = len({value}) + 1")
        source.line(f"if {n} < 128: a.append({n})")
        source.line(f"else: a += uvarint({n})")

    def _array(self, value: str, field: Field) -> None:
        source = self._source
        self._length(value, character="i")
        if field.kind in FIXED:
            character = FIXED[field.kind].character
            short = f"{source.array_packers(character)}[len({value})](*{value})"
            long = f"pack('>%d{character}' % len({value}), *{value})"
            source.line(f"a += {short} if len({value}) < {SHORT_ARRAY_COUNTS} else {long}")
            return
        item = source.temporary("x")
        with source.block(f"for {item} in {value}:"):
            self._value(item, field)

    def _tags(self, value: str, owner: str, tagged: list[Field]) -> None:
        source = self._source
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
                    source.line(f"{outer}.append({field.tag}); {outer} += uvarint(len(a))")
                    source.line(f"{outer} += a; a = {outer}")

    def _differs_from_default(self, value: str, owner: str, field: Field) -> str:
        if field.default is FRESH:
            assert field.is_array
            return value
        if field.struct is not None and not field.is_array:
            empty = self._source.constant(f"empty_{field.struct.__name__}", field.struct())
            return f"({value} is not None and {value} != {empty})"
        if field.default is None:
            return f"{value} is not None"
        default = self._source.constant(f"default_{owner}_{field.name}", field.default)
        return f"{value} != {default}"
