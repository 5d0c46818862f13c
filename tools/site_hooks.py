"""What the site needs beyond the pages: links out of ``docs`` become names, for there is no page.

On the forge and in an editor such a link leads to the file. Whether it is there is checked here.
"""

import re
from pathlib import Path
from typing import Any

from quorate.tools.site_sequence import with_pictures

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
