"""Fault injection against real processes."""

if __name__ != "quorate.jepsen":
    raise ImportError("import quorate.jepsen: a bare 'jepsen' would load its modules twice")
