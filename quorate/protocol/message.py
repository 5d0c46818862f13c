"""Declares messages once for all versions, and hands out the compiled readers and writers.

    @nested
    class DeleteRecordsPartition:
        partition_index: int = int32()
        offset: int = int64()

A class holds the union of the fields of all versions. Fields that a version lacks keep their
default when it is decoded and are left out when it is encoded. Messages are not frozen, because
filling a frozen object costs several times more on the hot path; all the same, nobody changes one
after it was built.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, cast, dataclass_transform

from quorate.protocol.fields import FRESH, NO_VERSIONS, Field, Layout, layout_of, parse_versions
from quorate.protocol.primitives import Part
from quorate.protocol.reading import compile_reader
from quorate.protocol.source import Source
from quorate.protocol.writing import compile_writer

T = TypeVar("T")

Decoder: TypeAlias = Callable[[bytes | bytearray, int, int], tuple[T, int]]
Encoder: TypeAlias = Callable[[T, list[Part]], None]

_DECODERS: dict[tuple[type[Any], int], Decoder[Any]] = {}
_ENCODERS: dict[tuple[type[Any], int], Encoder[Any]] = {}


@dataclass_transform(kw_only_default=True, eq_default=True)
def message(
    *, versions: str, flexible: str | None, elements_max: int | None = None
) -> Callable[[type[T]], type[T]]:
    """Declares a whole message: which versions exist, and which have compact lengths and tags.

    One that may be large has ``elements_max``: objects take much more memory than the few bytes
    that may stand for one.
    """

    def declare(cls: type[T]) -> type[T]:
        layout = Layout(
            name=cls.__name__,
            fields=_declared_fields(cls),
            versions=parse_versions(versions),
            flexible=parse_versions(flexible),
            elements_max=elements_max,
        )
        return _build_class(cls, layout)

    return declare


@dataclass_transform(kw_only_default=True, eq_default=True)
def nested(cls: type[T]) -> type[T]:
    """Declares a struct that messages hold; it follows the version of the message."""
    layout = Layout(
        name=cls.__name__,
        fields=_declared_fields(cls),
        versions=NO_VERSIONS,
        flexible=NO_VERSIONS,
        elements_max=None,
    )
    return _build_class(cls, layout)


def decoder(cls: type[T], version: int) -> Decoder[T]:
    """Returns `(buffer, pos, end) -> (message, next position)`, compiled at first use.

    Records are decoded to views of the buffer, everything else is copied. The reader raises
    `DecodeError` and nothing else. Whether bytes are left over is for the caller to see: compare
    the position with `end`.
    """
    found = _DECODERS.get((cls, version))
    if found is None:
        assert version in layout_of(cls).versions, (cls, version)
        found = _DECODERS[cls, version] = compile_reader(cls, version)
    return found


def encoder(cls: type[T], version: int) -> Encoder[T]:
    """Returns `(message, parts) -> None`, compiled at first use.

    It continues the last of the parts, which must be a bytearray of the caller's own, or starts one
    if there are none. Records objects become parts of their own, untouched. The last part is always
    a bytearray, possibly empty.
    """
    found = _ENCODERS.get((cls, version))
    if found is None:
        assert version in layout_of(cls).versions, (cls, version)
        found = _ENCODERS[cls, version] = compile_writer(cls, version)
    return found


def _declared_fields(cls: type[Any]) -> tuple[Field, ...]:
    fields: list[Field] = []
    for name in cls.__annotations__:
        field = cls.__dict__.get(name)
        assert isinstance(field, Field), f"{cls.__name__}.{name}: a field without a specifier"
        assert not field.name, f"{cls.__name__}.{name}: the specifier of {field.name}"
        field.name = name
        fields.append(field)
    return tuple(fields)


def _build_class(declared: type[T], layout: Layout) -> type[T]:
    """Returns a class with slots in place of the declared one, which cannot get any more."""
    names = tuple(field.name for field in layout.fields)
    namespace = {
        "__module__": declared.__module__,
        "__qualname__": declared.__qualname__,
        "__doc__": declared.__doc__,
        "__annotations__": declared.__annotations__,
        "__slots__": names,
        "__match_args__": (),
        "__layout__": layout,
        "__init__": _init_when_needed(layout),
        "__repr__": _repr,
        "__eq__": _build_eq(names),
        "__hash__": None,
    }
    return cast("type[T]", type(declared.__name__, (), namespace))


def _init_when_needed(layout: Layout) -> Callable[..., None]:
    """Returns an `__init__` that is compiled at first use: most processes need few of them."""

    def __init__(self: Any, **values: Any) -> None:  # noqa: N807 it becomes the method
        init = type(self).__init__ = _build_init(layout)
        init(self, **values)

    return __init__


def _build_init(layout: Layout) -> Callable[..., None]:
    source = Source()
    source.constant("fresh", FRESH)
    names = [field.name for field in layout.fields]
    defaults = [source.constant(f"default_{f.name}", f.default) for f in layout.fields]
    arguments = "".join(f", {n}={d}" for n, d in zip(names, defaults, strict=True))
    with source.block(f"def __init__(self{', *' if names else ''}{arguments}):"):
        for field in layout.fields:
            source.line(f"self.{field.name} = {_initial_value(source, field)}")
    return source.function("__init__", f"{layout.name} init")


def _initial_value(source: Source, field: Field) -> str:
    if field.default is not FRESH:
        return field.name
    if field.is_array:
        return f"[] if {field.name} is fresh else {field.name}"
    assert field.struct is not None
    cls = source.constant(f"class_{field.name}", field.struct)
    return f"{cls}() if {field.name} is fresh else {field.name}"


def _build_eq(names: tuple[str, ...]) -> Callable[[object, object], bool]:
    values: Callable[[object], object] = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: object, other: object) -> bool:  # noqa: N807 it becomes the method
        if type(self) is not type(other):
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _repr(self: object) -> str:
    layout = layout_of(type(self))
    values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in layout.fields)
    return f"{layout.name}({values})"
