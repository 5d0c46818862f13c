"""Tells of records that should be there and are not: by an error, or by a warning."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from quorate.client.spark.plan import LOSS_IS_AN_ERROR, LOSS_IS_TOLD, DataLossError

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.client.spark.options import ReadOptions

logger = logging.getLogger(__name__)


def report_loss(options: ReadOptions, what: str) -> None:
    """Say that records are gone.

    Raises:
        DataLossError: That is an error.
    """
    if options.fail_on_data_loss:
        raise DataLossError(f"{what.rstrip('.')}. {LOSS_IS_AN_ERROR}")
    logger.warning("%s. %s", what.rstrip("."), LOSS_IS_TOLD)


def loss_reporter(options: ReadOptions) -> Callable[[str], None]:
    """Return :func:`report_loss` for these options."""
    return lambda what: report_loss(options, what)
