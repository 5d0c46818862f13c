"""The metadata as folders and values."""

from typing import Any

import pytest

from quorate.model import Endpoint
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.tools.metadata.decided import HIDDEN
from quorate.tools.metadata.tree import (
    Folder,
    Place,
    contents,
    find,
    match,
    name_of,
    node_of,
    parse_path,
    root_of,
    sorted_names,
    walk,
)

ID = bytes(range(16))


def made_image() -> MetadataImage:
    return apply_records(
        EMPTY_IMAGE,
        5,
        [
            r.ClusterFormatted("c", 0, "cluster-id"),
            r.BrokerRegistered(
                "c", 0, 1, 4, bytes(16), b"", {"PLAINTEXT": Endpoint("h", 9)}, None, fenced=False
            ),
            r.TopicCreated("c", 0, "appLogs", ID),
            *(r.PartitionCreated("c", 0, ID, index, (1,), (1,), 1) for index in range(11)),
            r.ConfigSet("c", 0, "topic", "appLogs", "segment.bytes", "1048576"),
            r.ConfigSet("c", 0, "broker", "", "log.retention.ms", "7"),
            r.ProducerIdsAllocated("c", 0, 1, 4, 1000),
        ],
    )


ROOT = root_of(made_image(), {"leader_id": 1, "voters": {1: {"log_end_offset": 9}}})


def at(text: str) -> Any:
    return contents(find(ROOT, parse_path(text, ())))


def test_everything_has_its_place() -> None:
    assert at("/cluster") == {"id": "cluster-id", "version": 5}
    assert at("/topics/appLogs/id") == "AAECAwQFBgcICQoLDA0ODw"
    assert at("/topic_ids") == {"AAECAwQFBgcICQoLDA0ODw": "appLogs"}
    assert at("/topics/appLogs/10") == {
        "isr": [1], "leader_epoch": 0, "leader_id": 1, "partition_epoch": 0, "replicas": [1],
        "adding_replicas": [], "removing_replicas": [], "elr": [], "last_known_leader": -1,
    }  # fmt: skip
    assert at("/brokers/1/endpoints/PLAINTEXT") == "h:9"
    assert at("/configs/topic/appLogs") == {"segment.bytes": "1048576"}
    assert at("/configs/broker/default/log.retention.ms") == "7"
    assert at("/producer_ids/next") == 1000
    assert at("/quorum/voters/1/log_end_offset") == 9


def test_rules_credentials_and_limits_are_there_without_what_would_give_a_password_away() -> None:
    limited = (r.QuotaEntityPart("user", "a/b"), r.QuotaEntityPart("client-id", None))
    image = apply_records(
        EMPTY_IMAGE,
        1,
        [
            r.FeatureLevelSet("c", 0, "metadata.version", 2),
            r.AclAdded("c", 0, ID, 2, "appLogs", 3, "User:a", "*", 3, 3),
            r.ScramCredentialSet("c", 0, "alice", 1, b"salt", b"stored", b"server", 4096),
            r.ClientQuotaSet("c", 0, limited, "producer_byte_rate", 1e6),
        ],
    )
    seen = contents(root_of(image, None))
    assert seen["features"] == {"metadata.version": 2}
    assert seen["acls"]["AAECAwQFBgcICQoLDA0ODw"]["principal"] == "User:a"
    assert seen["scram"] == {
        "alice,1": {
            "iterations": 4096, "salt": HIDDEN, "server_key": HIDDEN, "stored_key": HIDDEN,
        }
    }  # fmt: skip
    assert seen["quotas"] == {
        "user=a%2Fb,client-id=<default>": {"producer_byte_rate": 1e6},
    }


def test_without_controllers_there_is_no_quorum_to_see() -> None:
    assert find(root_of(made_image(), None), ("quorum",)) is None


def test_nothing_is_where_there_is_nothing() -> None:
    assert find(ROOT, ("topics", "none")) is None
    assert find(ROOT, ("cluster", "id", "deeper")) is None


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/", ()),
        (".", ("topics", "a")),
        ("..", ("topics",)),
        ("../../..", ()),
        ("0/isr", ("topics", "a", "0", "isr")),
        ("/brokers//1/", ("brokers", "1")),
        ("../b", ("topics", "b")),
    ],
)
def test_paths_are_read_as_people_type_them(text: str, path: tuple[str, ...]) -> None:
    assert parse_path(text, ("topics", "a")) == path


def test_wildcards_stand_for_all_names_that_are_like_them() -> None:
    def texts(pattern: str) -> list[str]:
        return [place.text for place in match(ROOT, parse_path(pattern, ()))]

    assert texts("/topics/app*/1?/leader_id") == ["/topics/appLogs/10/leader_id"]
    assert texts("/*/1") == ["/brokers/1"]
    assert texts("/topics/*/none") == []
    assert texts("/cluster/id/*") == []
    assert texts("/") == ["/"]


def test_a_walk_meets_folders_before_what_is_in_them_and_numbers_in_their_order() -> None:
    topics = Place(("topics",), find(ROOT, ("topics",)))
    texts = [place.text for place in walk(topics) if len(place.path) <= 3]
    assert texts[:2] == ["/topics", "/topics/appLogs"]
    assert texts[2:] == [f"/topics/appLogs/{index}" for index in range(11)] + ["/topics/appLogs/id"]
    assert sorted_names(["id", "10", "9", "a"]) == ["9", "10", "a", "id"]


def test_lists_of_things_with_fields_are_folders_and_keys_become_names() -> None:
    node = node_of([r.TopicRemoved("c", 0, ID)])
    assert isinstance(node, Folder)
    assert contents(node)["0"]["cause"] == "c"
    assert name_of(("user", "a/b")) == "user,a%2Fb"
    assert name_of("") == "default"
