import pytest

from quorate.tools.bench.events import BadEventError, Event, parse_event


def test_a_result_has_figures() -> None:
    line = '{"event": "result", "records": 10, "p50_ms": 0.25}\n'
    assert parse_event(line) == Event("result", {"records": 10, "p50_ms": 0.25})


@pytest.mark.parametrize("name", ["begin", "stop"])
def test_a_moment_has_none(name: str) -> None:
    assert parse_event(f'{{"event": "{name}"}}').figures == {}


@pytest.mark.parametrize(
    "line",
    [
        *("", "Segmentation fault", "[1]", "17", "null", '"begin"', "{}", '{"event": "end"}'),
        *('{"event": "result", "records": "many"}', '{"event": "result", "records"'),
    ],
)
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(BadEventError):
        parse_event(line)
