"""The cluster: its brokers."""

from quorate.tools.output import Column, Table
from quorate.tools.topics import Client


async def brokers_table(client: Client) -> Table:
    """Return the brokers that are registered."""
    async with client.admin() as admin:
        cluster = await admin.describe_cluster()
    columns = (
        Column("id"), Column("address"), Column("rack"), Column("fenced"), Column("cluster_id"),
    )  # fmt: skip
    rows = tuple(
        (b.broker_id, str(b.endpoint), b.rack, b.is_fenced, cluster.cluster_id)
        for b in cluster.brokers
    )
    return Table("brokers", columns, rows)
