"""Texts of Spark's Kafka source about Kafka's options that it does not take."""

from typing import Final

REFUSED: Final = {
    "auto.offset.reset": (
        "Kafka option 'auto.offset.reset' is not supported. Instead set the source option "
        "'startingoffsets' to 'earliest' or 'latest' to specify where to start. Structured "
        "Streaming manages which offsets are consumed internally, rather than relying on the "
        "kafkaConsumer to do it. This will ensure that no data is missed when new "
        "topics/partitions are dynamically subscribed. Note that 'startingoffsets' only "
        "applies when a new Streaming query is started, and that resuming will always pick up"
        " from where the query left off. See the docs for more details."
    ),
    "key.deserializer": (
        "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte "
        "arrays with ByteArrayDeserializer. Use DataFrame operations to explicitly "
        "deserialize the keys."
    ),
    "value.deserializer": (
        "Kafka option 'value.deserializer' is not supported as values are deserialized as "
        "byte arrays with ByteArrayDeserializer. Use DataFrame operations to explicitly "
        "deserialize the values."
    ),
    "enable.auto.commit": ("Kafka option 'enable.auto.commit' is not supported"),
    "interceptor.classes": ("Kafka option 'interceptor.classes' is not supported"),
}
"""By the name of the option, without ``kafka.``."""
