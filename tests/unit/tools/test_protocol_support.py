"""The page that says which APIs and versions there are."""

from pathlib import Path

from quorate.broker.handlers.table import HANDLERS
from quorate.protocol.apis import APIS, ApiKey
from quorate.tools.protocol_support import PAGE, main, render

ROOT = Path(__file__).parents[3]


def test_the_page_in_the_repository_is_current() -> None:
    committed = (ROOT / PAGE).read_text(encoding="utf-8")
    hint = "run python -m quorate.tools.protocol_support"
    assert committed == render(APIS.values(), HANDLERS), hint


def test_the_page_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    page = tmp_path / "support.md"
    main([str(page)])
    assert page.read_text(encoding="utf-8") == render(APIS.values(), HANDLERS)


def test_rows_tell_versions_apart_from_what_is_announced_and_served() -> None:
    apis = [APIS[key] for key in (ApiKey.SASL_HANDSHAKE, ApiKey.PRODUCE, ApiKey.DESCRIBE_PRODUCERS)]
    rows = render(apis, {ApiKey.PRODUCE}).splitlines()[-3:]
    assert rows == [
        "| 0 | Produce | 3-13 (announced from 0) | 9+ | yes |",
        "| 17 | SaslHandshake | 0-1 | never |  |",
        "| 61 | DescribeProducers | 0 | 0+ |  |",
    ]
