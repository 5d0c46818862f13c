"""How connections are secured, out of Kafka's options. Files are read when a connection is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.client.spark.places import OptionError
from quorate.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROTOCOLS: Final = ("PLAINTEXT", "SSL")
_KNOWN: Final = frozenset(
    {
        "ssl.ca.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)


@dataclass(frozen=True, slots=True)
class Security:
    """Whether and how to speak TLS.

    Attributes:
        tls: Whether at all.
        trusted_file: PEM file of whom to trust; empty: whom the system trusts.
        trusted: Certificates in PEM of whom to trust, besides.
        own_file: PEM file of our key and certificate; empty: none.
        key_password: Password of that key.
        check_name: Whether the broker's certificate must be for the name that it is called by.
    """

    tls: bool
    trusted_file: str
    trusted: str
    own_file: str
    key_password: str
    check_name: bool


def parse_security(kafka: Mapping[str, str]) -> Security:
    """Return what Kafka's options (without ``kafka.``) say.

    Raises:
        OptionError: They ask for what this connector does not do.
    """
    protocol = kafka.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise OptionError(
            f"Kafka option 'security.protocol' is {protocol}: this connector speaks"
            f" {' and '.join(_PROTOCOLS)}, and no SASL yet"
        )
    for name in sorted(kafka):
        if name.startswith("sasl."):
            raise OptionError(f"Kafka option '{name}' is not supported: there is no SASL yet")
        if name.startswith("ssl.") and name not in _KNOWN:
            raise OptionError(
                f"Kafka option '{name}' is not supported; there are {', '.join(sorted(_KNOWN))}"
            )
    for name in ("ssl.truststore.type", "ssl.keystore.type"):
        if kafka.get(name, "PEM").upper() != "PEM":
            raise OptionError(
                f"Kafka option '{name}' is {kafka[name]}: only PEM files can be read; 'openssl"
                " pkcs12' and 'keytool -exportcert -rfc' make them of others"
            )
    trusted_file = kafka.get("ssl.truststore.location", "") or kafka.get("ssl.ca.location", "")
    return Security(
        tls=protocol == "SSL",
        trusted_file=trusted_file,
        trusted=kafka.get("ssl.truststore.certificates", ""),
        own_file=kafka.get("ssl.keystore.location", ""),
        key_password=kafka.get("ssl.key.password", ""),
        check_name=kafka.get("ssl.endpoint.identification.algorithm", "https") != "",
    )
