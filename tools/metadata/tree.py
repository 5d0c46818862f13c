"""The metadata as a tree of folders and values, made as far as somebody looks (pure).

It is laid out like the one in Kafka's metadata shell: ``/topics/NAME/0/leader_id``, ``/brokers/1``.
"""

import dataclasses
import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, cast

from quorate.dataclass import dataclass
from quorate.model import Endpoint
from quorate.quorum.metadata.image import MetadataImage, TopicImage
from quorate.tools.metadata.decided import HIDDEN, HIDDEN_FIELDS, bytes_text, plain
from quorate.tools.output import id_text

CLUSTER_DEFAULT_NAME: Final = "default"
SHOWN_ELSEWHERE: Final = frozenset(
    {
        "version",
        "cluster_id",
        "topics",
        "topic_names",
        "metric_names",
        "configs",
        "answers",
        "next_producer_id",
        "access_rules",
    }
)
"""Fields of the image that the tree shows in another shape, or that are no facts of the cluster."""

_WILDCARDS: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Folder:
    """Names and what is behind them; ``entries`` makes them, each time it is called."""

    entries: Callable[[], Mapping[str, "Node"]]


Node = Folder | Any
"""A folder, or a value as JSON has it."""


class Place(NamedTuple):
    """A node, and the names on the way to it from the root."""

    path: tuple[str, ...]
    node: Node

    @property
    def text(self) -> str:
        """The path as it is typed."""
        return "/" + "/".join(self.path)


def root_of(image: MetadataImage, quorum: Mapping[str, Any] | None) -> Folder:
    """Return the tree of an image and, if it is known, of the quorum's state."""

    def entries() -> dict[str, Node]:
        made: dict[str, Node] = {
            "acls": node_of(image.access_rules),
            "brokers": node_of(image.brokers),
            "cluster": node_of({"id": image.cluster_id, "version": image.version}),
            "configs": Folder(partial(_config_types, image)),
            "producer_ids": node_of({"next": image.next_producer_id}),
            "topic_ids": node_of({id_text(i): name for i, name in image.topic_names.items()}),
            "topics": Folder(partial(_topics, image)),
        }
        for name, value in image._asdict().items():
            if name not in SHOWN_ELSEWHERE:
                made[name] = node_of(value)
        if quorum is not None:
            made["quorum"] = node_of(quorum)
        return made

    return Folder(entries)


def _topics(image: MetadataImage) -> dict[str, Node]:
    return {name: Folder(partial(_topic, topic)) for name, topic in image.topics.items()}


def _topic(topic: TopicImage) -> dict[str, Node]:
    partitions = {str(index): node_of(state) for index, state in enumerate(topic.partitions)}
    return {"id": id_text(topic.topic_id), **partitions}


def _config_types(image: MetadataImage) -> dict[str, Node]:
    types = sorted({resource.type for resource in image.configs})
    return {kind: Folder(partial(_configs, image, kind)) for kind in types}


def _configs(image: MetadataImage, kind: str) -> dict[str, Node]:
    return {
        resource.name or CLUSTER_DEFAULT_NAME: node_of(properties)
        for resource, properties in image.configs.items()
        if resource.type == kind
    }


def node_of(value: object) -> Node:
    """Return the node of any value: what has keys or fields, or parts with fields, is a folder."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return Folder(lambda: {name_of(k): node_of(v) for k, v in mapping.items()})
    if _has_fields(value):
        names = [field.name for field in dataclasses.fields(cast("Any", value))]
        return Folder(lambda: {name: _field(name, getattr(value, name)) for name in names})
    if isinstance(value, tuple | list):
        items = cast("list[object]", value)
        if any(map(_has_fields, items)):
            return Folder(lambda: {str(at): node_of(item) for at, item in enumerate(items)})
        return plain(items)
    return plain(value)


def _has_fields(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, Endpoint)


def _field(name: str, value: object) -> Node:
    return HIDDEN if name in HIDDEN_FIELDS else node_of(value)


def name_of(key: object) -> str:
    """Return a key as one name of a path."""
    parts = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
    texts = [bytes_text(part) if isinstance(part, bytes) else str(part) for part in parts]
    text = ",".join(texts)
    return text.replace("/", "%2F") or CLUSTER_DEFAULT_NAME


def parse_path(text: str, start: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a path, absolute or seen from ``start``; ``..`` goes up."""
    names = [] if text.startswith("/") else list(start)
    for name in text.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return tuple(names)


def find(root: Folder, path: tuple[str, ...]) -> Node | None:
    """Return the node of a path, or ``None``."""
    node: Node = root
    for name in path:
        if not isinstance(node, Folder):
            return None
        entries = node.entries()
        if name not in entries:
            return None
        node = entries[name]
    return node


def match(root: Folder, pattern: tuple[str, ...]) -> Iterator[Place]:
    """Yield the places that a path stands for, whose names may have wildcards."""
    places = [Place((), root)]
    for name in pattern:
        places = [child for place in places for child in _children(place, name)]
    yield from places


def _children(place: Place, name: str) -> Iterator[Place]:
    if not isinstance(place.node, Folder):
        return
    entries = place.node.entries()
    if _WILDCARDS.isdisjoint(name):
        names: Iterable[str] = [name] if name in entries else []
    else:
        names = fnmatch.filter(sorted_names(entries), name)
    for found in names:
        yield Place((*place.path, found), entries[found])


def walk(place: Place) -> Iterator[Place]:
    """Yield a place and all below it, folders before what is in them."""
    yield place
    if isinstance(place.node, Folder):
        entries = place.node.entries()
        for name in sorted_names(entries):
            yield from walk(Place((*place.path, name), entries[name]))


def sorted_names(names: Iterable[str]) -> list[str]:
    """Return names in order, numbers by their value."""
    return sorted(
        names, key=lambda name: (not name.isdecimal(), len(name) * name.isdecimal(), name)
    )


def contents(node: Node) -> Any:
    """Return a node with all below it, as JSON has it."""
    if not isinstance(node, Folder):
        return node
    entries = node.entries()
    return {name: contents(entries[name]) for name in sorted_names(entries)}
