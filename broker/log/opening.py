"""Logs opened from what is on disk, or planned where there is nothing yet."""

from quorate.broker.log.checkpoints import NO_CHECKPOINT, LogCheckpoint
from quorate.broker.log.context import LogContext
from quorate.broker.log.directory import Left
from quorate.broker.log.log import Log
from quorate.broker.log.naming import Birth, DirectoryMaker
from quorate.broker.log.recovery import LogLoader, planned_log
from quorate.model import TopicPartition
from quorate.settings import TopicConfig


def open_log(
    context: LogContext,
    topic_partition: TopicPartition,
    birth: Birth,
    *,
    checkpoint: LogCheckpoint | None,
    left: Left,
    now_ms: int,
) -> tuple[Log, bool]:
    """Open a partition's log, recovering it unless it was closed cleanly.

    Its settings are the default ones until somebody sets others. Returned with it is whether it is
    whole: whether nothing had to be cut off but the beginning of a batch that was being written.

    Args:
        context: the disk it is on.
        topic_partition: whose it is.
        birth: what its directory says.
        checkpoint: as last written down; None if the log was never flushed, as far as is known.
        left: how the last process left it.
        now_ms: the time.

    Raises:
        OSError: the disk fails.
    """
    directory = f"{context.directory}/{topic_partition}"
    config = TopicConfig()
    loader = LogLoader(context, directory, birth, config=config, now_ms=now_ms)
    loaded = loader.load(checkpoint or NO_CHECKPOINT, left=left)
    loaded.sealed = checkpoint is not None
    loaded.segments.active.park()
    log = Log(context, directory, topic_partition, config=config, loaded=loaded, maker=None)
    return log, loaded.whole


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
    loaded = planned_log(context, directory, maker.topic_id, config=config, now_ms=now_ms)
    return Log(context, directory, topic_partition, config=config, loaded=loaded, maker=maker)
