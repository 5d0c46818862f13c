"""Every anomaly has a history by hand that shows it, and one that almost does."""

from pathlib import Path

import pytest

from quorate.jepsen.checkers.meanings import MEANINGS
from quorate.jepsen.judging import Validity, judge
from tests.unit.jepsen.golden import groups, log, metadata, replication, transactions
from tests.unit.jepsen.golden.making import Golden

CASES = [
    *log.CASES,
    *replication.CASES,
    *groups.CASES,
    *transactions.CASES,
    *metadata.CASES,
]
DOCS = Path(__file__).parents[3] / "docs" / "anomalies.md"


@pytest.mark.parametrize("golden", CASES, ids=lambda golden: golden.name)
def test_an_anomaly_is_found_and_what_is_almost_one_is_not(golden: Golden) -> None:
    verdict = judge(golden.header, golden.wrong)
    assert golden.name in verdict.anomalies.counts
    assert verdict.validity in {Validity.INVALID_SAFETY, Validity.INVALID_LIVENESS}
    assert judge(golden.header, golden.right).anomalies.counts == {}


@pytest.mark.parametrize("golden", CASES, ids=lambda golden: golden.name)
def test_what_a_header_allows_is_told_and_set_aside(golden: Golden) -> None:
    allowed = list(judge(golden.header, golden.wrong).anomalies.counts)
    verdict = judge({**golden.header, "allowed": allowed}, golden.wrong)
    assert not verdict.anomalies
    assert set(verdict.allowed.counts) == set(allowed)


def test_every_anomaly_has_such_histories() -> None:
    assert {golden.name for golden in CASES} == MEANINGS.keys()


def test_every_anomaly_is_explained() -> None:
    lines = DOCS.read_text().splitlines()
    headings = {line.removeprefix("### ") for line in lines if line.startswith("### ")}
    assert headings == MEANINGS.keys()
