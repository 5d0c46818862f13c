"""Starting controller and broker in one process from the command line, on a port that is free."""

import os
from functools import partial

from quorate.broker.listeners import PLAINTEXT, Listener, bind_listeners
from quorate.settings import NodeConfig
from quorate.tools.arguments import GlobalOptions
from quorate.tools.combined_node import listen_near, run_combined
from quorate.tools.nearby import write_listening
from quorate.tools.node import NodePlan, Ready
from quorate.tools.processes import process_id
from quorate.tools.session import note
from quorate.tools.starting import StartArguments, plan_node, print_ready, run_node


def start_up(options: GlobalOptions, arguments: StartArguments) -> None:
    """Run controller and broker in this process until told to stop."""
    plan = plan_node(options, arguments)
    listeners = _listen(options, plan)
    main = partial(run_combined, plan, listeners, partial(_print_ready_and_where, options, plan))
    run_node(options, arguments, main, listeners)


def _listen(options: GlobalOptions, plan: NodePlan) -> list[Listener]:
    """Bind the listeners; if nobody chose the port, another one will do."""
    if "listeners" in plan.texts:
        return bind_listeners(plan.config)
    listeners = listen_near(plan.config)
    wanted = NodeConfig().listeners[0].rpartition(":")[2]
    port = listeners[0].endpoint.port
    if str(port) != wanted:
        note(options, f"port {wanted} is taken, so this node listens on {port} instead")
    return listeners


def _print_ready_and_where(options: GlobalOptions, plan: NodePlan, ready: Ready) -> None:
    endpoint = ready.endpoints.get(PLAINTEXT)
    process = process_id(os.getpid())
    if endpoint is not None and process is not None:
        write_listening(ready.directory, str(endpoint), [process])
    print_ready(options, plan, ready)
