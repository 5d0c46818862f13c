"""A blocking connection to a broker, for tasks of Spark: requests go out and answers come in order.

Several requests may be on their way, so that the next answer is made while this one is decoded.
"""

from __future__ import annotations

import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, NetworkError, UnsupportedVersionError, known_code
from quorate.net.pem import default_context, load_own
from quorate.protocol.apis import APIS, Api, ApiKey
from quorate.protocol.frames import (
    CORRELATION_ID_MASK,
    RESPONSE_BYTES_MAX,
    encode_request,
    read_response_header,
)
from quorate.protocol.message import decoder
from quorate.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse
from quorate.protocol.primitives import DecodeError

if TYPE_CHECKING:
    import ssl

    from quorate.client.spark.security import Security
    from quorate.model import Endpoint

SOFTWARE_NAME: Final = "quorate-spark"


@dataclass(frozen=True, slots=True)
class _Waiting:
    api: Api
    version: int
    correlation_id: int


class Connection:
    """Owns a socket to one broker, and knows what was asked and not answered yet.

    Invariant: after any error it is closed, for nobody knows what would come next.
    """

    def __init__(
        self, endpoint: Endpoint, security: Security, *, client_id: str, timeout_ms: int
    ) -> None:
        """Connect, and ask which versions the broker speaks.

        Raises:
            NetworkError: Nothing answers there, or something that does not speak Kafka's protocol.
        """
        self.endpoint = endpoint
        self.client_id = client_id
        self.closed = False
        self.versions: dict[int, tuple[int, int]] = {}
        self._waiting: deque[_Waiting] = deque()
        self._next_correlation_id = 0
        self._socket = _connect(endpoint, security, timeout_ms)
        try:
            self._negotiate()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket; requests on their way are not answered any more."""
        self.closed = True
        self._socket.close()

    def set_timeout(self, timeout_ms: int) -> None:
        """Set how long sending or receiving may be at a standstill."""
        self._socket.settimeout(timeout_ms / 1_000)

    @property
    def is_idle(self) -> bool:
        """Whether it is open and nothing is on its way."""
        return not self.closed and not self._waiting

    def _negotiate(self) -> None:
        api = APIS[ApiKey.API_VERSIONS]
        version = api.max_version
        response = self._api_versions(api, version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            ranges = {entry.api_key: entry for entry in response.api_keys}
            known = ranges.get(ApiKey.API_VERSIONS)
            version = 0 if known is None else min(known.max_version, version)
            response = self._api_versions(api, version)
        if response.error_code != ErrorCode.NONE:
            name = known_code(response.error_code).name
            raise NetworkError(f"{self.endpoint} refused to say which versions it speaks: {name}")
        self.versions = {
            entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys
        }

    def _api_versions(self, api: Api, version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version="0"
        )
        self._send(api, version, request)
        response: ApiVersionsResponse = self.receive()
        return response

    def version_of(self, api_key: int, version_max: int | None = None) -> int:
        """Return the highest version of an API that both sides speak, up to ``version_max``.

        Raises:
            UnsupportedVersionError: There is none.
        """
        api = APIS[api_key]
        if api_key not in self.versions:
            raise UnsupportedVersionError(
                f"the broker at {self.endpoint} does not serve {api.name}"
            )
        first, last = self.versions[api_key]
        version = min(last, api.max_version if version_max is None else version_max)
        if version < max(first, api.min_version):
            raise UnsupportedVersionError(
                f"the broker at {self.endpoint} speaks {api.name} in versions {first} to {last},"
                f" this client in {api.min_version} to {api.max_version}"
            )
        return version

    def call(self, api_key: int, request: Any) -> Any:
        """Send a request, and return its response; nothing else may be on its way.

        Raises:
            NetworkError: The connection broke, or no answer came in time.
            UnsupportedVersionError: The two sides have no version of the API in common.
        """
        assert not self._waiting
        self.send(api_key, request)
        return self.receive()

    def send(self, api_key: int, request: Any, *, version_max: int | None = None) -> None:
        """Send a request whose response :meth:`receive` will return.

        Raises:
            NetworkError: The connection broke.
            UnsupportedVersionError: The two sides have no version of the API in common.
        """
        self._send(APIS[api_key], self.version_of(api_key, version_max), request)

    def _send(self, api: Api, version: int, request: Any) -> None:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & CORRELATION_ID_MASK
        frame = encode_request(api, version, correlation_id, self.client_id, request)
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise self._broken(error) from None
        self._waiting.append(_Waiting(api, version, correlation_id))

    def receive(self) -> Any:
        """Return the response to the request that was sent first of those not answered yet.

        Raises:
            NetworkError: The connection broke, no answer came in time, or it is none.
        """
        waiting = self._waiting[0]
        try:
            frame = self._read(int.from_bytes(self._read(4), "big", signed=True))
            response = _decode(frame, waiting)
        except OSError as error:
            raise self._broken(error) from None
        except DecodeError as error:
            self.close()
            raise NetworkError(
                f"what listens at {self.endpoint} does not speak the Kafka protocol ({error})"
            ) from None
        self._waiting.popleft()
        return response

    def _read(self, size_bytes: int) -> bytearray:
        if not 0 <= size_bytes <= RESPONSE_BYTES_MAX:
            raise DecodeError(f"a frame of {size_bytes} bytes")
        buffer = bytearray(size_bytes)
        view = memoryview(buffer)
        filled = 0
        while filled < size_bytes:
            count = self._socket.recv_into(view[filled:])
            if not count:
                raise ConnectionResetError("closed by the other side")
            filled += count
        return buffer

    def _broken(self, error: OSError) -> NetworkError:
        self.close()
        if isinstance(error, TimeoutError):
            return NetworkError(f"no answer from the broker at {self.endpoint} in time")
        why = error.strerror or str(error)
        return NetworkError(f"the connection to the broker at {self.endpoint} broke: {why}")


def _decode(frame: bytearray, waiting: _Waiting) -> Any:
    api, version = waiting.api, waiting.version
    correlation_id, at = read_response_header(frame, 0, len(frame), api, version)
    if correlation_id != waiting.correlation_id:
        raise DecodeError(f"a response to {correlation_id} instead of {waiting.correlation_id}")
    # Brokers that do not know the version of ApiVersions answer in version 0 (KIP-511).
    error_code = int.from_bytes(frame[at : at + 2], "big")
    if api.key == ApiKey.API_VERSIONS and error_code == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    return decoder(api.response, version)(frame, at, len(frame))[0]


def _connect(endpoint: Endpoint, security: Security, timeout_ms: int) -> socket.socket:
    try:
        plain = socket.create_connection((endpoint.host, endpoint.port), timeout_ms / 1_000)
    except OSError as error:
        why = "no answer in time" if isinstance(error, TimeoutError) else error.strerror
        raise NetworkError(f"cannot connect to {endpoint}: {why or error}") from None
    except UnicodeError as error:  # a name that no host can have
        raise NetworkError(f"cannot connect to {endpoint}: {error}") from None
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not security.tls:
        return plain
    try:
        return tls_context(security).wrap_socket(plain, server_hostname=endpoint.host)
    except OSError as error:  # of TLS, too
        plain.close()
        raise NetworkError(f"no TLS with {endpoint}: {error}") from None


def tls_context(security: Security) -> ssl.SSLContext:
    """Return how to speak TLS.

    Raises:
        OSError: A file cannot be read, or is no PEM.
    """
    context = default_context(security.trusted_file, data=security.trusted)
    context.check_hostname = security.check_name
    if security.own_file:
        load_own(context, security.own_file, security.key_password)
    return context
