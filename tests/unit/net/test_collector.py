"""The collector leaves alone what was there before."""

import gc

from quorate.net.collector import OF_CONTROLLERS, calm_collector


def test_what_lives_is_not_visited_again() -> None:
    thresholds = gc.get_threshold()
    try:
        calm_collector(OF_CONTROLLERS)
        assert gc.get_threshold() == OF_CONTROLLERS
        assert gc.get_freeze_count() > 1000
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
