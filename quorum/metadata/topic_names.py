"""Which names a topic may have (Kafka's rules)."""

import re
from collections.abc import Iterable
from typing import Final

from quorate.errors import InvalidTopicError

NAME_LENGTH_MAX: Final = 249
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


def collision(name: str, others: Iterable[str]) -> str | None:
    """Return one of the other names that would give metrics of the same name, if there is one.

    In metric names, ``.`` becomes ``_``, so names that differ in nothing else collide.
    """
    if "." not in name and "_" not in name:
        return None
    folded = _fold(name)
    return next((other for other in others if other != name and _fold(other) == folded), None)


def _fold(name: str) -> str:
    return name.replace(".", "_")
