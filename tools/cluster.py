"""The cluster: its brokers, its controllers."""

from quorate.control.messages import DescribeQuorum, DescribeQuorumAnswer
from quorate.model import Endpoint
from quorate.tools.controllers import ask_once
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


async def quorum_table(client: Client) -> Table:
    """Ask a broker how the quorum is."""
    async with client.admin() as admin:
        quorum = await admin.describe_quorum()
    columns = (
        Column("leader_id"), Column("leader_epoch"), Column("high_watermark"), Column("voters"),
    )  # fmt: skip
    voters = [f"{v.node_id}:{v.log_end_offset}" for v in quorum.voters]
    row = (quorum.leader_id, quorum.leader_epoch, quorum.high_watermark, voters)
    return Table("quorums", columns, (row,))


async def controller_table(endpoints: list[Endpoint], timeout_s: float) -> Table:
    """Ask a controller how the quorum is; it also tells the version of the metadata."""
    answer: DescribeQuorumAnswer = await ask_once(endpoints, DescribeQuorum(), timeout_s)
    columns = (
        Column("leader_id"), Column("leader_epoch"), Column("high_watermark"),
        Column("metadata_version"), Column("voters"),
    )  # fmt: skip
    voters = [f"{v.node_id}:{v.log_end_offset}" for v in answer.voters]
    row = (
        answer.leader_id, answer.leader_epoch, answer.high_watermark, answer.metadata_version,
        voters,
    )  # fmt: skip
    return Table("quorums", columns, (row,))
