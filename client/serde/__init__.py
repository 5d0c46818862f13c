"""Turns keys and values of records into bytes, and bytes into them."""

from quorate.client.serde.avro import AvroSerde
from quorate.client.serde.serdes import (
    BytesSerde,
    CborSerde,
    Deserializer,
    JsonSerde,
    Serde,
    SerdeError,
    Serializer,
    StrSerde,
)

__all__ = [
    "AvroSerde",
    "BytesSerde",
    "CborSerde",
    "Deserializer",
    "JsonSerde",
    "Serde",
    "SerdeError",
    "Serializer",
    "StrSerde",
]
