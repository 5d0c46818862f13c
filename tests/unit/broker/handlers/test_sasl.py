"""There is no SASL, and who begins it is told as by Kafka on a listener without."""

from quorate.broker.handlers.sasl import sasl_authenticate, sasl_handshake
from quorate.errors import ErrorCode
from quorate.protocol.messages.session import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.unit.broker.harness import new_node, over

CALLER = over()
ILLEGAL = int(ErrorCode.ILLEGAL_SASL_STATE)


def test_no_mechanism_is_taken_and_none_is_offered() -> None:
    told = sasl_handshake(new_node().broker, SaslHandshakeRequest(mechanism="PLAIN"), CALLER)
    assert (told.error_code, told.mechanisms) == (ILLEGAL, [])


def test_credentials_are_refused() -> None:
    asked = SaslAuthenticateRequest(auth_bytes=b"\0user\0password")
    assert sasl_authenticate(new_node().broker, asked, CALLER).error_code == ILLEGAL
