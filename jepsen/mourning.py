"""Threads of the harness that die: without them a run shows less than it seems to."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def dead_threads_told(tell: Callable[[str], None]) -> Generator[None]:
    """While this lasts, tell of every thread that ends with an exception, besides what is usual.

    Args:
        tell: takes a sentence, in the thread that dies.
    """
    usual = threading.excepthook

    def mourn(died: threading.ExceptHookArgs) -> None:
        name = "a thread" if died.thread is None else died.thread.name
        tell(f"{name} died of {died.exc_value!r}")
        usual(died)

    threading.excepthook = mourn
    try:
        yield
    finally:
        threading.excepthook = usual
