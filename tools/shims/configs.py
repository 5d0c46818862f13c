"""``kafka-configs``, for topics, brokers and groups."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from quorate.client.admin import Admin, raise_first
from quorate.client.admin_results import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)
from quorate.errors import QuorateError
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ListConfigResourcesRequest,
)
from quorate.tools.client_properties import read_properties_file
from quorate.tools.shims.arguments import Given, ShimError, options
from quorate.tools.shims.asking import administering, message_of, repeated

CONFIGS: Final = options(
    "describe alter all force entity-default broker-defaults user-defaults client-defaults",
    "entity-type entity-name add-config add-config-file delete-config topic broker group"
    " user client ip broker-logger",
)
SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
TYPES: Final = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "groups": ResourceType.GROUP,
}
BELONGS_TO: Final = {
    "add-config": {"alter"},
    "add-config-file": {"alter"},
    "delete-config": {"alter"},
    "all": {"describe"},
}
OWN_SOURCES: Final = {
    ResourceType.TOPIC: (1,),
    ResourceType.BROKER: (2,),
    ResourceType.GROUP: (8,),
}


async def configs(given: Given, environment: Mapping[str, str]) -> Iterator[str]:
    """Carry out ``kafka-configs``; return the lines to print.

    Raises:
        ShimError: it failed.
    """
    action = given.one_of(
        ("alter", "describe"), "Command must include exactly one action: --describe, --alter"
    )
    given.check_goes_with(action, BELONGS_TO)
    kind, name = _entity(given)
    if action == "alter":
        _check_named(given, kind, name)
    elif kind is ResourceType.BROKER and name:
        _check_broker_id(name)
    async with administering(given, environment, _failed) as admin:
        if action == "alter":
            return iter(await _alter(admin, given, ConfigResource(kind, name or "")))
        return iter(await _describe(admin, given, kind, name))


def _failed(error: QuorateError) -> ShimError:
    return ShimError(f"Error while executing config command with args: {message_of(error)}")


def _check_named(given: Given, kind: ResourceType, name: str | None) -> None:
    """Refuse to change nothing in particular, which would be what all brokers have.

    Raises:
        ShimError: no name is given, nor that the default is meant.
    """
    if kind is ResourceType.BROKER:
        if "entity-name" in given and "entity-default" in given:
            raise ShimError("An entity name must be specified for every entity type")
        if name is None:
            raise ShimError(
                "An entity-name or default entity must be specified with --alter of users, "
                "clients, brokers or ips"
            )
    elif not name:
        raise ShimError(f"An entity name must be specified with --alter of {kind.name.lower()}s")


def _entity(given: Given) -> tuple[ResourceType, str | None]:
    """Return what the command is about; a name of None stands for all, "" for the default.

    Raises:
        ShimError: it is about nothing, or what Quorate does not have.
    """
    short = {kind.removesuffix("s"): kind for kind in TYPES}
    named = [kind for option, kind in short.items() if option in given]
    named += ["brokers"] if "broker-defaults" in given else []
    types = [*given.all("entity-type"), *named]
    if len(types) > 1:
        twice = repeated(types)
        raise ShimError(
            f"Duplicate entity type(s) specified: {twice}"
            if twice
            else "Only 'users' and 'clients' entity types may be specified together"
        )
    if not types:
        raise ShimError("At least one entity type must be specified")
    (kind,) = types
    if kind not in TYPES:
        raise ShimError(
            f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)}"
        )
    if named:
        return TYPES[kind], given.one(kind.removesuffix("s"))  # none of --broker-defaults
    if "entity-default" in given:
        return TYPES[kind], ""
    return TYPES[kind], given.one("entity-name") if "entity-name" in given else None


def _check_broker_id(name: str) -> None:
    if not name.isdecimal():
        raise ShimError(
            f"The entity name for brokers must be a valid integer broker id, found: {name}"
        )


async def _alter(admin: Admin, given: Given, resource: ConfigResource) -> list[str]:
    if "add-config" in given and "add-config-file" in given:
        raise ShimError("Only one of --add-config or --add-config-file must be specified")
    changes = [ConfigChange(name, value) for name, value in _added(given).items()]
    changes += [
        ConfigChange(name.strip(), None, ConfigOperation.DELETE)
        for text in given.all("delete-config")
        for name in text.split(",")
    ]
    if not changes:
        raise ShimError(
            "At least one of --add-config, --add-config-file, or --delete-config must be "
            "specified with --alter"
        )
    raise_first(await admin.alter_configs({resource: changes}))
    noun = resource.type.name.lower()
    if not resource.name and resource.type is ResourceType.BROKER:
        return ["Completed updating default config for brokers in the cluster."]
    return [f"Completed updating config for {noun} {resource.name}."]


def _added(given: Given) -> dict[str, str]:
    """Return properties to set; a list stands in square brackets: ``a=[x,y],b=z``."""
    path = given.one("add-config-file")
    found: dict[str, str] = read_properties_file(Path(path)) if path else {}
    for text in given.all("add-config"):
        name, value, depth = "", "", 0
        for part in text.split(","):
            if depth:
                value += "," + part
            else:
                name, equals, value = part.partition("=")
                if not equals:
                    raise ShimError(
                        "Invalid entity config: all configs to be added must be in the format "
                        '"key=val".'
                    )
            depth = value.count("[") - value.count("]")
            found[name.strip()] = value.strip().removeprefix("[").removesuffix("]")
    return found


async def _describe(admin: Admin, given: Given, kind: ResourceType, name: str | None) -> list[str]:
    names = [name] if name is not None else await _all_names(admin, kind)
    lines: list[str] = []
    for each in names:
        lines += await _describe_one(admin, ConfigResource(kind, each), everything="all" in given)
    return lines


async def _all_names(admin: Admin, kind: ResourceType) -> list[str]:
    if kind is ResourceType.TOPIC:
        return [topic.name for topic in await admin.list_topics(include_internal=True)]
    if kind is ResourceType.GROUP:
        request = ListConfigResourcesRequest(resource_types=[kind.value])
        configured = (await admin.call(ApiKey.LIST_CONFIG_RESOURCES, request)).config_resources
        groups = {group.group_id for group in await admin.list_groups()}
        return sorted(groups | {resource.resource_name for resource in configured})
    return [*(str(broker_id) for broker_id in await _broker_ids(admin)), ""]


async def _broker_ids(admin: Admin) -> list[int]:
    return [broker.broker_id for broker in (await admin.describe_cluster()).brokers]


async def _describe_one(admin: Admin, resource: ConfigResource, *, everything: bool) -> list[str]:
    kind, name = resource.type, resource.name
    noun = kind.name.lower()
    if kind is ResourceType.TOPIC or (kind is ResourceType.BROKER and name):
        if kind is ResourceType.TOPIC:
            there = {topic.name for topic in await admin.list_topics(include_internal=True)}
        else:
            there = {str(broker_id) for broker_id in await _broker_ids(admin)}
        if name not in there:
            return [f"The {noun} '{name}' doesn't exist and doesn't have dynamic config."]
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind.value, resource_name=name, configuration_keys=None
            )
        ],
        include_synonyms=True,
    )
    broker_id = int(name) if kind is ResourceType.BROKER and name else None
    (told,) = (await admin.call(ApiKey.DESCRIBE_CONFIGS, request, broker_id)).results
    if told.error_code:
        raise ShimError(f"Error while executing config command: {told.error_message}")
    sources = (3,) if kind is ResourceType.BROKER and not name else OWN_SOURCES[kind]
    entries = [c for c in told.configs if everything or c.config_source in sources]
    if kind is ResourceType.BROKER and not name:
        heading = "Default configs for brokers in the cluster are:"
    else:
        heading = f"{'All' if everything else 'Dynamic'} configs for {noun} {name} are:"
    return [heading, *(_entry_line(entry) for entry in sorted(entries, key=lambda e: e.name))]


def _entry_line(entry: Any) -> str:
    synonyms = ", ".join(
        f"{SOURCES.get(each.source, 'UNKNOWN')}:{each.name}={_shown(entry, each.value)}"
        for each in entry.synonyms
    )
    sensitive = "true" if entry.is_sensitive else "false"
    value = _shown(entry, entry.value)
    return f"  {entry.name}={value} sensitive={sensitive} synonyms={{{synonyms}}}"


def _shown(entry: Any, value: str | None) -> str:
    return "null" if value is None or entry.is_sensitive else value
