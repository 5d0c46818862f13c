"""What the site needs beyond the pages: links out of ``docs`` become names, for there is no page.

On the forge and in an editor such a link leads to the file. Whether it is there is checked here;
and that a page loads nothing from elsewhere: it is read where there is no Internet, too.
"""

import re
from pathlib import Path
from typing import Any

from quorate.tools.site_sequence import with_pictures

ELSEWHERE = re.compile(
    r"<(?!a\b)\w+\b[^>]*?\b(?:src|srcset|data|poster|href)\s*=\s*[\"']?(?:https?:)?//[^>]*>"
    r"|(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*",
    re.IGNORECASE,
)
"""What a browser loads by itself; links are followed by people."""

NAMED_ONLY = re.compile(r"<link\b[^>]*\brel=[\"']?(?:canonical|alternate|license)\b", re.IGNORECASE)
UNDRAWN = re.compile(r"<pre class=\"mermaid\">")
LINK = re.compile(r"\[([^\]]+)\]\((\.\.?/[^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Return a page without its links to what is no page.

    Raises:
        FileNotFoundError: Such a link leads to nothing.
    """
    docs = Path(config["docs_dir"])
    folder = (docs / page.file.src_uri).parent

    def replaced(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        if target.is_relative_to(docs):
            return match[0]
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {match[2]}, which is not there")
        name = target.relative_to(docs.parent).as_posix()
        return match[1] if match[1].strip("`") == name else f"{match[1]} (`{name}`)"

    return with_pictures(LINK.sub(replaced, markdown))


def loads(text: str) -> list[str]:
    """Return what a page or a style sheet would load from elsewhere.

    Diagrams that are not drawn here count: the site's theme fetches the program that draws them.
    """
    found = [match[0] for match in ELSEWHERE.finditer(text)]
    return [mark for mark in found if not NAMED_ONLY.match(mark)] + UNDRAWN.findall(text)


def on_post_build(*, config: Any, **_: Any) -> None:
    """Look at the pages as they are now.

    Raises:
        ValueError: One of them loads something from elsewhere.
    """
    site = Path(config["site_dir"])
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg")]):
        if found := loads(path.read_text()):
            raise ValueError(f"{path.relative_to(site)} loads from elsewhere: {found[0]}")
