"""What is done to registers, what a register may answer, and what is said of a history of one."""

import math
from typing import Final

from quorate.dataclass import dataclass

Value = int | str | None

NEVER: Final = math.inf
_OUTCOMES: Final = {True: "done", False: "not", None: "?"}


@dataclass(frozen=True, slots=True)
class Get:
    """A read; ``value`` is what it returned, ``None`` for a key that has no value."""

    value: Value


@dataclass(frozen=True, slots=True)
class Put:
    """A write."""

    value: Value


@dataclass(frozen=True, slots=True)
class Cas:
    """Compare and set: ``value`` is written if the key has the ``expected`` one.

    ``done`` says whether it was; it is ``None`` if the client never heard.
    """

    expected: Value
    value: Value
    done: bool | None


@dataclass(frozen=True, slots=True)
class Delete:
    """Takes away whatever value there is; ``done`` says whether there was one, as with Cas."""

    done: bool | None


Action = Get | Put | Cas | Delete


@dataclass(frozen=True, slots=True)
class Operation:
    """What a client did to a key, and when, on any clock that all clients share.

    ``returned`` is :data:`NEVER` if the outcome is unknown: it may take effect at any time after
    the call, or not at all. A client whose outcome is unknown goes on under a new number.
    """

    client: int
    key: str
    action: Action
    called: float
    returned: float

    @property
    def known(self) -> bool:
        """Whether the client heard the outcome."""
        return self.returned != NEVER


@dataclass(frozen=True, slots=True)
class Linearizable:
    """There is an order that explains every answer."""


@dataclass(frozen=True, slots=True)
class NotLinearizable:
    """There is none. How far the best attempt came, for the reader to see what is wrong.

    ``explained`` are the operations in the order of that attempt, ``value`` is what the register
    then has, and ``stuck`` are those that could have come next, none of which fits. A proof that
    needs no attempt explains nothing: ``stuck`` are then operations that contradict each other.
    """

    key: str
    explained: tuple[Operation, ...]
    value: Value
    stuck: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Undecided:
    """The search was given up: that is neither a proof nor a refutation."""

    key: str


Verdict = Linearizable | NotLinearizable | Undecided


def after(action: Action, value: Value) -> tuple[bool, Value]:
    """Return whether the register may have answered like this, and what it has afterwards."""
    match action:
        case Get():
            return action.value == value, value
        case Put():
            return True, action.value
        case Cas():
            done = action.expected == value
            return action.done in (None, done), action.value if done else value
        case Delete():
            return action.done in (None, value is not None), None


def described(action: Action) -> str:
    """Return in words what was done, and what was told of it."""
    match action:
        case Get(value):
            return f"read {value!r}"
        case Put(value):
            return f"put {value!r}"
        case Cas(expected, value, done):
            return f"{expected!r} -> {value!r}: {_OUTCOMES[done]}"
        case Delete(done):
            return f"delete: {_OUTCOMES[done]}"
