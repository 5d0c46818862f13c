"""A page of memory by which we tell a preloaded library what to do, and it what it did.

How the library comes by it: shared_page.h.
"""

import mmap
from pathlib import Path
from typing import ClassVar


class SharedPage:
    """Owns a page in a file, which processes share that are started with :meth:`variables`.

    All is 0 at first, which has to mean that nothing is wrong.
    """

    VARIABLE: ClassVar[str]
    """In which variable of the environment the library looks for the file."""

    def __init__(self, file: Path, *, keep: bool = False) -> None:
        """Begin with nothing wrong; ``file`` is made, or taken as it is to ``keep``."""
        self._file = file
        if not (keep and file.exists()):
            file.write_bytes(bytes(mmap.PAGESIZE))
        with file.open("r+b") as opened:
            self._page = mmap.mmap(opened.fileno(), mmap.PAGESIZE)

    def variables(self) -> dict[str, str]:
        """Return what a process must have in its environment, besides the library."""
        return {self.VARIABLE: str(self._file.absolute())}

    def close(self) -> None:
        """Let go of the page."""
        self._page.close()
