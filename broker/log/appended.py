"""What an append is answered with."""

from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable


class AppendResult(NamedTuple):
    """Where an append's records are.  A tuple, because one is made for every append."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """The broker's time, if the topic has LogAppendTime; else -1."""
    log_start_offset: int
    duplicate: bool
    """Whether the records were there already and nothing was written."""


new_append_result = cast(
    "Callable[[type[AppendResult], tuple[int, ...]], AppendResult]",
    tuple.__new__,  # pyright: ignore[reportUnknownMemberType]
)
"""An AppendResult of a tuple, without a call in Python: there is one for every append."""
