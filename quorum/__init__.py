"""The controller quorum: who is in the cluster, which topics exist, who leads what."""

if __name__ != "quorate.quorum":
    raise ImportError("import quorate.quorum: a bare 'quorum' would load its modules twice")
