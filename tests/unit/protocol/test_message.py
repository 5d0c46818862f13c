"""How messages are declared, what they look like on the wire, and what readers refuse."""

import typing
from collections.abc import Sized
from types import GenericAlias
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.apis import APIS
from quorate.protocol.fields import (
    Field,
    array,
    binary,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    layout_of,
    opaque_records,
    string,
    struct,
    uint16,
    uint32,
    uuid,
)
from quorate.protocol.message import decoder, encoder, message, nested
from quorate.protocol.primitives import ZERO_UUID, DecodeError, uvarint

FLEXIBLE = 1
LEGACY = 0


@nested
class Point:
    """Two numbers."""

    x: int = int32()
    y: int = int32(default=7)


@nested
class Nothing:
    """A struct without fields."""


@message(versions="0-2", flexible="1+")
class Sample:
    """One field of every kind."""

    flag: bool = boolean()
    tiny: int = int8()
    small: int = int16()
    port: int = uint16()
    medium: int = int32(default=3)
    crc: int = uint32()
    large: int = int64(default=-1)
    ratio: float = float64()
    ident: bytes = uuid()
    name: str = string(default="nobody")
    nickname: str | None = string(nullable="0+")
    blob: bytes = binary()
    maybe_blob: bytes | None = binary(nullable="0+")
    home: Point = struct(Point)
    work: Point | None = struct(Point, nullable="0+")
    points: list[Point] = array(Point)
    maybe_points: list[Point] | None = array(Point, nullable="0+")
    no_points: list[Point] | None = array(Point, nullable="0+", default=None)
    numbers: list[int] = array("int32")
    idents: list[bytes] = array("uuid")
    words: list[str] = array("string")
    empties: list[Nothing] = array(Nothing)
    records: Sized | None = opaque_records()
    newer: int = int32("2+", default=5)
    newer_home: Point = struct(Point, "2+")
    tagged_number: int = int32("1+", default=9, tag=0)
    tagged_word: str | None = string("1+", nullable="1+", tag=3)
    tagged_point: Point | None = struct(Point, "1+", tag=1)
    tagged_points: list[Point] = array(Point, "2+", tag=4)


@message(versions="0-1", flexible="1+", elements_max=5)
class Bounded:
    """Two lists that share a bound."""

    points: list[Point] = array(Point)
    numbers: list[int] = array("int32")


@message(versions="0-1", flexible="1+")
class Words:
    """A list of texts."""

    words: list[str] = array("string")


@message(versions="0-1", flexible="1+")
class Empties:
    """A list of structs that take no bytes in version 0."""

    empties: list[Nothing] = array(Nothing)


@message(versions="0-1", flexible="1+")
class Names:
    """Texts, nullable and not."""

    name: str = string()
    nickname: str | None = string(nullable="0+")


@message(versions="0-1", flexible="1+")
class Tagged:
    """Nothing but tags."""

    number: int = int32("1+", default=9, tag=0)
    point: Point | None = struct(Point, "1+", tag=1)


def encode(value: Any, version: int) -> bytes:
    parts: list[Any] = []
    cls: type[Any] = value.__class__
    encoder(cls, version)(value, parts)
    return b"".join(parts)


def decode(cls: type[Any], version: int, encoded: bytes) -> Any:
    found, pos = decoder(cls, version)(encoded, 0, len(encoded))
    assert pos == len(encoded)
    return found


INT32 = st.integers(-(2**31), 2**31 - 1)
POINTS = st.builds(Point, x=INT32, y=INT32)
SAMPLES = st.builds(
    Sample,
    flag=st.booleans(),
    tiny=st.integers(-128, 127),
    small=st.integers(-(2**15), 2**15 - 1),
    port=st.integers(0, 2**16 - 1),
    medium=INT32,
    crc=st.integers(0, 2**32 - 1),
    large=st.integers(-(2**63), 2**63 - 1),
    ratio=st.floats(allow_nan=False),
    ident=st.binary(min_size=16, max_size=16),
    name=st.text(),
    nickname=st.none() | st.text(),
    blob=st.binary(),
    maybe_blob=st.none() | st.binary(),
    home=POINTS,
    work=st.none() | POINTS,
    points=st.lists(POINTS, max_size=4),
    maybe_points=st.none() | st.lists(POINTS, max_size=4),
    no_points=st.none() | st.lists(POINTS, max_size=4),
    numbers=st.lists(INT32, max_size=80),
    idents=st.lists(st.binary(min_size=16, max_size=16), max_size=3),
    words=st.lists(st.text(), max_size=4),
    empties=st.lists(st.builds(Nothing), max_size=4),
    records=st.none() | st.binary(max_size=300),
    newer=INT32,
    newer_home=POINTS,
    tagged_number=INT32,
    tagged_word=st.none() | st.text(),
    tagged_point=st.none() | POINTS.filter(lambda point: point != Point()),
    tagged_points=st.lists(POINTS, max_size=4),
)


# --- instances ---------------------------------------------------------------


def test_every_field_has_a_default() -> None:
    sample = Sample()
    assert (sample.medium, sample.large, sample.name) == (3, -1, "nobody")
    assert (sample.nickname, sample.work, sample.no_points) == (None, None, None)
    assert (sample.ident, sample.home) == (ZERO_UUID, Point(x=0, y=7))


def test_lists_and_structs_are_not_shared_between_messages() -> None:
    one, other = Sample(), Sample()
    one.points.append(Point())
    assert one.maybe_points is not None
    one.maybe_points.append(Point())
    assert (other.points, other.maybe_points) == ([], [])
    assert one.home is not other.home


def test_messages_are_equal_if_all_their_fields_are() -> None:
    assert Sample(tiny=1) == Sample(tiny=1)
    assert Sample(tiny=1) != Sample(tiny=2)
    assert Nothing() == Nothing()
    assert typing.cast("object", Point()) != Sample()


def test_messages_show_their_fields() -> None:
    assert repr(Point(x=1)) == "Point(x=1, y=7)"


def test_messages_take_keywords_only_and_no_foreign_attributes() -> None:
    with pytest.raises(TypeError):
        typing.cast("Any", Point)(1, 2)
    with pytest.raises(AttributeError):
        typing.cast("Any", Point()).z = 1


def test_a_field_without_a_specifier_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="without a specifier"):

        @nested
        class Wrong:  # pyright: ignore[reportUnusedClass]
            number: int = 0


def test_readers_and_writers_are_compiled_once() -> None:
    assert decoder(Sample, FLEXIBLE) is decoder(Sample, FLEXIBLE)
    assert encoder(Sample, FLEXIBLE) is encoder(Sample, FLEXIBLE)
    assert decoder(Sample, FLEXIBLE) is not decoder(Sample, LEGACY)


def test_versions_that_are_not_declared_are_not_compiled() -> None:
    with pytest.raises(AssertionError):
        decoder(Sample, 3)
    with pytest.raises(AssertionError):
        encoder(Sample, 3)


# --- the wire ----------------------------------------------------------------


@given(SAMPLES)
def test_the_newest_version_carries_everything(sample: Sample) -> None:
    assert decode(Sample, 2, encode(sample, 2)) == sample


@given(SAMPLES, st.binary(max_size=3), st.binary(max_size=3))
def test_readers_find_their_place_in_any_buffer(
    sample: Sample, before: bytes, after: bytes
) -> None:
    for version in (LEGACY, FLEXIBLE, 2):
        encoded = encode(sample, version)
        buffer = bytearray(before + encoded + after)
        end = len(before) + len(encoded)
        found, pos = decoder(Sample, version)(buffer, len(before), end)
        assert pos == end
        assert encode(found, version) == encoded


def test_fields_that_a_version_lacks_keep_their_defaults() -> None:
    sample = Sample(newer=1, tagged_number=1, tagged_points=[Point()])
    found = decode(Sample, LEGACY, encode(sample, LEGACY))
    assert (found.newer, found.tagged_number, found.tagged_points) == (5, 9, [])
    assert found.newer_home == Point()
    found = decode(Sample, FLEXIBLE, encode(sample, FLEXIBLE))
    assert (found.newer, found.tagged_number, found.tagged_points) == (5, 1, [])


def test_lengths_are_two_or_four_bytes_in_old_versions() -> None:
    assert encode(Names(name="ab"), LEGACY).hex(" ", 1) == "00 02 61 62 ff ff"
    assert encode(Words(words=["a"]), LEGACY).hex(" ", 1) == "00 00 00 01 00 01 61"


def test_lengths_are_varints_plus_one_in_flexible_versions() -> None:
    assert encode(Names(name="ab"), FLEXIBLE).hex(" ", 1) == "03 61 62 00 00"
    long = encode(Names(name="x" * 127), FLEXIBLE)
    assert long == b"\x80\x01" + b"x" * 127 + b"\x00\x00"


def test_tags_are_written_in_ascending_order_and_only_if_not_default() -> None:
    assert encode(Tagged(), FLEXIBLE) == b"\x00"
    assert encode(Tagged(number=9, point=Point()), FLEXIBLE) == b"\x00"
    both = encode(Tagged(point=Point(x=1), number=2), FLEXIBLE)
    assert both.hex(" ", 1) == "02 00 04 00 00 00 02 01 09 00 00 00 01 00 00 00 07 00"


def test_unknown_tags_are_skipped_wherever_they_are() -> None:
    known = b"\x00\x04\x00\x00\x00\x02"
    unknown = b"\x63\x03abc"
    assert decode(Tagged, FLEXIBLE, b"\x02" + known + unknown) == Tagged(number=2)
    assert decode(Words, FLEXIBLE, b"\x01\x02" + unknown + unknown) == Words()
    inner = b"\x00\x00\x00\x01\x00\x00\x00\x02\x01" + unknown
    outer = b"\x01\x01" + uvarint(len(inner)) + inner
    assert decode(Tagged, FLEXIBLE, outer) == Tagged(point=Point(x=1, y=2))


def test_tags_are_read_in_any_order() -> None:
    point = b"\x01\x09\x00\x00\x00\x01\x00\x00\x00\x07\x00"
    number = b"\x00\x04\x00\x00\x00\x02"
    assert decode(Tagged, FLEXIBLE, b"\x02" + point + number) == Tagged(number=2, point=Point(x=1))


def test_any_byte_but_zero_is_true() -> None:
    assert decoder(Sample, LEGACY)(b"\x02" + encode(Sample(), LEGACY)[1:], 0, 1000)[0].flag is True


def test_a_version_without_bytes_is_read_from_an_empty_buffer() -> None:
    assert decode(Tagged, LEGACY, b"") == Tagged()


# --- records -----------------------------------------------------------------


class Slice:
    """Records that are somewhere else."""

    def __len__(self) -> int:
        return 1000


def test_records_become_parts_of_their_own_between_bytearrays() -> None:
    records = Slice()
    parts: list[Any] = []
    encoder(Sample, FLEXIBLE)(Sample(records=records), parts)
    assert [type(part) for part in parts] == [bytearray, Slice, bytearray]
    assert parts[1] is records
    assert parts[0].endswith(uvarint(1001))


def test_writers_continue_the_last_part() -> None:
    head = bytearray(b"head")
    parts: list[Any] = [head]
    encoder(Names, LEGACY)(Names(), parts)
    assert parts == [b"head\x00\x00\xff\xff"]
    assert parts[0] is head


def test_records_are_read_as_views_and_bytes_as_copies() -> None:
    encoded = bytearray(encode(Sample(records=b"rrr", blob=b"bbb", ident=b"i" * 16), FLEXIBLE))
    found, _ = decoder(Sample, FLEXIBLE)(encoded, 0, len(encoded))
    records: Any = found.records
    assert type(records) is memoryview
    assert records.obj is encoded
    assert (type(found.blob), type(found.ident)) == (bytes, bytes)
    records[0] = ord("x")
    assert b"xrr" in encoded


# --- what readers refuse -----------------------------------------------------


@pytest.mark.parametrize("version", [LEGACY, FLEXIBLE, 2])
def test_whatever_is_cut_off_is_refused(version: int) -> None:
    point = Point(x=1)
    sample = Sample(words=["a", "b"], numbers=[1] * 40, points=[point], records=b"r" * 200)
    sample.tagged_point = point
    encoded = encode(sample, version)
    read = decoder(Sample, version)
    for end in range(len(encoded)):
        with pytest.raises(DecodeError):
            read(encoded[:end], 0, end)
        with pytest.raises(DecodeError):
            read(encoded, 0, end)


@pytest.mark.parametrize(
    ("cls", "version", "encoded", "reason"),
    [
        (Names, LEGACY, "ffff ffff", "name: null"),
        (Names, LEGACY, "0000 fffe", "nickname: a length below -1"),
        (Names, FLEXIBLE, "00 00 00", "name: null"),
        (Names, LEGACY, "0001 80 ffff", "invalid start byte"),
        (Names, LEGACY, "7fff 61", "name: longer than what is left"),
        (Words, LEGACY, "ffffffff", "words: null"),
        (Words, LEGACY, "fffffffb", "words: null"),
        (Words, LEGACY, "7fffffff 00000000", "words: more elements"),
        (Words, LEGACY, "00000003 00000000 00", "words: more elements"),
        (Words, FLEXIBLE, "04 01 01", "words: more elements"),
        (Words, FLEXIBLE, "ffffffff7f", "words: more elements"),
        (Words, FLEXIBLE, "ffffffffff7f", "more than 5 bytes"),
        (Words, FLEXIBLE, "02 00 00", "words: null"),
        (Words, FLEXIBLE, "01 01 05 09 00", "longer than what holds it"),
        (Words, FLEXIBLE, "01 ffffffff0f", "index out of range"),
        (Empties, LEGACY, "7fffffff 00000000", "empties: more elements"),
        (Tagged, FLEXIBLE, "01 00 05 0000000200", "number: not as long as its tag says"),
        (Tagged, FLEXIBLE, "01 00 03 00000002", "number: not as long as its tag says"),
        (Tagged, FLEXIBLE, "01 00 09 00000002", "longer than what is left"),
    ],
)
def test_nonsense_is_refused(cls: type[Any], version: int, encoded: str, reason: str) -> None:
    buffer = bytes.fromhex(encoded)
    with pytest.raises(DecodeError, match=reason):
        decoder(cls, version)(buffer, 0, len(buffer))


@pytest.mark.parametrize("version", [LEGACY, FLEXIBLE])
def test_the_elements_of_all_arrays_together_may_be_bounded(version: int) -> None:
    point = Point(x=1)
    for points, numbers in (([point] * 2, [1] * 3), (list[Point](), [1] * 5), ([point] * 5, [])):
        encoded = encode(Bounded(points=points, numbers=numbers), version)
        assert decoder(Bounded, version)(encoded, 0, len(encoded))[1] == len(encoded)
        more = encode(Bounded(points=[*points, point], numbers=numbers), version)
        with pytest.raises(DecodeError, match="more than 5 elements"):
            decoder(Bounded, version)(more, 0, len(more))


@given(st.binary(max_size=200), st.sampled_from([LEGACY, FLEXIBLE, 2]))
def test_any_bytes_are_read_or_refused(noise: bytes, version: int) -> None:
    try:
        _, pos = decoder(Sample, version)(noise, 0, len(noise))
    except DecodeError:
        return
    assert pos <= len(noise)


# --- all declarations --------------------------------------------------------

EXPECTED_TYPES = {
    "bool": bool,
    "int8": int,
    "int16": int,
    "uint16": int,
    "int32": int,
    "uint32": int,
    "int64": int,
    "float64": float,
    "string": str,
    "bytes": bytes,
    "uuid": bytes,
}


def structs(cls: type[Any]) -> list[type[Any]]:
    inner = [field.struct for field in layout_of(cls).fields if field.struct is not None]
    return [cls, *(found for each in inner for found in structs(each))]


def expected_annotation(field: Field) -> Any:
    element = field.struct or EXPECTED_TYPES[field.kind]
    plain: Any = GenericAlias(list, (element,)) if field.is_array else element
    is_left_out = field.struct is not None and not field.is_array and field.tag is not None
    return plain | None if field.nullable.first <= field.nullable.last or is_left_out else plain


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_annotations_say_what_is_on_the_wire(api: Any) -> None:
    for cls in structs(api.request) + structs(api.response):
        for field in layout_of(cls).fields:
            annotation = cls.__annotations__[field.name]
            if field.kind == "records":
                assert annotation in {memoryview | None, Sized | None}
            else:
                assert annotation == expected_annotation(field), (cls, field.name)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_tags_are_numbered_without_repeats_and_only_in_flexible_versions(api: Any) -> None:
    for top in (api.request, api.response):
        for cls in structs(top):
            tagged = [field for field in layout_of(cls).fields if field.tag is not None]
            assert len({field.tag for field in tagged}) == len(tagged)
            assert all(f.versions.first >= layout_of(top).flexible.first for f in tagged)
