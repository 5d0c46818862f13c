"""The blocking clients take what the Trio clients take; their types are checked by mypy."""

import inspect
from typing import Any

import pytest

from quorate import client
from quorate.client import sync


@pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin"])
def test_the_settings_are_those_of_the_trio_client(name: str) -> None:
    blocking: Any = getattr(sync, name)
    waiting: Any = getattr(client, name)
    assert inspect.signature(blocking) == inspect.signature(waiting)
    assert inspect.getdoc(blocking.__init__) == inspect.getdoc(waiting.__init__)
    with pytest.raises(TypeError):
        blocking("127.0.0.1:1", nonsense=1)
