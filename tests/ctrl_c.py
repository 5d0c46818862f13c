"""Ctrl-C at a moment that a test chooses."""

import signal
import threading


def ctrl_c() -> None:
    """Interrupt the main thread, whichever thread this is."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)
