"""The site loads nothing from elsewhere, and a page that would is found."""

import re
from pathlib import Path

import pytest

from quorate.tools.site_hooks import loads, on_post_build
from quorate.tools.site_sequence import with_pictures
from tests.typed import PAGES, name_of

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    "mark",
    [
        '<script src="https://unpkg.com/mermaid@11/dist/mermaid.min.js"></script>',
        "<img alt=x src=//example.org/x.png>",
        '<link rel="stylesheet" href="https://fonts.googleapis.com/css?family=Roboto">',
        '<link href="https://fonts.gstatic.com" rel="preconnect" crossorigin>',
        "body { background: url(https://example.org/x.png) }",
        '@import "https://example.org/x.css";',
        '<pre class="mermaid"><code>flowchart TD</code></pre>',
    ],
)
def test_what_is_loaded_from_elsewhere_is_seen(mark: str) -> None:
    assert loads(f"<p>text</p>{mark}<p>text</p>") != []


@pytest.mark.parametrize(
    "mark",
    [
        '<a href="https://kafka.apache.org">Kafka</a>',
        '<link rel="canonical" href="https://example.org/page.html">',
        '<script src="assets/javascripts/bundle.js"></script>',
        '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>',
        "<code>http://127.0.0.1:9308/metrics</code>",
    ],
)
def test_what_is_only_named_or_ours_is_not(mark: str) -> None:
    assert loads(mark) == []


def test_a_site_with_such_a_page_is_not_built(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>ours</p>")
    on_post_build(config={"site_dir": str(tmp_path)})
    (tmp_path / "index.html").write_text('<img src="https://example.org/x.png">')
    with pytest.raises(ValueError, match=r"index\.html loads from elsewhere"):
        on_post_build(config={"site_dir": str(tmp_path)})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_diagram_of_a_page_is_drawn_here(page: Path) -> None:
    assert "```mermaid" not in with_pictures(page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pictures_of_a_page_are_files_of_ours(page: Path) -> None:
    assert "](http" not in "".join(line for line in page.read_text().splitlines() if "![" in line)


def test_the_search_works_from_a_folder_where_there_are_no_workers_and_no_index_is_read() -> None:
    """The plugin makes the index a script, and takes a worker from elsewhere if we have none."""
    settings = (DOCS.parent / "mkdocs.yml").read_text()
    assert re.search(r"^plugins: \[search, offline\]", settings, re.MULTILINE)
    assert re.search(r"^  polyfills: \[iframe-worker\.js\]", settings, re.MULTILINE)
    assert 'location.protocol === "file:"' in (DOCS / "iframe-worker.js").read_text()
