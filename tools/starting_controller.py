"""Starting a controller from the command line."""

from functools import partial

from quorate.tools.arguments import GlobalOptions
from quorate.tools.controller_node import run_controller
from quorate.tools.log_format import tell_stories
from quorate.tools.starting import StartArguments, plan_node, print_ready, run_node


def start_controller(
    options: GlobalOptions, arguments: StartArguments, cluster_id: str | None
) -> None:
    """Run a controller until told to stop."""
    plan = plan_node(options, arguments)
    tell_stories()
    main = partial(run_controller, plan, cluster_id, partial(print_ready, options, plan))
    run_node(options, arguments, main, [])
