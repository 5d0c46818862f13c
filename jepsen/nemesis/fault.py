"""What a fault is: it is inflicted, seen to bite, and healed."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Protocol

from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.hosts import Host


class NotNowError(QuorateError):
    """The cluster is in no state for this fault, such as without any leader; nothing was done."""


class NotYetError(QuorateError):
    """It cannot be undone as long as other faults are on: to be tried again, once they are not."""


class Note(Protocol):
    """Takes down what is about to happen: called once by ``inflict``, before anything happens."""

    def __call__(self, targets: Sequence[Host], **detail: Any) -> None:
        """Note on whom, and what else; of CBOR's plain types."""


class Fault(Protocol):
    """One instance of something that happens, from ``inflict`` to ``heal``; for one thread."""

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Choose whom (by role), note it, make it happen; return when it has.

        Raises:
            NotNowError: it cannot happen now; ``note`` was not called.
        """

    def verified(self) -> str:
        """Return a sentence that shows that it bites, such as from /proc; empty if none does."""
        ...

    def heal(self) -> None:
        """Undo it, also if only a part of it was done; may start processes without waiting.

        Raises:
            NotYetError: another fault is in the way; to be called again.
        """


@dataclass(frozen=True, slots=True)
class Variant:
    """One fault of a family.

    Attributes:
        weight: How often it is chosen, beside the others; 0: only if it is named.
        make: Makes one instance.
    """

    weight: int
    make: Callable[[], Fault]


@dataclass(frozen=True, slots=True)
class Family:
    """What ``--faults`` names.

    Attributes:
        needs: Capabilities of the machine, such as ``root``, ``cc``; without them ``reduced``
            says what is done instead, or it is empty and the family cannot be had.
        variants: By name.
        equipment: What must lie below the nodes: see :mod:`quorate.jepsen.lab.equipment`.
    """

    name: str
    summary: str
    variants: Mapping[str, Variant]
    needs: tuple[str, ...] = ()
    reduced: str = ""
    equipment: tuple[str, ...] = ()
