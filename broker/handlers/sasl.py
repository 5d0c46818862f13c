"""SASL: there is none, and who begins it is told so as by Kafka on a listener without.

A connection that is closed instead says nothing: clients take it for one that broke, and try again.
"""

from typing import Final

from quorate.broker.handlers.context import Broker, Caller
from quorate.errors import ErrorCode
from quorate.protocol.messages.session import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

_CODE: Final = int(ErrorCode.ILLEGAL_SASL_STATE)
_TOLD: Final = "There is no SASL on this listener"


def sasl_handshake(
    _broker: Broker, _request: SaslHandshakeRequest, _caller: Caller
) -> SaslHandshakeResponse:
    """Take no mechanism, and offer none."""
    return SaslHandshakeResponse(error_code=_CODE)


def sasl_authenticate(
    _broker: Broker, _request: SaslAuthenticateRequest, _caller: Caller
) -> SaslAuthenticateResponse:
    """Refuse credentials, unread."""
    return SaslAuthenticateResponse(error_code=_CODE, error_message=_TOLD)
