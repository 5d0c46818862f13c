"""What topics' rules come to: their own, or else the cluster's, and never one node's."""

from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.effective import allows_unclean_elections, min_insync_replicas
from quorate.quorum.metadata.features import bootstrap_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage


def image_of(*records: r.MetadataRecord) -> MetadataImage:
    return apply_records(EMPTY_IMAGE, 1, records)


def config(kind: str, name: str, prop: str, value: str) -> r.ConfigSet:
    return r.ConfigSet("c", 1, kind, name, prop, value)


def test_a_topic_needs_what_it_says_or_else_what_the_cluster_says() -> None:
    name = "min.insync.replicas"
    cluster, topic = config("broker", "", name, "2"), config("topic", "t", name, "3")
    assert min_insync_replicas(EMPTY_IMAGE, "t") == 1
    assert min_insync_replicas(image_of(cluster), "t") == 2
    assert min_insync_replicas(image_of(cluster, topic), "t") == 3
    assert min_insync_replicas(image_of(topic), "u") == 1
    assert min_insync_replicas(image_of(config("broker", "7", name, "3")), "t") == 1


def test_unclean_elections_are_ruled_out_unless_they_are_allowed() -> None:
    name = "unclean.leader.election.enable"
    cluster, topic = config("broker", "", name, "true"), config("topic", "t", name, "false")
    assert not allows_unclean_elections(EMPTY_IMAGE, "t")
    assert allows_unclean_elections(image_of(cluster), "t")
    assert not allows_unclean_elections(image_of(cluster, topic), "t")


def test_a_cluster_begins_with_what_its_first_controller_was_started_with() -> None:
    assert min_insync_replicas(image_of(*bootstrap_records("x", 1)), "t") == 1
    assert min_insync_replicas(image_of(*bootstrap_records("x", 1, 2)), "t") == 2
    assert not image_of(*bootstrap_records("x", 1)).configs
