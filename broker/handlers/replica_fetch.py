"""Fetch by followers: what lies below their position they have; records out, committed or not."""

from quorate.broker.handlers.context import Broker
from quorate.broker.replication.sessions import FollowerSession, end_waiting
from quorate.errors import ErrorCode
from quorate.promise import Promise
from quorate.protocol.messages.data import FetchRequest, FetchResponse

WAIT_MAX_MS = 60_000


def replica_fetch(broker: Broker, request: FetchRequest) -> FetchResponse | Promise[FetchResponse]:
    """Answer with what there is, or park the request until something is appended."""
    session = broker.replicas.sessions.take(request)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=int(session))
    response = session.answer(all_hints=request.max_wait_ms <= 0)
    if response.responses or request.max_wait_ms <= 0:
        return response
    wait_ms = min(request.max_wait_ms, WAIT_MAX_MS)
    if session.held_until_ms:
        wait_ms = min(wait_ms, session.held_until_ms - broker.deadlines.now_ms)
    return _park(broker, session, wait_ms)


def _park(broker: Broker, session: FollowerSession, wait_ms: int) -> Promise[FetchResponse]:
    promise: Promise[FetchResponse] = Promise()

    def answered(response: FetchResponse) -> None:
        broker.deadlines.cancel(deadline)
        promise.resolve(response)

    def expired() -> None:
        assert session.parked is answered, "who is answered waits for no deadline"
        end_waiting(session)

    def abandoned() -> None:
        assert session.parked is answered, "only who waits is given up, once"
        broker.deadlines.cancel(deadline)
        session.parked = None

    deadline = broker.deadlines.after(wait_ms, expired)
    session.parked = answered
    promise.on_abandoned = abandoned
    return promise
