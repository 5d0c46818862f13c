"""Our assignors give the same as Apache Kafka's: a mixed group may be led by either."""

import json
from pathlib import Path
from random import Random

import pytest

from quorate.client.membership.assignors import ASSIGNORS
from tests.compat.assigning.groups import Group, random_group
from tests.compat.peers import cache, java

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("quorate.client")]

HERE = Path(__file__).parent / "assigning"
GOLDEN = Path(__file__).parents[1] / "golden" / "assignors"
GOLDEN_SEEDS = (*range(40), 66)
RANDOM_COUNT = 250


def assigned_by_java(groups: list[Group]) -> list[dict[str, list[str]]]:
    done = java.java_tool(
        "Assign",
        [],
        stdin="".join(group.question() + "\n" for group in groups),
        classes=[java.compile_java(HERE)],
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.feature("assignors: range, round robin, sticky, cooperative sticky as Kafka's")
def test_groups_are_assigned_as_by_kafka(request: pytest.FixtureRequest) -> None:
    seed = Random().randrange(10**9)
    rng = Random(seed)
    groups = [random_group(name, rng) for name in ASSIGNORS for _ in range(RANDOM_COUNT)]
    golden = [random_group(name, Random(n)) for name in ASSIGNORS for n in GOLDEN_SEEDS]
    try:
        answers = assigned_by_java(golden + groups)
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)
    if request.config.getoption("rewrite"):
        write_golden(golden, answers)
    for group, answer in zip(golden + groups, answers, strict=True):
        assert group.assign() == answer, f"seed {seed}: {json.dumps(group.as_json())}"


def write_golden(groups: list[Group], answers: list[dict[str, list[str]]]) -> None:
    for name in ASSIGNORS:
        lines = [
            json.dumps({**group.as_json(), "assignment": answer})
            for group, answer in zip(groups, answers, strict=False)
            if group.assignor == name
        ]
        (GOLDEN / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
