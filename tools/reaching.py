"""Where the controllers are: as the command line says, or as a broker knows."""

import os
import ssl
from collections.abc import Mapping

from quorate.client.routing.cluster import parse_bootstrap
from quorate.model import Endpoint
from quorate.tools.arguments import GlobalOptions
from quorate.tools.client_properties import tls_context
from quorate.tools.problems import CommandError
from quorate.tools.session import bootstrap, client_properties, connection_options, controllers
from quorate.tools.topics import Client


def asks_controllers(options: GlobalOptions) -> bool:
    """Whether the options name controllers, and no brokers."""
    return bool(controllers(options, os.environ))


def controllers_of(options: GlobalOptions) -> list[Endpoint]:
    """Return the controllers that the options name."""
    return list(parse_bootstrap(controllers(options, os.environ)))


def tls_of(options: GlobalOptions) -> ssl.SSLContext | None:
    """Return the TLS settings of the options, ``None`` if they say nothing of it."""
    return tls_context(client_properties(options))


def client_of(options: GlobalOptions, environment: Mapping[str, str]) -> Client:
    """Return how to make the client that the options describe."""
    properties = client_properties(options)
    return Client(bootstrap(options, environment), connection_options(options, properties))


async def find_controllers(
    options: GlobalOptions, environment: Mapping[str, str]
) -> list[Endpoint]:
    """Return where controllers listen, asking a broker if the options name none.

    Raises:
        CommandError: the cluster's controllers cannot be reached from outside.
        QuorateError: no broker answers.
    """
    if asks_controllers(options):
        return controllers_of(options)
    async with client_of(options, environment).admin() as admin:
        quorum = await admin.describe_quorum()
    endpoints = [v.endpoint for v in (*quorum.voters, *quorum.observers) if v.endpoint is not None]
    if not endpoints:
        raise CommandError(
            "the controller of this cluster cannot be asked directly",
            why="it shares a process with a broker, and has no listener of its own",
            hint="quorate metadata and quorate why read the node's directory: --dir DIR",
        )
    return endpoints
