"""What a producer is set up with, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.client.connections import require_at_least

if TYPE_CHECKING:
    from quorate.client.sending.accumulator import SendSettings

ACKS: Final = {"all": -1, -1: -1, 0: 0, 1: 1}

IN_FLIGHT_REMEMBERED: Final = 5
"""How many batches of a producer brokers remember in order to know repeated ones."""


def idempotence(acks: object, wanted: bool | None, max_in_flight: int) -> bool:  # noqa: FBT001
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


def check_transactional(transactional_id: str | None, timeout_ms: int, *, idempotent: bool) -> None:
    """Raise ValueError for a setting of transactions that makes no sense."""
    if transactional_id is None:
        return
    if not transactional_id:
        raise ValueError("transactional_id is empty: name it, or leave it out")
    if not idempotent:
        raise ValueError("a transactional_id needs acks='all' and an idempotent producer")
    require_at_least("transaction_timeout_ms", timeout_ms, 1)


def check_numbers(settings: SendSettings, max_block_ms: int) -> None:
    """Raise ValueError for a number that makes no sense."""
    for name, value, least in (
        ("linger_ms", settings.linger_ms, 0),
        ("batch_size_bytes", settings.batch_size_bytes, 1),
        ("buffer_memory_bytes", settings.buffer_memory_bytes, 1),
        ("max_in_flight", settings.max_in_flight, 1),
        ("max_block_ms", max_block_ms, 0),
        ("delivery_timeout_ms", settings.delivery_timeout_ms, 1),
        ("retries", settings.retries, 0),
    ):
        require_at_least(name, value, least)
