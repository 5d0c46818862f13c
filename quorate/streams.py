"""Streams: records of topics, transformed, counted in windows of time, and written to a topic.

::

    from quorate.streams import TimeWindows, run, stream

    views = stream("views").group_by_key().windowed_by(TimeWindows(size_ms=60_000, grace_ms=0))
    await run("views-per-minute", views.count().to("counts", key=..., value=...), "127.0.0.1:9092")
"""

from quorate.client.serde import BytesSerde, CborSerde, JsonSerde, Serde, SerdeError, StrSerde
from quorate.client.streaming import Running, Statistics, run
from quorate.client.streams.pipeline import Grouped, Pipeline, Stream, Windowed, stream
from quorate.client.streams.serdes import LongSerde, WindowedSerde
from quorate.client.streams.task import NoTimeError
from quorate.client.streams.windows import TimeWindows, Window

__all__ = [
    "BytesSerde",
    "CborSerde",
    "Grouped",
    "JsonSerde",
    "LongSerde",
    "NoTimeError",
    "Pipeline",
    "Running",
    "Serde",
    "SerdeError",
    "Statistics",
    "StrSerde",
    "Stream",
    "TimeWindows",
    "Window",
    "Windowed",
    "WindowedSerde",
    "run",
    "stream",
]
