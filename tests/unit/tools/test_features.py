"""What brokers say of features, and what shall be changed."""

import pytest

from quorate.client import BrokerVersions
from quorate.net.rpc import VersionRange
from quorate.tools.features import Feature, LevelChange, features_of, features_table, plan_changes
from quorate.tools.problems import UsageError


def broker(epoch: int, finalized: dict[str, int], **supported: tuple[int, int]) -> BrokerVersions:
    ranges = {name: VersionRange(*levels) for name, levels in supported.items()}
    return BrokerVersions({}, ranges, finalized, epoch)


def test_a_level_is_what_all_brokers_support() -> None:
    found = features_of(
        {
            1: broker(7, {"f": 2}, f=(1, 3), g=(0, 1)),
            2: broker(8, {"f": 3}, f=(2, 4)),
            3: broker(6, {"f": 2}, f=(1, 4), g=(0, 1)),
        }
    )
    assert found == [Feature("f", 2, 3, 3, 8, (1,)), Feature("g", 0, 0, 0, 8, (2,))]
    assert features_table(found).items()[0] == {
        "feature": "f", "min": 2, "max": 3, "finalized": 3, "epoch": 8, "held_back_by": [1],
    }  # fmt: skip


KNOWN = [Feature("f", 0, 3, 1, 8), Feature("g", 0, 1, 1, 8), Feature("h", 0, 1, 2, 8, (1,))]


def test_without_names_everything_goes_as_high_as_all_can() -> None:
    assert plan_changes(KNOWN, []) == [LevelChange("f", 1, 3)]


def test_only_what_is_named_goes_to_its_level() -> None:
    assert plan_changes(KNOWN, ["g=0", "f=9"]) == [LevelChange("g", 1, 0), LevelChange("f", 1, 9)]
    assert plan_changes(KNOWN, ["g=1"]) == []


@pytest.mark.parametrize(
    ("text", "complaint"), [("f", "names no level"), ("f=-1", "no level"), ("x=1", "no feature x")]
)
def test_what_names_no_level_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        plan_changes(KNOWN, [text])
