"""Field specifiers: what a message declaration says about each field, and the layout that results.

A specifier stands where a default value would stand, so type checkers see an optional keyword with
the annotated type. The annotation is for people and checkers, the specifier for the wire.
"""

from collections.abc import Sized
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast, overload

from quorate.dataclass import dataclass
from quorate.protocol.primitives import ZERO_UUID

T = TypeVar("T")

VERSION_MAX: Final = 32767
OWN_TAG: Final = 100
"""Tags from here on are not Kafka's but our own.

Readers who do not know them should skip them, but not all of them can: in answers they are for who
asks for them, by a tag of our own in the request.
"""

Primitive: TypeAlias = Literal[
    "bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "string", "uuid"
]
Kind: TypeAlias = Primitive | Literal["bytes", "records", "struct"]


class Fixed(NamedTuple):
    """A kind that always takes as many bytes: its character for `struct`, and their number."""

    character: str
    size_bytes: int


FIXED: Final[dict[str, Fixed]] = {
    "bool": Fixed("?", 1),
    "int8": Fixed("b", 1),
    "int16": Fixed("h", 2),
    "uint16": Fixed("H", 2),
    "int32": Fixed("i", 4),
    "uint32": Fixed("I", 4),
    "int64": Fixed("q", 8),
    "float64": Fixed("d", 8),
    "uuid": Fixed("16s", 16),
}
NUMBERS: Final = frozenset(FIXED) - {"uuid"}
"""The fixed kinds that stand in arrays side by side in one `struct` call: `3i`, but not `316s`."""


class Versions(NamedTuple):
    """An inclusive range of message versions."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NO_VERSIONS: Final = Versions(1, 0)


def parse_versions(text: str | None) -> Versions:
    """Reads "3+", "0-2" or "7"; None is the empty range."""
    if text is None:
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_MAX)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


class Fresh:
    """The default of a field that gets a new list or a new struct in every message."""


FRESH: Final = Fresh()


@dataclass(slots=True, eq=False)
class Field:
    """One field of a struct: how it looks on the wire, and in which versions.

    Its name is that of the attribute that it specifies, known when the class is; nothing else of it
    ever changes.
    """

    name: str
    kind: Kind
    struct: "type[Any] | None"
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: object


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a struct, in wire order; for whole messages also the versions.

    A nested struct has no versions of its own: it follows the message that holds it. What is read
    has at most ``elements_max`` elements, those of all its arrays together.
    """

    name: str
    fields: tuple[Field, ...]
    versions: Versions
    flexible: Versions
    elements_max: int | None

    def untagged(self, version: int) -> list[Field]:
        """The fields that stand one after the other."""
        return [f for f in self.fields if f.tag is None and version in f.versions]

    def tagged(self, version: int) -> list[Field]:
        """The fields of the tag section, in ascending order of their tags."""
        found = [(f.tag, f) for f in self.fields if f.tag is not None and version in f.versions]
        return [field for _, field in sorted(found, key=lambda pair: pair[0])]


def layout_of(cls: type[Any]) -> Layout:
    """Returns what was declared about a message or a nested struct."""
    return cast("Layout", cls.__layout__)


def minimum_bytes(cls: type[Any], version: int, *, flexible: bool) -> int:
    """Returns how many bytes the smallest value of a struct takes."""
    sizes = [
        minimum_field_bytes(f, version, flexible=flexible) for f in layout_of(cls).untagged(version)
    ]
    return sum(sizes) + flexible


def minimum_field_bytes(field: Field, version: int, *, flexible: bool) -> int:
    """Returns how many bytes the smallest value of a field takes."""
    if field.is_array:
        return 1 if flexible else 4
    if field.kind == "struct" and version in field.nullable:
        return 1
    return minimum_value_bytes(field, version, flexible=flexible)


def minimum_value_bytes(field: Field, version: int, *, flexible: bool) -> int:
    """Returns how many bytes the smallest value takes; of an array, its smallest element."""
    if field.struct is not None:
        return minimum_bytes(field.struct, version, flexible=flexible)
    if field.kind in FIXED:
        return FIXED[field.kind].size_bytes
    if flexible:
        return 1
    return 2 if field.kind == "string" else 4


def _scalar(
    kind: Kind, versions: str, *, nullable: str | None, tag: int | None, default: object
) -> Any:
    return Field(
        name="",
        kind=kind,
        struct=None,
        is_array=False,
        versions=parse_versions(versions),
        nullable=parse_versions(nullable),
        tag=tag,
        default=default,
    )


def boolean(versions: str = "0+", *, default: bool = False, tag: int | None = None) -> bool:
    """One byte; any byte but 0 is true."""
    return cast("bool", _scalar("bool", versions, nullable=None, tag=tag, default=default))


def int8(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> int:
    """A signed byte."""
    return cast("int", _scalar("int8", versions, nullable=None, tag=tag, default=default))


def int16(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> int:
    """Two bytes, signed."""
    return cast("int", _scalar("int16", versions, nullable=None, tag=tag, default=default))


def uint16(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> int:
    """Two bytes, unsigned."""
    return cast("int", _scalar("uint16", versions, nullable=None, tag=tag, default=default))


def int32(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> int:
    """Four bytes, signed."""
    return cast("int", _scalar("int32", versions, nullable=None, tag=tag, default=default))


def uint32(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> int:
    """Four bytes, unsigned."""
    return cast("int", _scalar("uint32", versions, nullable=None, tag=tag, default=default))


def int64(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> int:
    """Eight bytes, signed."""
    return cast("int", _scalar("int64", versions, nullable=None, tag=tag, default=default))


def float64(versions: str = "0+", *, default: float = 0.0, tag: int | None = None) -> float:
    """Eight bytes, IEEE 754."""
    return cast("float", _scalar("float64", versions, nullable=None, tag=tag, default=default))


def uuid(versions: str = "0+", *, tag: int | None = None) -> bytes:
    """Sixteen bytes; `struct` silently cuts or fills any other number of them."""
    return cast("bytes", _scalar("uuid", versions, nullable=None, tag=tag, default=ZERO_UUID))


@overload
def string(versions: str = ..., *, default: str = ..., tag: int | None = ...) -> str: ...
@overload
def string(versions: str = ..., *, nullable: str, tag: int | None = ...) -> str | None: ...
def string(
    versions: str = "0+", *, default: str = "", nullable: str | None = None, tag: int | None = None
) -> Any:
    """UTF-8 behind its length. If it may always be null, None is the default (Kafka's: "")."""
    value = None if nullable == versions else default
    return _scalar("string", versions, nullable=nullable, tag=tag, default=value)


@overload
def binary(versions: str = ..., *, tag: int | None = ...) -> bytes: ...
@overload
def binary(versions: str = ..., *, nullable: str, tag: int | None = ...) -> bytes | None: ...
def binary(versions: str = "0+", *, nullable: str | None = None, tag: int | None = None) -> Any:
    """Bytes behind their length. If they may always be null, None is the default."""
    value = None if nullable == versions else b""
    return _scalar("bytes", versions, nullable=nullable, tag=tag, default=value)


def received_records(versions: str = "0+") -> memoryview | None:
    """Record batches that a request carries: decoded without a copy."""
    return cast("None", _scalar("records", versions, nullable=versions, tag=None, default=None))


def opaque_records(versions: str = "0+") -> Sized | None:
    """Record batches that a response carries: any object with a length; decoded a memoryview."""
    return cast("None", _scalar("records", versions, nullable=versions, tag=None, default=None))


@overload
def array(element: type[T], versions: str = ..., *, tag: int | None = ...) -> list[T]: ...
@overload
def array(
    element: type[T],
    versions: str = ...,
    *,
    nullable: str,
    default: Fresh | None = ...,
    tag: int | None = ...,
) -> list[T] | None: ...
@overload
def array(
    element: Primitive,
    versions: str = ...,
    *,
    nullable: str | None = ...,
    default: Fresh | None = ...,
    tag: int | None = ...,
) -> Any: ...
def array(
    element: Any,
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: Fresh | None = FRESH,
    tag: int | None = None,
) -> Any:
    """Elements behind their number; a new list in every message unless the default is None."""
    is_primitive = isinstance(element, str)
    return Field(
        name="",
        kind=cast("Kind", element) if is_primitive else "struct",
        struct=None if is_primitive else element,
        is_array=True,
        versions=parse_versions(versions),
        nullable=parse_versions(nullable),
        tag=tag,
        default=default,
    )


@overload
def struct(element: type[T], versions: str = ...) -> T: ...
@overload
def struct(element: type[T], versions: str = ..., *, nullable: str) -> T | None: ...
@overload
def struct(element: type[T], versions: str = ..., *, nullable: str = ..., tag: int) -> T | None: ...
def struct(
    element: type[Any], versions: str = "0+", *, nullable: str | None = None, tag: int | None = None
) -> Any:
    """A struct in a struct; None, "left out", is the default where it is nullable or tagged."""
    is_optional = nullable is not None or tag is not None
    return Field(
        name="",
        kind="struct",
        struct=element,
        is_array=False,
        versions=parse_versions(versions),
        nullable=parse_versions(nullable),
        tag=tag,
        default=None if is_optional else FRESH,
    )
