"""The metadata shell: what is typed, and what comes of it."""

import pytest

from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.image import EMPTY_IMAGE
from quorate.tools.metadata.browser import HELP, BrowseError, Browser, Screen, concerns
from quorate.tools.metadata.decided import Batch, Decided, Reader, VotersChanged
from quorate.tools.metadata.tree import Folder, root_of

A, B = b"a" * 16, b"b" * 16
BATCHES = [
    Batch(1, 1, (r.ClusterFormatted("formatted", 0, "cluster-id"),)),
    Batch(
        2,
        1,
        (
            r.TopicCreated("created a", 0, "a", A),
            r.PartitionCreated("created a", 0, A, 0, (1,), (1,), 1),
            r.PartitionCreated("created a", 0, A, 1, (1,), (1,), 1),
        ),
    ),
    Batch(3, 1, (r.TopicCreated("created b", 0, "b", B),)),
    Batch(4, 2, (r.PartitionChanged("broker 1 died", 0, A, 1, -1, 1, (1,)),)),
    Batch(5, 2, (r.ConfigSet("set", 0, "broker", "", "x", "1"),)),
    Batch(6, 2, (r.ProducerIdsAllocated("ids", 0, 1, 2, 1000),)),
]


class World:
    """Metadata that goes on while somebody looks at it."""

    def __init__(self) -> None:
        self.batches = list(BATCHES)

    def read(self) -> Folder:
        image = EMPTY_IMAGE
        for batch in self.batches:
            image = batch.applied_to(image)
        return root_of(image, None)

    def records(self) -> list[Decided]:
        reader = Reader()
        return [decided for batch in self.batches for decided in reader.read(batch)]


def new_browser(width: int | None = None) -> Browser:
    world = World()
    return Browser(world.read, world.records, Screen(width))


def typed(*lines: str, browser: Browser | None = None) -> list[str]:
    """What the last of these lines prints."""
    browser = browser or new_browser()
    for line in lines[:-1]:
        assert list(browser.run_line(line)) == []
    return list(browser.run_line(lines[-1]))


def offsets(*lines: str) -> list[int]:
    return [int(line.split()[0]) for line in typed(*lines)]


def test_folders_are_listed_and_walked_into() -> None:
    assert typed("ls /topics") == ["a/", "b/"]
    assert typed("cd topics/a", "ls") == ["0/", "1/", "id"]
    assert typed("cd topics/a", "cd ..", "pwd") == ["/topics"]
    assert typed("cd topics", "cd", "pwd") == ["/"]
    assert typed("ls -l /topics") == ["a/", "b/"]


def test_several_places_are_listed_with_their_names() -> None:
    assert typed("ls /topics/* /cluster/id") == [
        "/cluster/id", "/topics/a:", "0/", "1/", "id", "", "/topics/b:", "id", "",
    ]  # fmt: skip


def test_on_a_screen_names_stand_in_columns() -> None:
    assert typed("ls", browser=new_browser(40)) == [
        "acls/          producer_ids/",
        "brokers/       quotas/",
        "cluster/       scram/",
        "configs/       topic_ids/",
        "features/      topics/",
    ]
    assert typed("ls /brokers", browser=new_browser(40)) == []


def test_values_are_printed_as_they_are_and_folders_as_json() -> None:
    assert typed("cat /cluster/id") == ["cluster-id"]
    assert typed("cat /topics/a/1/leader_id /topics/a/1/isr") == ["-1", "[", "  1", "]"]
    assert typed("cat /cluster") == ["{", '  "id": "cluster-id",', '  "version": 6', "}"]


def test_a_tree_and_a_search_go_all_the_way_down() -> None:
    assert typed("tree /configs") == [
        "/configs", "  broker/", "    default/", '      x = "1"',
    ]  # fmt: skip
    assert typed("find /topics leader_id") == ["/topics/a/0/leader_id", "/topics/a/1/leader_id"]
    assert typed("cd configs", "find")[-1] == "/configs/broker/default/x"
    assert typed("find / leader_*") == [
        f"/topics/a/{partition}/{name}"
        for partition in (0, 1)
        for name in ("leader_epoch", "leader_id")
    ]


def test_records_tell_how_a_place_came_to_be_as_it_is() -> None:
    assert offsets("records /topics/a/1") == [2, 2, 4]
    assert offsets("records /topics/a") == [2, 2, 2, 4]
    assert offsets("records /topics") == [2, 2, 2, 3, 4]
    assert offsets("records /configs/broker") == [5]
    assert offsets("records /producer_ids/next /cluster/id") == [1, 6]
    assert offsets("cd topics/b", "records") == [3]
    assert len(offsets("records /")) == 8
    assert typed("records /topics/a/1")[-1].endswith("# broker 1 died")


def test_records_of_rules_credentials_limits_features_and_voters_are_found_by_their_place() -> None:
    limited = (r.QuotaEntityPart("user", "bob"),)
    made: list[r.MetadataRecord] = [
        r.FeatureLevelSet("c", 0, "metadata.version", 1),
        r.AclAdded("c", 0, A, 2, "a", 3, "User:a", "*", 3, 3),
        r.AclRemoved("c", 0, A),
        r.ScramCredentialSet("c", 0, "alice", 1, b"salt", b"stored", b"server", 4096),
        r.ClientQuotaSet("c", 0, limited, "producer_byte_rate", 1e6),
        r.BrokerFenced("c", 0, 1, 2),
        r.RequestAnswered("c", 0, b"id", b"answer"),
    ]
    reader = Reader()
    decided = list(reader.read(Batch(1, 1, tuple(made))))
    decided += reader.read(Batch(2, 1, voters=VotersChanged("v", {})))
    found = {
        path: [d.type for d in decided if concerns(d, path)]
        for path in (
            ("features",), ("acls",), ("scram", "alice,1"), ("quotas", "user=bob"),
            ("brokers", "1"), ("quorum",), ("topics",),
        )
    }  # fmt: skip
    assert list(found.values()) == [
        ["FeatureLevelSet"], ["AclAdded", "AclRemoved"], ["ScramCredentialSet"],
        ["ClientQuotaSet"], ["BrokerFenced"], ["VotersChanged"], [],
    ]  # fmt: skip


def test_a_refresh_shows_what_came_since_and_leaves_what_is_gone() -> None:
    world = World()
    browser = Browser(world.read, world.records, Screen())
    typed("cd topics/a/0", "cd .", browser=browser)
    world.batches.append(Batch(9, 3, (r.TopicRemoved("gone", 0, A),)))
    assert typed("ls /topics", browser=browser) == ["a/", "b/"]
    assert typed("refresh", "pwd", browser=browser) == ["/topics"]
    assert typed("ls", browser=browser) == ["b/"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("cd /nowhere", "/nowhere: there is no such place"),
        ("cat /topics/a/7", "there is no such place"),
        ("cd /cluster/id", "a value, not a folder"),
        ("cd /topics/*", "stands for 2 places"),
        ("cat", "which one"),
        ("frobnicate", "no such command"),
        ("help frobnicate", "no command 'frobnicate'"),
        ("cat 'x", "No closing quotation"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(line: str, reason: str) -> None:
    with pytest.raises(BrowseError, match=reason):
        typed(line)


@pytest.mark.parametrize("line", ["exit", "quit"])
def test_one_may_leave(line: str) -> None:
    with pytest.raises(EOFError):
        typed(line)


def test_the_help_names_every_command_and_one_line_is_empty() -> None:
    assert [line.split()[0] for line in typed("help")] == list(HELP)
    assert len(typed("man ls")) == 1
    assert max(map(len, typed("help"))) < 80
    assert typed("") == []


def test_commands_and_names_are_completed() -> None:
    browser = new_browser()
    assert browser.complete("c", "c") == ["cd ", "cat "]
    assert browser.complete("help re", "re") == ["records ", "refresh "]
    assert browser.complete("ls /to", "/to") == ["/topic_ids/", "/topics/"]
    assert browser.complete("cat /cluster/", "/cluster/") == ["/cluster/id ", "/cluster/version "]
    assert browser.complete("ls /none/x", "/none/x") == []
    typed("cd topics", "cd .", browser=browser)
    assert browser.complete("cd a/", "a/") == ["a/0/", "a/1/", "a/id "]
    assert browser.prompt == "quorate:/topics> "
