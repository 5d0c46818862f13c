"""What a controller says to who connects to it."""

from quorate.control import messages as m
from quorate.errors import UnsupportedVersionError


def common_version(hello: m.Hello) -> int:
    """Return the version of the protocol that both sides speak.

    Raises:
        UnsupportedVersionError: there is none.
    """
    version = min(hello.version_max, m.PROTOCOL_VERSION_MAX)
    if version < max(hello.version_min, m.PROTOCOL_VERSION_MIN):
        raise UnsupportedVersionError(
            f"this controller speaks versions {m.PROTOCOL_VERSION_MIN} to "
            f"{m.PROTOCOL_VERSION_MAX}, you {hello.version_min} to {hello.version_max}"
        )
    return version
