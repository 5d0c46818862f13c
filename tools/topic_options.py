"""What commands about topics have in common."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quorate.tools.arguments import GlobalOptions
from quorate.tools.problems import UsageError
from quorate.tools.session import bootstrap, client_properties, connection_options

if TYPE_CHECKING:
    from quorate.tools.topics import Client


def client_of(options: GlobalOptions) -> "Client":
    """Return how to make the client that the options describe."""
    # Here, for `broker start`, which is one of these commands, and `--help` do without a client.
    from quorate.tools.topics import Client

    properties = client_properties(options)
    return Client(bootstrap(options, os.environ), connection_options(options, properties))


def topic_names(positional: Sequence[str] | None, named: Sequence[str] | None) -> list[str]:
    """Return the topics named behind the verb and in ``--topic``, each once.

    Raises:
        UsageError: there is none.
    """
    names = list(dict.fromkeys([*(positional or ()), *(named or ())]))
    if not names:
        raise UsageError("name a topic", why="there is none", hint="quorate topics list")
    return names
