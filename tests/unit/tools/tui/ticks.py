"""What a look at 2,000 partitions costs: ``python -m tests.unit.tools.tui.ticks``."""

import sys
import time
from dataclasses import replace

from quorate.tools.tui.views.places import Place
from quorate.tools.tui.views.snapshot import Snapshot, measures_of
from tests.unit.tools.tui import clusters
from tests.unit.tools.tui.piloting import FakeSource, Seat, sit

TICKS = 10


def grown(snapshot: Snapshot, records: int) -> Snapshot:
    """Return a snapshot in which every log is longer."""
    on_brokers = {
        broker_id: {
            place: replace(
                replica,
                log_end_offset=replica.log_end_offset + records,
                high_watermark=replica.high_watermark + records - broker_id % 2,
            )
            for place, replica in replicas.items()
        }
        for broker_id, replicas in snapshot.on_brokers.items()
    }
    now_ms = snapshot.now_ms + 2_000 * records
    return replace(snapshot, on_brokers=on_brokers, now_ms=now_ms, earlier=measures_of(snapshot))


def main() -> None:
    """Print CPU milliseconds per look, until it is drawn."""
    before = clusters.large()
    snapshots = [grown(before, n) for n in range(1, TICKS + 1)]
    for view in ("partitions", "topics"):
        for size in ((80, 24), (200, 60)):
            costs: list[float] = []

            async def body(seat: Seat, costs: list[float] = costs) -> None:
                for snapshot in snapshots:
                    started = time.process_time()
                    seat.source.say(snapshot)
                    await seat.pilot.pause()
                    costs.append((time.process_time() - started) * 1000)

            sit(body, view=Place(view), source=FakeSource(before), size=size)
            sys.stdout.write(f"{view} {size[0]}x{size[1]}: {sum(costs) / TICKS:.0f} ms\n")


if __name__ == "__main__":
    main()
