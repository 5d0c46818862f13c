"""Groups and their coordinators: FindCoordinator."""

from quorate.protocol.fields import array, int8, int16, int32, string
from quorate.protocol.message import message, nested


@message(versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """Asks who coordinates groups (key type 0), transactions (1) or share groups (2)."""

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array("string", "4+")


@nested
class Coordinator:
    """Who coordinates one key."""

    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """Answers a FindCoordinatorRequest."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
