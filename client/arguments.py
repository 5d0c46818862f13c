"""Whether what a user gave can be sent: asked where it is given.

What cannot be written into a request would end the task that makes the request, and with it the
client and all that others do with it.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from typing import SupportsIndex

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
TEXT_BYTES_MAX: Final = 2**15 - 1
"""A longer text has no room in a request."""


def is_number(value: object, low: int, high: int) -> bool:
    """Return whether a value is a whole number between two, both included."""
    try:
        return low <= index(cast("SupportsIndex", value)) <= high
    except TypeError:
        return False


def require_number(what: str, value: object, low: int, high: int) -> None:
    """Raise ValueError, naming the argument, unless the value is such a number."""
    if not is_number(value, low, high):
        raise ValueError(f"{what} is {value!r}, but must be a number from {low} to {high}")


def require_text(what: str, value: object) -> None:
    """Raise an error, naming the argument, unless the value is a text that can be sent.

    Raises:
        TypeError: It is no text.
        ValueError: It is too long, or has half of a character.
    """
    if not isinstance(value, str):
        hint = "; try .decode()" if isinstance(value, bytes) else ""
        raise TypeError(f"{what} is {value!r}, but must be a text{hint}")
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} is {value!r}, which is no text: {error.reason}") from None
    if size_bytes > TEXT_BYTES_MAX:
        raise ValueError(f"{what} has {size_bytes} bytes, and may have {TEXT_BYTES_MAX}")


def require_texts(**texts: str | None) -> None:
    """Require that of all arguments that are not None, which are given by their names."""
    for what, value in texts.items():
        if value is not None:
            require_text(what, value)
