"""Starting a broker from the command line."""

from functools import partial
from pathlib import Path

from quorate.broker.listeners import bind_listeners
from quorate.tools.arguments import GlobalOptions
from quorate.tools.broker_node import run_separate_broker
from quorate.tools.log_format import tell_stories
from quorate.tools.problems import CommandError
from quorate.tools.starting import StartArguments, plan_node, print_ready, run_node


def start_broker(options: GlobalOptions, arguments: StartArguments) -> None:
    """Run a broker until told to stop."""
    plan = plan_node(options, arguments)
    _make_directory(Path(plan.config.log_dir))
    listeners = bind_listeners(plan.config)
    tell_stories()
    main = partial(run_separate_broker, plan, listeners, partial(print_ready, options, plan))
    run_node(options, arguments, main, listeners)


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(
            f"cannot use {directory}", why=error.strerror or str(error), hint="another --dir"
        ) from None
