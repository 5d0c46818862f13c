"""Logs opened from what is on disk, or planned where there is nothing yet."""

from quorate.broker.log.checkpoints import LogCheckpoint
from quorate.broker.log.context import LogContext
from quorate.broker.log.log import Log
from quorate.broker.log.naming import DirectoryMaker
from quorate.broker.log.recovery import LogLoader, planned_log
from quorate.model import TopicPartition
from quorate.settings import TopicConfig


def open_log(
    context: LogContext,
    topic_partition: TopicPartition,
    *,
    config: TopicConfig,
    checkpoint: LogCheckpoint,
    clean: bool,
    now_ms: int,
) -> Log:
    """Open a partition's log, recovering it unless it was closed cleanly.

    Raises:
        OSError: the disk fails.
    """
    directory = f"{context.directory}/{topic_partition}"
    loader = LogLoader(context, directory, config=config, now_ms=now_ms)
    loaded = loader.load(checkpoint, clean=clean)
    loaded.segments.active.park()
    return Log(context, directory, topic_partition, config=config, loaded=loaded, maker=None)


def plan_log(
    context: LogContext,
    topic_partition: TopicPartition,
    maker: DirectoryMaker,
    *,
    config: TopicConfig,
    now_ms: int,
) -> Log:
    """Return an empty log whose files will be made with its first record."""
    directory = f"{context.directory}/{topic_partition}"
    loaded = planned_log(context, directory, config=config, now_ms=now_ms)
    return Log(context, directory, topic_partition, config=config, loaded=loaded, maker=maker)
