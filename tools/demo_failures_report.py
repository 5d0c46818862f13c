"""The story of three failures, told: as text for people, or as JSON lines."""

import json
from dataclasses import asdict

from quorate.model import NO_LEADER
from quorate.tools.demo_failures import Ending, Step


def step_text(step: Step) -> str:
    """Return what happened, and the partition as ``topics describe`` of Kafka shows it."""
    leader = "none" if step.leader_id == NO_LEADER else str(step.leader_id)
    isr = ",".join(map(str, sorted(step.isr))) or "none"
    state = f"Leader: {leader:5} Isr: {isr:6} {step.records} records acknowledged"
    return f"{state:45}  <- {step.what}"


def step_object(step: Step) -> str:
    """Return a step as one line of JSON."""
    return json.dumps({"event": "step", **asdict(step)})


def ending_lines(ending: Ending) -> str:
    """Return what was lost, and whether the rest is as it was sent, everywhere."""
    if ending.lost:
        lost = (
            f"{len(ending.lost)} of {ending.acknowledged} acknowledged records were lost, as an"
            f" unclean election may: offsets {ending.lost[0]} to {ending.lost[-1]}."
        )
    else:
        lost = f"None of {ending.acknowledged} acknowledged records was lost."
    read = (
        "was read back as it was sent" if ending.read_right else "WAS NOT READ BACK AS IT WAS SENT"
    )
    same = "hold the same bytes" if ending.same else "DIFFER"
    return f"{lost} All that is left {read}; the three replicas {same}."


def ending_object(ending: Ending) -> str:
    """Return the end as one line of JSON."""
    lost = [ending.lost[0], ending.lost[-1]] if ending.lost else None
    return json.dumps({"event": "end", **asdict(ending), "lost": lost, "ok": ending.ok})
