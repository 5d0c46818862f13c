"""Whether a history of a register, per key, could have come from one that does one thing at a time.

Values should be unique: when few values are written again and again, wrong histories are legal.
"""

from quorate.jepsen.linearizability.portfolio import STEPS_MAX, check, check_key
from quorate.jepsen.linearizability.register import (
    NEVER,
    Action,
    Cas,
    Delete,
    Get,
    Linearizable,
    NotLinearizable,
    Operation,
    Put,
    Undecided,
    Value,
    Verdict,
    described,
)

__all__ = [
    "NEVER",
    "STEPS_MAX",
    "Action",
    "Cas",
    "Delete",
    "Get",
    "Linearizable",
    "NotLinearizable",
    "Operation",
    "Put",
    "Undecided",
    "Value",
    "Verdict",
    "check",
    "check_key",
    "described",
]
