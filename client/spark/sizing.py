"""What a batch reads, found by asking the cluster: ranges of offsets, and their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.client.spark.losses import loss_reporter
from quorate.client.spark.places import EARLIEST, LATEST, Offsets
from quorate.client.spark.plan import check_ends, ranges_between, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.client.spark.cluster import Cluster
    from quorate.client.spark.options import ReadOptions
    from quorate.client.spark.plan import OffsetRange
    from quorate.model import TopicPartition


def batch_ranges(known: Cluster, options: ReadOptions) -> list[OffsetRange]:
    """Return what a batch reads of each partition.

    Raises:
        OptionError: The options do not fit the partitions that there are.
        DataLossError: Records that should be read are gone.
        QuorateError: The cluster does not answer, or there is no such topic.
    """
    partitions = known.subscribed(options.subscription)

    def ask(times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return known.list_offsets(times, committed_only=options.fetch.committed_only)

    starts = resolve(
        options.start,
        partitions,
        ask,
        starting=True,
        latest_without_match=options.start_latest_without_match,
    )
    ends = resolve(options.end, partitions, ask, starting=False, latest_without_match=True)
    named = isinstance(options.end, Offsets)
    log_ends = ask(dict.fromkeys(partitions if named else (), LATEST))
    ends = check_ends(starts, ends, log_ends, loss_reporter(options))
    return ranges_between(starts, ends)


def log_bytes(known: Cluster, options: ReadOptions) -> int:
    """Return about how many bytes of the log a batch reads; 0 if no broker tells.

    Raises:
        QuorateError: See :func:`batch_ranges`.
    """
    ranges = batch_ranges(known, options)
    partitions = [each.topic_partition for each in ranges]
    starts = known.list_offsets(dict.fromkeys(partitions, EARLIEST), committed_only=False)
    ends = known.list_offsets(dict.fromkeys(partitions, LATEST), committed_only=False)
    sizes = known.log_sizes()
    total = 0
    for wanted in ranges:
        partition = wanted.topic_partition
        offsets = ends[partition] - starts[partition]
        total += sizes.get(partition, 0) * min(wanted.size, offsets) // max(offsets, 1)
    return total
