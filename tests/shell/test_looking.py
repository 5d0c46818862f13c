"""Whether nobody listens at an address any more: only who says so counts."""

import pytest

from quorate.model import Endpoint
from quorate.net.looking import all_refuse


@pytest.mark.parametrize("host", ["broker1..example.com", "x" * 64, "☃.example"])
async def test_a_host_that_cannot_be_looked_up_does_not_say_that_nobody_listens(host: str) -> None:
    assert not await all_refuse([Endpoint(host, 9092)])
