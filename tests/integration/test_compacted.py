"""Topics that are to keep the last record of each key, with a real node."""

import pytest
import trio

from quorate.client import Admin
from quorate.client.catching_up import ensure_compacted

pytestmark = pytest.mark.integration


def test_a_topic_that_is_there_and_deletes_what_is_old_is_refused(bootstrap: str) -> None:
    async def ensure() -> None:
        async with Admin(bootstrap) as admin:
            for policy in ("delete", "compact,delete"):
                name = f"kept-{policy.replace(',', '-')}"
                await admin.create_topic(name, partitions=1, configs={"cleanup.policy": policy})
                with pytest.raises(ValueError, match=f"{name}' has cleanup.policy={policy}, but"):
                    await ensure_compacted(admin, name, 1)
            for _ in range(2):
                await ensure_compacted(admin, "kept", 1)

    trio.run(ensure)
