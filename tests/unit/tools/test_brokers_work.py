"""Which brokers may be taken out, and what brokers speak."""

import pytest

from quorate.client import BrokerDescription, TopicPartition
from quorate.model import Endpoint
from quorate.net.rpc import VersionRange
from quorate.protocol.apis import APIS, ApiKey
from quorate.tools.brokers_work import ClusterStatus, api_table, check_unregister
from quorate.tools.clusters.health import Health
from quorate.tools.output import Table
from quorate.tools.problems import RefusedError

LEFT = [TopicPartition("t", 0)]


def broker(*, is_fenced: bool) -> BrokerDescription:
    return BrokerDescription(3, Endpoint("h", 1), None, is_fenced)


def test_a_broker_that_runs_stays() -> None:
    for with_replicas in (False, True):
        with pytest.raises(RefusedError, match="in service"):
            check_unregister(broker(is_fenced=False), [], with_replicas=with_replicas)


def test_replicas_are_left_behind_only_if_that_is_said() -> None:
    with pytest.raises(RefusedError, match="still has 1 replicas: t-0"):
        check_unregister(broker(is_fenced=True), LEFT, with_replicas=False)
    check_unregister(broker(is_fenced=True), LEFT, with_replicas=True)
    check_unregister(broker(is_fenced=True), [], with_replicas=False)


def test_a_broker_that_is_read_only_is_a_problem_though_all_is_in_sync() -> None:
    nobody = Table("brokers", (), ())
    assert ClusterStatus(nobody, (), (), Health(), is_decided=True).problems == []
    (problem,) = ClusterStatus(nobody, (), (3,), Health(), is_decided=True).problems
    assert problem.startswith("broker 3 is read-only: its disk is full")


def test_that_nobody_decides_is_a_problem_though_all_is_in_sync() -> None:
    (problem,) = ClusterStatus(
        Table("brokers", (), ()), (), (), Health(), is_decided=False
    ).problems
    assert problem.startswith("no controller leads")


def test_an_api_is_used_in_the_newest_version_that_both_speak() -> None:
    metadata = APIS[ApiKey.METADATA]
    told = {
        9999: VersionRange(0, 1),
        int(ApiKey.METADATA): VersionRange(0, metadata.max_version + 5),
        int(ApiKey.PRODUCE): VersionRange(0, 4),
        int(ApiKey.FETCH): VersionRange(0, 3),
    }
    assert APIS[ApiKey.PRODUCE].min_version <= 4
    assert APIS[ApiKey.FETCH].min_version > 3
    assert api_table(told).rows == (
        (0, "Produce", 0, 4, 4),
        (1, "Fetch", 0, 3, None),
        (3, "Metadata", 0, metadata.max_version + 5, metadata.max_version),
        (9999, None, 0, 1, None),
    )
