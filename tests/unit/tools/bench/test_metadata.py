"""The benchmark of metadata, on a small cluster: what is measured happens."""

from quorate.tools.bench import metadata


def test_everything_is_measured() -> None:
    options = metadata.parser().parse_args(
        ["--brokers", "12", "--partitions", "240", "--per-topic", "4", "--seed", "7"]
    )
    figures = metadata.measure(options)
    assert figures["records"] == 240 + 60
    assert figures["failover_partitions"] > 0
    assert figures["failover_leaderless"] == 0
    assert figures["snapshot_bytes"] > 10_000
    times = [name.removesuffix("_cpu_ms") for name in figures if name.endswith("_cpu_ms")]
    assert set(times) == {
        "created",
        "large_request_decided",
        "large_request_encoded",
        "large_request_applied",
        "large_request_answered",
        "small_changes",
        "failover",
        "failover_longest_command",
        "rack_failover",
        "rack_failover_longest_command",
        "snapshot_written",
        "next_snapshot_written",
        "snapshot_read",
        "snapshot_taken_over",
    }
    phases = [name for name in times if not name.endswith("longest_command")]
    assert all(f"{name}_ms" in figures for name in phases)
    stalls = {name for name in figures if name.endswith("longest_stall_ms")}
    assert len(stalls) == 3
