"""What several brokers say of a cluster, as one view."""

from quorate.jepsen.lab.cluster import NOBODY, PartitionView, TermView
from quorate.jepsen.lab.views import BrokerSaid, are_whole, merged, newest_leader, topic_of

WHOLE = PartitionView(1, 3, frozenset({1, 2}), (1, 2))
BEHIND = PartitionView(2, 2, frozenset({1, 2}), (1, 2))
SHRUNK = PartitionView(1, 3, frozenset({1}), (1, 2))
LEADERLESS = PartitionView(NOBODY, 4, frozenset({1, 2}), (1, 2))


def said(**partitions: PartitionView) -> BrokerSaid:
    return BrokerSaid({}, NOBODY, {name.replace("_", "-"): p for name, p in partitions.items()})


def test_of_each_partition_the_newest_epoch_holds() -> None:
    view = merged([said(t_0=BEHIND, t_1=WHOLE), said(t_0=WHOLE)], 5)
    assert (view.controller, view.partitions) == (5, {"t-0": WHOLE, "t-1": WHOLE})
    assert merged([], NOBODY).controller is None


def test_another_leader_of_the_same_epoch_is_told_too() -> None:
    other = PartitionView(2, 3, frozenset({2}), (1, 2))
    assert merged([said(t_0=WHOLE), said(t_0=other)], 5).disputed == (("t-0", other),)
    assert merged([said(t_0=WHOLE), said(t_0=SHRUNK)], 5).disputed == ()
    newer = PartitionView(2, 4, frozenset({2}), (1, 2))
    assert merged([said(t_0=WHOLE), said(t_0=other), said(t_0=newer)], 5).disputed == ()
    assert merged([said(t_0=newer), said(t_0=LEADERLESS)], 5).disputed == ()


def test_the_controller_of_the_newest_term_leads() -> None:
    terms = [TermView(1, 4, 1), TermView(2, 5, 3), TermView(3, 6, NOBODY)]
    assert newest_leader(terms) == 3
    assert newest_leader(terms[2:]) == NOBODY


def test_whole_is_what_all_brokers_say_of_all_topics() -> None:
    assert are_whole([said(t_0=WHOLE), said(t_0=WHOLE)], ["t"], 2)
    assert not are_whole([said(t_0=WHOLE)], ["t"], 2)
    assert not are_whole([said(t_0=WHOLE), said(t_0=BEHIND)], ["t"], 2)
    assert not are_whole([said(t_0=SHRUNK)], ["t"], 1)
    assert not are_whole([said(t_0=LEADERLESS)], ["t"], 1)
    assert not are_whole([said(t_0=WHOLE)], ["t", "u"], 1)


def test_topics_that_nobody_asks_for_need_not_be_whole() -> None:
    assert are_whole([said(t_0=WHOLE, u_0=SHRUNK)], ["t"], 1)


def test_a_partition_is_named_by_its_topic_which_may_have_hyphens() -> None:
    assert topic_of("my-topic-12") == "my-topic"
