"""The broker: stores logs, replicates them, serves clients."""

if __name__ != "quorate.broker":
    raise ImportError("import quorate.broker: a bare 'broker' would load its modules twice")
