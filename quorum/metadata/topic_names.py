"""Which names a topic may have (Kafka's rules)."""

import re
from typing import Final

from quorate.errors import InvalidTopicError

NAME_LENGTH_MAX: Final = 249
METADATA_TOPIC: Final = "__cluster_metadata"
"""What clients that describe the quorum call its log: no topic."""
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Refuse a name that no topic may have.

    Raises:
        InvalidTopicError: empty, too long, ``.`` or ``..``, or with other characters than ASCII
            letters, digits, ``.``, ``_`` and ``-``.
    """
    if not name:
        raise InvalidTopicError("a topic's name is not empty")
    if name in {".", ".."}:
        raise InvalidTopicError(f"a topic's name is not {name!r}")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidTopicError(
            f"a topic's name has at most {NAME_LENGTH_MAX} characters, not {len(name)}"
        )
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicError(
            f"the topic name {name!r} has other characters than A-Z, a-z, 0-9, '.', '_' and '-'"
        )


def may_be_named(name: str) -> bool:
    """Return whether a topic may have this name."""
    try:
        check_topic_name(name)
    except InvalidTopicError:
        return False
    return True


def metric_name(name: str) -> str | None:
    """Return the name in metrics of a topic, if another topic could have it too.

    In names of metrics ``.`` becomes ``_``, so topics that differ in nothing else would collide.
    """
    return name.replace(".", "_") if "." in name or "_" in name else None
