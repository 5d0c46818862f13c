"""How a connection starts: ApiVersions, SaslHandshake, SaslAuthenticate."""

from quorate.protocol.fields import array, binary, boolean, int16, int32, int64, string
from quorate.protocol.message import message, nested


@message(versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """Asks which APIs and versions a broker speaks; the client also says what it is (KIP-511)."""

    client_software_name: str = string("3+")
    client_software_version: str = string("3+")


@nested
class ApiVersion:
    """The versions of one API."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@nested
class SupportedFeatureKey:
    """The levels of a cluster feature that this broker could take part in (KIP-584)."""

    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@nested
class FinalizedFeatureKey:
    """The level of a feature that the cluster agreed on (KIP-584)."""

    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@message(versions="0-4", flexible="3+")
class ApiVersionsResponse:
    """Answers an ApiVersionsRequest; always behind the oldest response header."""

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0)
    finalized_features_epoch: int = int64("3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2)
    zk_migration_ready: bool = boolean("3+", tag=3)


@message(versions="0-1", flexible=None)
class SaslHandshakeRequest:
    """Names the SASL mechanism that the client wants to use."""

    mechanism: str = string()


@message(versions="0-1", flexible=None)
class SaslHandshakeResponse:
    """Accepts the mechanism, or lists those that could be used."""

    error_code: int = int16()
    mechanisms: list[str] = array("string")


@message(versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """Carries one client message of the SASL exchange."""

    auth_bytes: bytes = binary()


@message(versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """Carries one server message of the SASL exchange; a lifetime of 0 never ends (KIP-368)."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64("1+")
