"""What the operating system allows a node."""

import contextlib
import resource


def allow_open_files() -> None:
    """Take as many file descriptors as this process may have (as Java does), if it may.

    Shells give 1,024, which is less than the connections and partitions that a node can serve.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
