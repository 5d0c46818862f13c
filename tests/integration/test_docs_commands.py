"""Every page, pasted line by line as a person would; how a line is typed: `tests/pasted.py`."""

from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import pytest

from tests.integration.pasting import paste
from tests.typed import TYPED

pytestmark = [pytest.mark.integration, pytest.mark.slow]

AT_ONCE: Final = 4
"""Pages wait most of the time."""

WHERE: Final = "test_the_pages_lead_where_they_say"
Printed = dict[str, str]


@pytest.fixture(scope="module")
def pasted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[dict[str, Future[Printed]]]:
    """What the commands of each page print, once they have been typed; the longest page first."""
    folder = tmp_path_factory.mktemp("pages")
    asked = " ".join(item.nodeid for item in request.session.items)
    pages = [page for page in TYPED if f"[{page}]" in asked or WHERE in asked]
    pages.sort(key=lambda page: -len(TYPED[page]))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            page: pool.submit(paste, page, folder / page.replace("/", "-").removesuffix(".md"))
            for page in pages
        }


@pytest.mark.parametrize("page", TYPED)
def test_a_page_can_be_pasted(page: str, pasted: dict[str, Future[Printed]]) -> None:
    assert set(pasted[page].result()) == set(TYPED[page])


def test_the_pages_lead_where_they_say(pasted: dict[str, Future[Printed]]) -> None:
    start = pasted["docs/quickstart.md"].result()
    operate = pasted["docs/operations.md"].result()
    assert start["quorate consume numbers --from-beginning -e | wc -l"].strip() == "2000"
    assert "2 is missing" in start["quorate why isr numbers:0"]
    assert start["quorate partitions verify numbers"].count("  same ") == 3
    assert operate["quorate partitions verify orders"].count("  same ") == 6
    assert operate["quorate brokers list"].count("in service") == 4
