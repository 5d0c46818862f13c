"""Which table belongs to a place."""

from typing import Final

from quorate.tools.tui.views import places
from quorate.tools.tui.views.cells import Frame
from quorate.tools.tui.views.cluster import brokers_frame, quorum_frame
from quorate.tools.tui.views.groups import groups_frame, offsets_frame
from quorate.tools.tui.views.places import Place
from quorate.tools.tui.views.runs import runs_frame
from quorate.tools.tui.views.settings import configs_frame
from quorate.tools.tui.views.snapshot import Snapshot
from quorate.tools.tui.views.streams import events_frame, messages_frame
from quorate.tools.tui.views.topics import partitions_frame, topics_frame
from quorate.tools.tui.views.txns import txns_frame

DEFAULT_RESOURCE: Final = "broker/default"


WHOLE: Final = {
    places.TOPICS: topics_frame,
    places.BROKERS: brokers_frame,
    places.QUORUM: quorum_frame,
    places.GROUPS: groups_frame,
    places.TXNS: txns_frame,
    places.EVENTS: events_frame,
    places.VERIFY: runs_frame,
}
"""Views that show all there is; the others are about something."""


def frame_of(place: Place, snapshot: Snapshot) -> Frame:
    """Return the table that a place shows."""
    if place.view in WHOLE:
        return WHOLE[place.view](snapshot)
    match place.view:
        case places.PARTITIONS:
            return partitions_frame(snapshot, place.argument)
        case places.OFFSETS:
            return offsets_frame(snapshot, place.argument)
        case places.CONFIGS:
            return configs_frame(snapshot, place.argument or DEFAULT_RESOURCE)
        case _:
            return messages_frame(snapshot, place.argument.split()[0])
