"""The Trio client: Producer, Consumer, Admin."""

if __name__ != "quorate.client":
    raise ImportError("import quorate.client: a bare 'client' would load its modules twice")
