"""Where a broker listens, and where it finds others: properties read, sockets bound, TLS set up."""

import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Final

from quorate.dataclass import dataclass
from quorate.errors import InvalidConfigError, NetworkError, QuorateError
from quorate.model import PORT_MAX, Endpoint, is_host
from quorate.net.pem import VERIFY_MODES, default_context, load_own
from quorate.quorum.metadata.image import MetadataImage
from quorate.settings import NodeConfig

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL)
EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - to recognize it

_LISTENER: Final = re.compile(r"([A-Za-z_]+)://(?:\[([0-9A-Fa-f:.]+)\]|([^:/\[\]]*)):([0-9]{1,5})")


class ListenError(QuorateError):
    """An address cannot be listened on."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket, and the security protocol that names it."""

    protocol: str
    sock: socket.socket

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens, with the port that the system chose if it was asked to."""
        host, port = self.sock.getsockname()[:2]
        return Endpoint(host, port)


def parse_listeners(texts: Sequence[str], name: str) -> dict[str, Endpoint]:
    """Return the endpoint of each security protocol, from ``PROTOCOL://host:port``.

    A bare ``host:port`` is PLAINTEXT.

    Args:
        texts: the parts of a ``listeners`` property.
        name: of the property, for messages.

    Raises:
        InvalidConfigError: what is wrong, and what would be right.
    """
    endpoints: dict[str, Endpoint] = {}
    for text in texts:
        match = _LISTENER.fullmatch(text if "://" in text else f"{PLAINTEXT}://{text}")
        if match is None or int(match[4]) > PORT_MAX:
            raise InvalidConfigError(
                f"{name}: {text!r} is no listener; write it as PLAINTEXT://127.0.0.1:9092"
            )
        protocol = match[1].upper()
        if protocol not in PROTOCOLS:
            raise InvalidConfigError(
                f"{name}: {protocol} is not supported; there are {' and '.join(PROTOCOLS)}"
            )
        if protocol in endpoints:
            raise InvalidConfigError(f"{name}: {protocol} is there twice")
        host = match[2] or match[3]
        if host and not is_host(host):
            raise InvalidConfigError(f"{name}: {host!r} in {text!r} can be no host")
        endpoints[protocol] = Endpoint(host, int(match[4]))
    return endpoints


def bind_listeners(config: NodeConfig) -> list[Listener]:
    """Bind what ``listeners`` says.

    Raises:
        InvalidConfigError: the property is wrong.
        ListenError: an address is taken or not ours.
    """
    wanted = parse_listeners(config.listeners, "listeners")
    if not wanted:
        raise InvalidConfigError("listeners: name at least one, such as PLAINTEXT://127.0.0.1:9092")
    listeners: list[Listener] = []
    try:
        for protocol, endpoint in wanted.items():
            listeners.append(Listener(protocol, bind(endpoint, config)))
    except ListenError:
        for listener in listeners:
            listener.sock.close()
        raise
    return listeners


def bind(endpoint: Endpoint, config: NodeConfig) -> socket.socket:
    """Return a non-blocking socket that listens on an endpoint.

    Raises:
        ListenError: why not, and what to try.
    """
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for option, size_bytes in (
            (socket.SO_SNDBUF, config.socket_send_buffer_bytes),
            (socket.SO_RCVBUF, config.socket_receive_buffer_bytes),
        ):
            if size_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, option, size_bytes)
        sock.bind((endpoint.host, endpoint.port))
        sock.listen(config.socket_listen_backlog_size)
    except OSError as error:
        sock.close()
        raise ListenError(f"cannot listen on {endpoint}: {error.strerror or error}") from None
    sock.setblocking(False)  # noqa: FBT003
    return sock


def advertised_endpoints(
    config: NodeConfig, listeners: Sequence[Listener]
) -> Mapping[str, Endpoint]:
    """Return what clients are told to connect to, by protocol.

    Raises:
        InvalidConfigError: ``advertised.listeners`` names one that does not listen, or an address
            that nobody can connect to.
    """
    bound = {listener.protocol: listener.endpoint for listener in listeners}
    told = parse_listeners(config.advertised_listeners, "advertised.listeners")
    unbound = told.keys() - bound.keys()
    if unbound:
        raise InvalidConfigError(f"advertised.listeners: there is no listener {unbound.pop()}")
    for endpoint in told.values():
        if endpoint.host in EVERYWHERE or not endpoint.can_be_dialed:
            raise InvalidConfigError(
                f"advertised.listeners: nobody can connect to {endpoint}; say which host and port"
            )
    everywhere = [p for p, e in bound.items() if e.host in EVERYWHERE and p not in told]
    if everywhere:
        raise InvalidConfigError(
            f"listeners: {everywhere[0]} listens on every address; say in advertised.listeners"
            " which one clients shall use"
        )
    return {**bound, **told}


def tls_context(config: NodeConfig) -> ssl.SSLContext:
    """Return the TLS settings of the SSL listener.

    Raises:
        InvalidConfigError: a file is missing, unreadable or not what it should be.
    """
    if not config.ssl_keystore_location:
        raise InvalidConfigError("ssl.keystore.location: an SSL listener needs a PEM file")
    context = _context(config, ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = VERIFY_MODES[config.ssl_client_auth]
    return context


@dataclass(frozen=True, slots=True)
class BetweenBrokers:
    """How brokers connect to each other: to which listener, and with what TLS settings, if any."""

    protocol: str
    context: ssl.SSLContext | None


def between_brokers(config: NodeConfig, endpoints: Mapping[str, Endpoint]) -> BetweenBrokers:
    """Return how this broker connects to others, and they to it.

    Unlike Kafka's, brokers without a PLAINTEXT listener need not be told that SSL it shall be.

    Raises:
        InvalidConfigError: two properties say it, or one names no listener that there is, or a file
            of TLS is missing, unreadable or not what it should be.
    """
    named, secured = config.inter_broker_listener_name, config.security_inter_broker_protocol
    if named and secured:
        raise InvalidConfigError(
            "inter.broker.listener.name and security.inter.broker.protocol: set only one of them"
        )
    protocol = named.upper() or secured or (PLAINTEXT if PLAINTEXT in endpoints else SSL)
    if protocol not in endpoints:
        name = "inter.broker.listener.name" if named else "security.inter.broker.protocol"
        raise InvalidConfigError(f"{name}: there is no listener {protocol} that is advertised")
    return BetweenBrokers(protocol, _client_context(config) if protocol == SSL else None)


def endpoint_of(image: MetadataImage, broker_id: int, protocol: str) -> Endpoint:
    """Return where another broker is reached.

    Raises:
        NetworkError: it is not known, or has no listener of the kind that we use.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise NetworkError(f"broker {broker_id} is not registered")
    endpoint = broker.endpoints.get(protocol)
    if endpoint is None:
        raise NetworkError(f"broker {broker_id} has no listener {protocol}")
    return endpoint


def _client_context(config: NodeConfig) -> ssl.SSLContext:
    """Return the TLS settings with which we connect to other brokers, as their client."""
    context = _context(config, ssl.Purpose.SERVER_AUTH)
    context.check_hostname = bool(config.ssl_endpoint_identification_algorithm)
    return context


def _context(config: NodeConfig, purpose: ssl.Purpose) -> ssl.SSLContext:
    """Return a context with our key, and whom we trust: whom the system does, if we name nobody."""
    trusted = config.ssl_truststore_location
    try:
        context = default_context(trusted, purpose=purpose)
        load_own(context, config.ssl_keystore_location, config.ssl_key_password)
    except OSError as error:
        raise InvalidConfigError(f"ssl.keystore or ssl.truststore: {error}") from None
    if not trusted:
        context.load_default_certs(purpose)
    return context
