"""Publishes how far a query is as the offsets of a group, so that tools can show its lag."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from quorate.client.spark.connection import tls_context
from quorate.client.sync import Admin
from quorate.errors import QuorateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.client.spark.lookup import ConnectionSettings
    from quorate.model import TopicPartition

logger = logging.getLogger(__name__)


def publish(
    settings: ConnectionSettings, group: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Commit offsets for a group that has no members; a failure is told, and no more than that."""
    context = tls_context(settings.security) if settings.security.tls else None
    try:
        with Admin([str(e) for e in settings.bootstrap], ssl_context=context) as admin:
            told = admin.alter_group_offsets(group, dict(offsets))
    except QuorateError as trouble:
        logger.warning("offsets of group %r were not published: %s", group, trouble)
        return
    refused = {partition: error for partition, error in told.items() if error is not None}
    for partition, error in sorted(refused.items())[:1]:
        logger.warning(
            "offsets of %d partitions were not published for group %r, as that of %s: %s",
            len(refused),
            group,
            partition,
            error,
        )
