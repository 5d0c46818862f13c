"""Client properties of ``-F`` and ``-X``, with Kafka's names: what our tools understand of them."""

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.errors import InvalidConfigError
from quorate.net.pem import default_context, load_own
from quorate.setting_fields import Kind, Setting, Value
from quorate.setting_values import find_setting, parse_value
from quorate.tools.problems import UsageError

_COMMON: Final = (
    Setting("bootstrap.servers", Kind.STRING, "", "Where to find a first broker."),
    Setting("client.id", Kind.STRING, "quorate", "What brokers call this client."),
    Setting(
        "request.timeout.ms", Kind.INT, 30_000, "How long an answer may take.", low=1, unit="ms"
    ),
    Setting(
        "security.protocol",
        Kind.STRING,
        "PLAINTEXT",
        "Whether to use TLS.",
        choices=("PLAINTEXT", "SSL"),
    ),
    Setting("ssl.truststore.location", Kind.STRING, "", "PEM file of whom to trust."),
    Setting("ssl.ca.location", Kind.STRING, "", "The same, by librdkafka's name."),
    Setting("ssl.keystore.location", Kind.STRING, "", "PEM file of our key and certificate."),
    Setting("ssl.key.password", Kind.STRING, "", "Password of that key."),
)
_PRODUCER: Final = (
    Setting("acks", Kind.STRING, "all", "Who acknowledges.", choices=("all", "-1", "0", "1")),
    Setting(
        "compression.type",
        Kind.STRING,
        "none",
        "Codec.",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
    ),
    Setting("enable.idempotence", Kind.BOOL, True, "Whether retries may not repeat records."),  # noqa: FBT003
    Setting("linger.ms", Kind.INT, 5, "How long batches wait for company.", low=0, unit="ms"),
    Setting("batch.size", Kind.INT, 16384, "How large batches get.", low=1, unit="bytes"),
    Setting("delivery.timeout.ms", Kind.INT, 120_000, "When to give up.", low=1, unit="ms"),
    Setting("retries", Kind.INT, 2**31 - 1, "How often to try again.", low=0),
)
_CONSUMER: Final = (
    Setting(
        "auto.offset.reset",
        Kind.STRING,
        "latest",
        "Where to go from an offset that is gone.",
        choices=("earliest", "latest", "none"),
    ),
    Setting(
        "isolation.level",
        Kind.STRING,
        "read_uncommitted",
        "Whether to skip open transactions.",
        choices=("read_uncommitted", "read_committed"),
    ),
    Setting("group.id", Kind.STRING, "", "The group to be a member of."),
    Setting(
        "group.protocol",
        Kind.STRING,
        "classic",
        "Who assigns partitions: members, or the coordinator.",
        choices=("classic", "consumer"),
    ),
    Setting("group.remote.assignor", Kind.STRING, "", "How the coordinator is to assign."),
    Setting("group.instance.id", Kind.STRING, "", "The name of a static member."),
    Setting(
        "session.timeout.ms", Kind.INT, 45_000, "When a silent member is out.", low=1, unit="ms"
    ),
    Setting("heartbeat.interval.ms", Kind.INT, 3_000, "How often it tells.", low=1, unit="ms"),
    Setting("max.poll.interval.ms", Kind.INT, 300_000, "How long work may take.", low=1, unit="ms"),
    Setting("auto.commit.interval.ms", Kind.INT, 5_000, "How often to commit.", low=1, unit="ms"),
)

_SEPARATOR: Final = re.compile("[=:]")

COMMON: Final = {setting.name: setting for setting in _COMMON}
PRODUCER: Final = {**COMMON, **{setting.name: setting for setting in _PRODUCER}}
CONSUMER: Final = {**COMMON, **{setting.name: setting for setting in _CONSUMER}}


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """Checked properties, by Kafka's name; what was not given is not there."""

    values: Mapping[str, Value]

    def get(self, name: str, default: Any) -> Any:
        """Return a property's value."""
        return self.values.get(name, default)


def check_properties(texts: Mapping[str, str], known: Mapping[str, Setting]) -> ClientProperties:
    """Return typed properties.

    Raises:
        UsageError: a name is unknown here, or a value is invalid.
    """
    try:
        return ClientProperties(
            {name: parse_value(find_setting(known, name), text) for name, text in texts.items()}
        )
    except InvalidConfigError as error:
        raise UsageError(
            error.message, why="INVALID_CONFIG", hint="this command knows " + ", ".join(known)
        ) from None


def with_property(
    properties: ClientProperties, name: str, text: str, known: Mapping[str, Setting]
) -> ClientProperties:
    """Return properties with one that an option gave.

    Raises:
        UsageError: see :func:`check_properties`.
    """
    given = check_properties({name: text}, known)
    return ClientProperties({**properties.values, **given.values})


def read_properties_file(path: Path) -> dict[str, str]:
    """Return the properties of a file in Kafka's form: ``name=value`` lines, ``#`` for comments.

    ``name: value`` is Java's other form. A line that is none is not shown: it may be a password.

    Raises:
        UsageError: it cannot be read, or a line has another form.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {path}", why=str(error), hint="check --command-config"
        ) from None
    properties: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(("#", "!")):
            continue
        name, *rest = _SEPARATOR.split(text, maxsplit=1)
        if not rest:
            raise UsageError(
                f"{path}, line {number}, is no property",
                why="there is neither = nor : in it",
                hint="name=value",
            )
        properties[name.strip()] = rest[0].strip()
    return properties


def tls_context(properties: ClientProperties) -> ssl.SSLContext | None:
    """Return how to speak TLS, or None to speak plainly.

    Raises:
        UsageError: a file cannot be used.
    """
    if properties.get("security.protocol", "PLAINTEXT") != "SSL":
        return None
    trusted = properties.get("ssl.truststore.location", "") or properties.get("ssl.ca.location", "")
    try:
        context = default_context(trusted)
        own = properties.get("ssl.keystore.location", "")
        if own:
            load_own(context, own, properties.get("ssl.key.password", ""))
    except OSError as error:
        raise UsageError(
            "TLS cannot be set up", why=str(error), hint="check the ssl.* properties: PEM files"
        ) from None
    return context
