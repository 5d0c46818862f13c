"""The final reads of workloads whose partitions stay."""

from collections.abc import Sequence
from typing import Final

from quorate.jepsen.clients.rereading import UnreadableError, read_all
from quorate.jepsen.workloads.workload import Context
from quorate.model import TopicPartition

READ_S_MAX: Final = 60.0


def read_back(context: Context, partitions: Sequence[TopicPartition]) -> list[str]:
    """Read these from their start to their end; return what went wrong, for ``errors()``."""
    try:
        read_all(context.recorder, context.bootstrap, partitions, READ_S_MAX)
    except UnreadableError as error:
        return [str(error)]
    return []
