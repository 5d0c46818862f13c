"""Files with certificates and keys: what is wrong with one is told with its name."""

import ssl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VERIFY_MODES: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
"""What ``ssl.client.auth`` means."""


def load_own(context: ssl.SSLContext, path: str, password: str) -> None:
    """Load our certificate and its private key from a PEM file; ``password`` may be empty.

    Raises:
        OSError: they cannot be used; says which file, and why.
    """
    with _naming(path, password):
        # Not None, for which OpenSSL would stop and ask whoever sits at the terminal.
        context.load_cert_chain(path, password=password)


def default_context(
    trusted: str, *, data: str = "", purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH
) -> ssl.SSLContext:
    """Return a context that trusts a PEM file's certificates, or those in ``data``.

    If both are empty, it trusts whom the system does.

    Raises:
        OSError: they cannot be used; says which file, and why.
    """
    with _naming(trusted):
        return ssl.create_default_context(purpose, cafile=trusted or None, cadata=data or None)


@contextmanager
def _naming(path: str, password: str = "") -> Generator[None]:
    try:
        yield
    except OSError as error:
        what = f"{path}: " if path else ""
        raise OSError(what + _why(path, password, error)) from None


def _why(path: str, password: str, error: OSError) -> str:
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    content = Path(path).read_bytes() if path else b""
    if error.reason == "KEY_VALUES_MISMATCH":
        return "its private key is not that of its first certificate"
    if b"ENCRYPTED" in content and b"CERTIFICATE-----" in content:
        return "ssl.key.password is wrong" if password else "its key wants a ssl.key.password"
    return f"no PEM file with what belongs there ({error})"
