"""What the options and columns of a write mean, with the names and texts of Spark's Kafka sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.client.spark.lookup import ConnectionSettings, Options, connection_settings, unknown
from quorate.client.spark.places import OptionError
from quorate.dataclass import dataclass
from quorate.errors import UnsupportedCompressionTypeError
from quorate.records.compression import Codec, codec_named

if TYPE_CHECKING:
    from collections.abc import Mapping

PRODUCER_PROPERTIES: Final = frozenset(
    {
        "acks",
        "batch.size",
        "bootstrap.servers",
        "client.id",
        "compression.type",
        "delivery.timeout.ms",
        "enable.idempotence",
        "request.timeout.ms",
        "transaction.timeout.ms",
        "transactional.id",
    }
)

TRANSACTION_TIMEOUT_MS: Final = 900_000
"""As long as brokers allow unless told otherwise: what is decided must be carried out in time."""

TRANSACTIONAL_ID_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """All about a write.

    Attributes:
        connection: How to reach the cluster.
        topic: Where all rows go; None: where their column says.
        acks: Who must have a record before it counts: -1 (all in-sync replicas) or 1 (the leader).
        codec: How batches are compressed.
        batch_bytes: How large batches get.
        delivery_timeout_ms: How long to try.
        transactional_id: What transactional ids of tasks begin with; None: no transactions.
        transaction_timeout_ms: How long a transaction may stay open.
        warnings: What to tell the user, without stopping.
    """

    connection: ConnectionSettings
    topic: str | None
    acks: int
    codec: Codec
    batch_bytes: int
    delivery_timeout_ms: int
    transactional_id: str | None
    transaction_timeout_ms: int
    warnings: tuple[str, ...]


def parse_write(texts: Mapping[str, str]) -> WriteOptions:
    """Return what the options of ``df.write`` and ``df.writeStream`` mean.

    Raises:
        OptionError: They make no sense.
    """
    options = Options(texts)
    kafka = options.kafka()
    for side, plural in (("key", "keys are"), ("value", "value are")):
        if f"{side}.serializer" in kafka:
            raise OptionError(
                f"Kafka option '{side}.serializer' is not supported as {plural} serialized with"
                " ByteArraySerializer."
            )
    if "bootstrap.servers" not in kafka:
        raise OptionError(
            'Missing required configuration "bootstrap.servers" which has no default value:'
            " set option 'kafka.bootstrap.servers'"
        )
    topic = options.text("topic")
    acks = _acks(kafka.get("acks", "all").strip())
    return WriteOptions(
        connection=connection_settings(kafka, "quorate-spark"),
        topic=None if topic is None else topic.strip(),
        acks=acks,
        codec=_codec(kafka.get("compression.type", "none")),
        batch_bytes=options.given_number("kafka.batch.size", 512 * 1024, least=1),
        delivery_timeout_ms=options.given_number("kafka.delivery.timeout.ms", 120_000, least=1),
        transactional_id=_transactional_id(options, acks),
        transaction_timeout_ms=options.given_number(
            "kafka.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS, least=1
        ),
        warnings=tuple(unknown(kafka, PRODUCER_PROPERTIES)),
    )


_DESIRED: Final = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("double", "timestamp"),
}
"""Which columns are written, and the types that they may have."""


def check_columns(types: Mapping[str, str], topic: str | None) -> None:
    """Check what is to be written, given the types of columns by name.

    Raises:
        OptionError: It lacks a column, or one has a type that cannot be written.
    """
    if topic is None and "topic" not in types:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for"
            " setting a topic."
        )
    if "value" not in types:
        raise OptionError("Required attribute 'value' not found")
    for name, desired in _DESIRED.items():
        kind = types.get(name, desired[0])
        if kind not in desired and not (name == "topic" and topic is not None):
            raise OptionError(
                f"{name} attribute unsupported type {kind}. {name} must be a(n)"
                f" {' or '.join(desired)}"
            )


def _transactional_id(options: Options, acks: int) -> str | None:
    text = (options.text("kafka.transactional.id") or "").strip()
    if not options.flag("transactional", default=False):
        if text:
            raise OptionError(
                "kafka.transactional.id is set, but option 'transactional' is not 'true': with it"
                " each micro-batch is written exactly once, without it at least once"
            )
        return None
    if not text:
        raise OptionError(
            "option 'transactional' is 'true', but there is no kafka.transactional.id: give a name"
            " that this query has, and keeps, and no other one has"
        )
    if len(text) > TRANSACTIONAL_ID_CHARS_MAX:
        raise OptionError(
            f"kafka.transactional.id has {len(text)} characters; it may have"
            f" {TRANSACTIONAL_ID_CHARS_MAX}"
        )
    if acks != -1:
        raise OptionError(
            "Must set acks to all in order to use the idempotent producer. Otherwise we cannot"
            " guarantee idempotence."
        )
    return text


def _acks(text: str) -> int:
    known = {"all": -1, "-1": -1, "1": 1}
    if text not in known:
        raise OptionError(
            f"Invalid value {text} for configuration acks: String must be one of: all, -1, 1 (with"
            " 0 nobody would know whether a task has written its rows)"
        )
    return known[text]


def _codec(name: str) -> Codec:
    try:
        return codec_named(name.strip())
    except UnsupportedCompressionTypeError as error:
        raise OptionError(
            f"Invalid value {name} for configuration compression.type: {error.message}"
        ) from None
