"""TLS towards controllers, and what a controller's listener must be like without it."""

import ipaddress
import ssl

from quorate.errors import InvalidConfigError
from quorate.model import Endpoint
from quorate.net.pem import VERIFY_MODES, default_context, load_own
from quorate.settings import NodeConfig


def controller_server_context(config: NodeConfig) -> ssl.SSLContext | None:
    """Return the TLS settings of a controller's listener, ``None`` if it has none.

    Raises:
        InvalidConfigError: a file is missing, unreadable or not what it should be.
    """
    if config.controller_security_protocol != "SSL":
        return None
    if not _keystore(config):
        raise InvalidConfigError(
            "listener.name.controller.ssl.keystore.location: a controller's TLS needs a PEM file"
        )
    context = _context(config, ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = VERIFY_MODES[config.controller_ssl_client_auth]
    return context


def controller_client_context(config: NodeConfig) -> ssl.SSLContext | None:
    """Return the TLS settings of connections to controllers, ``None`` if they have none.

    Raises:
        InvalidConfigError: a file is missing, unreadable or not what it should be.
    """
    if config.controller_security_protocol != "SSL":
        return None
    return _context(config, ssl.Purpose.SERVER_AUTH)


def _keystore(config: NodeConfig) -> str:
    return config.controller_ssl_keystore_location or config.ssl_keystore_location


def _context(config: NodeConfig, purpose: ssl.Purpose) -> ssl.SSLContext:
    """Return a context with our certificate, if there is one, and whom we trust."""
    keystore = _keystore(config)
    password = config.controller_ssl_key_password or config.ssl_key_password
    truststore = config.controller_ssl_truststore_location or config.ssl_truststore_location
    try:
        context = default_context(truststore, purpose=purpose)
        if keystore:
            load_own(context, keystore, password)
    except OSError as error:
        raise InvalidConfigError(f"listener.name.controller.ssl: {error}") from None
    return context


def check_exposure(endpoint: Endpoint, config: NodeConfig) -> None:
    """Refuse a listener that others could reach and use: whoever can, can change the cluster.

    Raises:
        InvalidConfigError: it listens beyond this host without TLS, and nobody said that it may.
    """
    if config.controller_security_protocol == "SSL" or config.controller_insecure_listener:
        return
    if not _is_loopback(endpoint.host):
        raise InvalidConfigError(
            f"a controller listens beyond this host ({endpoint}) only with TLS"
            " (quorate.controller.security.protocol=SSL), or with"
            " quorate.controller.insecure.listener=true where the network is trusted"
        )


def advertised_endpoint(listening: Endpoint, advertised: Endpoint | None) -> Endpoint:
    """Return what others are told to connect to.

    Raises:
        InvalidConfigError: it listens on every address, and nobody said which one to use.
    """
    if advertised is not None:
        return advertised
    if listening.host in {"", "0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        raise InvalidConfigError(
            "the controller listens on every address: say in"
            " quorate.controller.advertised.listener which one others shall use"
        )
    return listening


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
