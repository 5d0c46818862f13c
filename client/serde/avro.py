"""Avro by a schema that writers and readers know; with the extra ``quorate[avro]``."""

from __future__ import annotations

import importlib
import io
import json
from typing import TYPE_CHECKING, Any, cast

from quorate.client.serde.serdes import SerdeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class AvroSerde:
    """Records by an Avro schema: checked before they are sent, and as short as Avro is.

    ::

        logs = AvroSerde({"type": "record", "name": "Log", "fields": [
            {"name": "level", "type": "string"}, {"name": "code", "type": "int"}]})

    The bytes are Avro's binary encoding and nothing else; so readers must know the schema.
    """

    def __init__(
        self,
        schema: Mapping[str, Any] | str,
        *,
        written_with: Mapping[str, Any] | str | None = None,
    ) -> None:
        """Check and keep a schema.

        Args:
            schema: As JSON text or what it says.
            written_with: The schema of what is read, if it is another one: records are resolved
                from one to the other by Avro's rules (defaults fill in, what is unknown is left
                out).

        Raises:
            ImportError: ``fastavro`` is not installed.
            ValueError: It is no Avro schema.
        """
        try:
            self._avro: Any = importlib.import_module("fastavro")
        except ImportError as error:
            message = "Avro needs fastavro: pip install 'quorate[avro]'"
            raise ImportError(message) from error
        self._schema = self._parse(schema)
        self._writers = self._schema if written_with is None else self._parse(written_with)
        self._name = _name_of(self._schema)
        self._reader = self._avro
        if _is_recursive(self._writers, frozenset()):
            # The compiled reader goes as deep as bytes tell it to, and then the process crashes.
            self._reader = importlib.import_module("fastavro._read_py")

    def _parse(self, schema: Mapping[str, Any] | str) -> Any:
        try:
            if isinstance(schema, str):
                return self._avro.parse_schema(json.loads(schema))
            return self._avro.parse_schema(dict(schema))
        except (self._avro.schema.SchemaParseException, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is no Avro schema: {error!r}") from error

    def serialize(self, topic: str, value: Any, /) -> bytes:
        """Return a value as Avro.

        Raises:
            SerdeError: The schema does not allow it; the message says in which field.
        """
        try:
            self._avro.validation.validate(value, self._schema)
            out = io.BytesIO()
            self._avro.schemaless_writer(out, self._schema, value, strict_allow_default=True)
            return out.getvalue()
        except (
            self._avro.validation.ValidationError,
            TypeError,
            ValueError,
            RecursionError,
        ) as error:
            message = f"a value for topic {topic!r} is not as schema {self._name!r} has it: {error}"
            raise SerdeError(message, topic=topic) from error

    def deserialize(self, topic: str, data: bytes, /) -> Any:
        """Return what Avro says; there must be nothing behind it.

        Raises:
            SerdeError: It is not of that schema.
        """
        source = io.BytesIO(data)
        try:
            value = self._reader.schemaless_reader(source, self._writers, self._schema)
        except Exception as error:  # fastavro documents none of the many kinds that it raises
            message = f"bytes of topic {topic!r} are not of schema {self._name!r}: {error!r}"
            raise SerdeError(message, topic=topic) from error
        rest = len(data) - source.tell()
        if rest:
            message = f"{rest} bytes of topic {topic!r} stand behind a record of {self._name!r}"
            raise SerdeError(message, topic=topic)
        return value


def _name_of(schema: Any) -> str:
    """Return what errors call a schema; one may be a word (``"string"``) or a list, too."""
    if isinstance(schema, dict):
        named = cast("dict[str, Any]", schema)
        return str(named.get("name", named.get("type", "")))
    return str(schema)


def _is_recursive(schema: Any, inside: frozenset[str]) -> bool:
    """Whether a parsed schema has a record in itself; ``inside`` are the records around it."""
    if isinstance(schema, list):
        return any(_is_recursive(each, inside) for each in cast("Iterable[Any]", schema))
    if not isinstance(schema, dict):
        return schema in inside
    kind = cast("dict[str, Any]", schema)
    within = inside | {kind["name"]} if "fields" in kind else inside
    parts = [kind.get("type"), kind.get("items"), kind.get("values")]
    parts += [field["type"] for field in kind.get("fields", ())]
    return any(_is_recursive(part, within) for part in parts)
