"""Valid frames of the control plane, out of the declarations of its messages: for fuzzing."""

import dataclasses
import types
from collections.abc import Mapping
from enum import IntEnum
from random import Random
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from quorate.control import messages as m
from quorate.control.frames import MESSAGES, Frame, encode_frame

NAMES: Final = ("fuzz",) * 6 + ("", "1", "broker", "topic", "log.retention.ms", "é", "a" * 300)
NUMBERS: Final = (-1, 0, 1, 1, 2, 3, 7, 100, 2**31, 2**63 - 1, -(2**63))
LIST_MAX: Final = 3


def _is_request(cls: type[Any]) -> bool:
    return issubclass(cls, m.Request)


LEFT_OUT: Final = (m.Hello, m.AddVoter, m.RemoveVoter)
"""Hello comes first only; the others would change who votes, and may."""

REQUESTS: Final[tuple[Any, ...]] = tuple(
    cls for cls in MESSAGES.values() if _is_request(cls) and cls not in LEFT_OUT
)


class ControlSeeds:
    """Makes valid frames with arbitrary content."""

    def __init__(self, rng: Random, cluster_id: str) -> None:
        self._rng = rng
        self._cluster_id = cluster_id

    def hello(self) -> bytes:
        """Return the frame that comes first."""
        return encode_frame(Frame(0, m.Hello(self._cluster_id, m.NO_NODE)))

    def odd_hello(self) -> bytes:
        """Return a first frame that claims something else."""
        hello = dataclasses.replace(
            self.instance(m.Hello),
            cluster_id=self._rng.choice((self._cluster_id, "", "another-cluster", "x" * 3000)),
            purpose=self._rng.choice(list(m.Purpose)),
            node_id=self._rng.choice((m.NO_NODE, 1, 2, 3, 99)),
        )
        return encode_frame(Frame(0, hello))

    def request(self) -> bytes:
        """Return a frame with a request."""
        rng = self._rng
        message = self.instance(rng.choice(REQUESTS))
        if isinstance(message, m.CreateTopics | m.CreatePartitions):
            message = dataclasses.replace(message, validate_only=True)
        request_id = rng.randbytes(rng.choice((0, 0, 16, 32)))
        return encode_frame(Frame(rng.randrange(1 << 20), message, request_id, rng.randrange(2000)))

    def instance(self, cls: Any) -> Any:
        """Return a message, or a part of one."""
        hints = get_type_hints(cls)
        return cls(
            **{field.name: self._value(hints[field.name]) for field in dataclasses.fields(cls)}
        )

    def _value(self, hint: Any) -> Any:
        rng, origin = self._rng, get_origin(hint)
        if origin in (Union, types.UnionType):
            return self._value(rng.choice(get_args(hint)))
        if origin is tuple:
            return tuple(self._value(get_args(hint)[0]) for _ in range(rng.randrange(LIST_MAX)))
        if origin is not None and issubclass(origin, Mapping):
            key, value = get_args(hint)
            return {self._value(key): self._value(value) for _ in range(rng.randrange(LIST_MAX))}
        if hint is types.NoneType:
            return None
        if dataclasses.is_dataclass(hint):
            return self.instance(hint)
        return self._plain(hint)

    def _plain(self, hint: type[Any]) -> Any:
        rng = self._rng
        if issubclass(hint, IntEnum):
            return rng.choice(list(hint))
        if hint is bool:
            return rng.random() < 0.5
        if hint is int:
            return rng.choice(NUMBERS)
        if hint is bytes:
            return rng.randbytes(rng.choice((0, 16, 16, 40)))
        assert hint is str, hint
        return rng.choice(NAMES)
