"""What a producer is set up with, checked."""

from __future__ import annotations

from typing import Final, cast

from quorate.client.arguments import INT32_MAX, require_texts
from quorate.client.connections import RETRY, ConnectionOptions, require_at_least
from quorate.client.sending.accumulator import SendSettings
from quorate.dataclass import dataclass

REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024
MAX_BLOCK_MS: Final = 60_000
DELIVERY_TIMEOUT_MS: Final = 120_000
TRANSACTION_TIMEOUT_MS: Final = 60_000

ACKS: Final = {"all": -1, -1: -1, 0: 0, 1: 1}

IN_FLIGHT_REMEMBERED: Final = 5
"""How many batches of a producer brokers remember in order to know repeated ones."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """How to send in transactions; the names are those of the producer's arguments."""

    transactional_id: str
    timeout_ms: int


class ProducerOptions(ConnectionOptions, total=False):
    """What producers take about waiting, retries and transactions, and what all clients take."""

    max_in_flight: int
    """How many requests each broker may be at; 5 at most if idempotent (5)."""

    max_block_ms: int
    """How long ``send`` and ``enqueue`` wait for room in the buffer, and transactions for the
    coordinator's answer (60,000)."""

    delivery_timeout_ms: int
    """How long after it was handed over a record may still succeed (120,000)."""

    retries: int
    """How often a batch is sent again after an error that may pass; by default as often as the
    delivery timeout allows."""

    transactional_id: str | None
    """A name under which the producer sends in transactions, and in no other way: see
    :meth:`quorate.client.Producer.transaction`. Of all producers with that name only the newest may
    write: it fences the others. (None)"""

    transaction_timeout_ms: int
    """How long a transaction may stay open before the coordinator aborts it; brokers have a limit
    for that, ``transaction.max.timeout.ms`` (60,000)."""


_OWN_OPTIONS: Final = (
    ProducerOptions.__annotations__.keys() - ConnectionOptions.__annotations__.keys()
)


def send_settings(
    options: ProducerOptions,
    *,
    acks: object,
    idempotent: bool | None,
    linger_ms: int,
    batch_size_bytes: int,
    buffer_memory_bytes: int,
) -> SendSettings:
    """Return how to collect and send records.

    Raises:
        ValueError: A setting makes no sense, or contradicts another.
    """
    max_in_flight = options.get("max_in_flight", IN_FLIGHT_REMEMBERED)
    settings = SendSettings(
        batch_size_bytes=batch_size_bytes,
        buffer_memory_bytes=buffer_memory_bytes,
        request_bytes_max=max(batch_size_bytes, REQUEST_BYTES_MAX),
        linger_ms=linger_ms,
        delivery_timeout_ms=options.get("delivery_timeout_ms", DELIVERY_TIMEOUT_MS),
        retries=options.get("retries", INT32_MAX),
        backoff=RETRY,
        max_in_flight=max_in_flight,
        idempotent=_idempotence(acks, idempotent, max_in_flight),
    )
    for name, value, least in (
        ("linger_ms", linger_ms, 0),
        ("batch_size_bytes", batch_size_bytes, 1),
        ("buffer_memory_bytes", buffer_memory_bytes, 1),
        ("max_in_flight", max_in_flight, 1),
        ("max_block_ms", options.get("max_block_ms", MAX_BLOCK_MS), 0),
        ("delivery_timeout_ms", settings.delivery_timeout_ms, 1),
        ("retries", settings.retries, 0),
    ):
        require_at_least(name, value, least)
    return settings


def _idempotence(acks: object, wanted: bool | None, max_in_flight: int) -> bool:  # noqa: FBT001
    """Return whether to be idempotent; by default whenever all replicas acknowledge.

    Raises:
        ValueError: The settings contradict each other.
    """
    if acks not in ACKS:
        raise ValueError(f"acks is {acks!r}, but must be 'all', 0 or 1")
    all_acknowledge = acks in {"all", -1}
    idempotent = all_acknowledge if wanted is None else wanted
    if idempotent and not all_acknowledge:
        raise ValueError(f"idempotent=True needs acks='all', but acks is {acks!r}")
    if idempotent and max_in_flight > IN_FLIGHT_REMEMBERED:
        raise ValueError(f"idempotent=True allows max_in_flight=5, but it is {max_in_flight}")
    return idempotent


def connection_options(options: ProducerOptions) -> ConnectionOptions:
    """Return those that all clients have."""
    kept = {name: value for name, value in options.items() if name not in _OWN_OPTIONS}
    return cast("ConnectionOptions", kept)


def transaction_settings(
    options: ProducerOptions, *, idempotent: bool
) -> TransactionSettings | None:
    """Return how to send in transactions; None without a ``transactional_id``.

    Raises:
        ValueError: A setting makes no sense, or contradicts another.
    """
    transactional_id = options.get("transactional_id")
    timeout_ms = options.get("transaction_timeout_ms", TRANSACTION_TIMEOUT_MS)
    require_at_least("transaction_timeout_ms", timeout_ms, 1)
    if transactional_id is None:
        return None
    require_texts(transactional_id=transactional_id)
    if not transactional_id:
        raise ValueError("transactional_id is empty: name it, or leave it out")
    if not idempotent:
        raise ValueError("a transactional_id needs acks='all' and an idempotent producer")
    return TransactionSettings(transactional_id, timeout_ms)
