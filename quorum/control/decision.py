"""What a decision is: the facts it makes, and what the asker is told once they are committed."""

from typing import Generic, TypeVar

from quorate.control.messages import Answer, Failure
from quorate.dataclass import dataclass
from quorate.errors import KafkaError
from quorate.quorum.metadata.records import MetadataRecord

A_co = TypeVar("A_co", bound=Answer, covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[A_co]):
    """Records to commit, all or none, and the answer that is true afterwards.

    Decisions are made on one version of the image and hold for no other. One that does not
    ``complete`` a request is the first part of what is too much for one command: the next part is
    decided once it is committed, and only who completes the request is answered by.
    """

    records: tuple[MetadataRecord, ...]
    answer: A_co
    completes: bool = True


@dataclass(frozen=True, slots=True)
class Reason:
    """Why, by whom and when: what each record of a decision carries."""

    cause: str
    time_ms: int


def because(what: str, principal: str, now_ms: int) -> Reason:
    """Return the reason of a request by somebody."""
    return Reason(f"{what} by {principal}" if principal else what, now_ms)


def failure_of(error: KafkaError) -> Failure:
    """Return an error as part of an answer."""
    return Failure(error.code.value, error.message)
