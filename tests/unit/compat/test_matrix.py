"""The page of outcomes."""

from tests.compat.matrix import Outcome, Result, render


def test_a_failure_decides_and_what_was_not_tried_stays_blank() -> None:
    page = render(
        [
            Result("Reading", "seek", "kcat", Outcome.PASSED),
            Result("Reading", "seek", "kcat", Outcome.FAILED),
            Result("Reading", "seek", "Java", Outcome.PASSED),
            Result("Reading", "seek", "Java", Outcome.NOT_OFFERED),
            Result("Reading", "tail", "kcat", Outcome.NOT_OFFERED),
        ],
        {"kcat": "1.7"},
    )
    assert "| kcat | 1.7 |" in page
    assert "## Reading\n\n|  | kcat | Java |\n| --- | :-: | :-: |\n" in page
    assert "| seek | \u2717 | \u2713 |" in page
    assert "| tail | n/a |   |" in page


def test_sections_with_many_clients_come_first() -> None:
    page = render(
        [
            Result("Tools", "list", "tools", Outcome.PASSED),
            Result("Reading", "seek", "kcat", Outcome.PASSED),
            Result("Reading", "seek", "Java", Outcome.UNAVAILABLE),
        ],
        {},
    )
    assert page.index("## Reading") < page.index("## Tools")
    assert "| seek | \u2713 | ? |" in page
