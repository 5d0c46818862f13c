"""Folders end what their tests share: ``scope="package"`` is the folder of a fixture's conftest.

For pytest itself a package is a folder with an ``__init__.py``, and any other folder's fixtures are
the whole session's. The nodes and the JVM of ``tests/compat`` took a third of a core until the last
unit test.
"""

from pathlib import Path

import pytest


class Folder(pytest.Package):
    """A folder whose fixtures end with the last of its tests."""

    def setup(self) -> None:
        """Do nothing: there is no ``__init__.py`` to import."""


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Make the folder of a conftest a package; the others are as they are."""
    if not (path / "conftest.py").is_file():
        return None
    made: pytest.Collector = Folder.from_parent(parent, path=path)  # pyright: ignore[reportUnknownMemberType]
    return made
