"""What all shims do: options to a client, errors to Kafka's words."""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from quorate.client.admin import Admin
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.setting_fields import Setting
from quorate.tools.arguments import GlobalOptions
from quorate.tools.client_properties import ClientProperties, with_property
from quorate.tools.reaching import client_of
from quorate.tools.session import bootstrap, client_properties, connection_options
from quorate.tools.shims.arguments import Given, ShimError
from quorate.tools.topics import Client

T = TypeVar("T")

DEFAULT_BOOTSTRAP: Final = "localhost:9092"

_JAVA_NAMES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "UnknownTopicOrPartitionException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.GROUP_ID_NOT_FOUND: "GroupIdNotFoundException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "GroupSubscribedToTopicException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
}


_SUBJECT: Final = re.compile(r"^(?:topic|group|broker) '[^']*': ")
"""What our client says before the broker's words: whom they are about."""


def global_options(given: Given, *configs: str) -> GlobalOptions:
    """Return the options of all commands that a shim's stand for.

    ``configs`` are other names of ``--command-config``.
    """
    files = [text for name in ("command-config", *configs) for text in given.all(name)]
    properties = [text for name in given.values for text in given.all(name) if _is_property(name)]
    return GlobalOptions(
        bootstrap=given.one("bootstrap-server") or given.one("broker-list"),
        controllers=given.one("bootstrap-controller"),
        command_config=files[-1] if files else "",
        properties=tuple(properties),
    )


def _is_property(name: str) -> bool:
    return name in {"command-property", "producer-property", "consumer-property"}


def properties_of(
    given: Given, known: Mapping[str, Setting], config: str, options: Mapping[str, str]
) -> ClientProperties:
    """Return the client properties of a command line.

    ``config`` is another name of ``--command-config``. ``options`` are those that stand for
    properties, with what these are called.

    Raises:
        UsageError: a property is unknown, or its value none.
    """
    properties = client_properties(global_options(given, config), known)
    for option, name in options.items():
        if option in given:
            properties = with_property(properties, name, given.one(option), known)
    return properties


def client_of_properties(
    given: Given, environment: Mapping[str, str], properties: ClientProperties
) -> Client:
    """Return how to make a client with properties."""
    options = global_options(given)
    return Client(bootstrap(options, environment), connection_options(options, properties))


def client(given: Given, environment: Mapping[str, str]) -> Client:
    """Return how to make a client as the command line says."""
    return client_of(global_options(given), environment)


@asynccontextmanager
async def administering(
    given: Given, environment: Mapping[str, str], failed: Callable[[QuorateError], ShimError]
) -> AsyncGenerator[Admin]:
    """Have an admin client, as the command line says, for a block.

    Raises:
        ShimError: the block's own; or what ``failed`` makes of another error in it.
    """
    try:
        async with client(given, environment).admin() as admin:
            yield admin
    except ShimError:
        raise
    except QuorateError as error:
        raise failed(error) from None


def java_error(error: QuorateError) -> str:
    """Return an error as Java prints one: the class and the message."""
    if not isinstance(error, KafkaError):
        return str(error)
    code = error.code
    words = "".join(part.capitalize() for part in code.name.split("_"))
    name = _JAVA_NAMES.get(code, f"{words.removesuffix('Exception')}Exception")
    return f"org.apache.kafka.common.errors.{name}: {message_of(error)}"


def told(result: T | QuorateError) -> T:
    """Return what was told, unless it is an error.

    Raises:
        QuorateError: it is.
    """
    if isinstance(result, QuorateError):
        raise result
    return result


def message_of(error: BaseException) -> str:
    """Return what Kafka's tools say of an error, without its class."""
    text = error.message if isinstance(error, KafkaError) else str(error)
    return _SUBJECT.sub("", text)


def number_list(brokers: Any) -> str:
    """Return ids with commas."""
    return ",".join(map(str, brokers))


def repeated(values: Iterable[object]) -> str:
    """Return what occurs more than once, with commas; "" if nothing does."""
    return ",".join(str(value) for value, count in Counter(values).items() if count > 1)
