"""The settings that a group of the new protocol goes by: its own, else the node's."""

from collections.abc import Mapping
from typing import NamedTuple

from quorate.broker.groups.group import Surroundings
from quorate.group_settings import with_own_group_config
from quorate.quorum.metadata.image import GROUP, ConfigResource
from quorate.settings import NodeConfig


class _Known(NamedTuple):
    own: Mapping[str, str]
    config: NodeConfig


class OwnConfigs:
    """The configurations of groups, as the metadata have them.

    State: what came of those that were asked for, as long as the metadata say the same of them.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._known: dict[str, _Known] = {}

    def of(self, group_id: str) -> NodeConfig:
        """Return the node's settings, with those of the group in place of what they are for all."""
        own = self._surroundings.image().config(ConfigResource(GROUP, group_id))
        if not own:
            self._known.pop(group_id, None)
            return self._surroundings.config
        known = self._known.get(group_id)
        if known is None or known.own is not own:
            config = with_own_group_config(self._surroundings.config, own)
            known = self._known[group_id] = _Known(own, config)
        return known.config
