"""What a plain client makes of answers."""

from types import SimpleNamespace
from typing import Any

import pytest

from quorate.errors import ErrorCode
from quorate.jepsen.clients.wire import RefusedConfigError, create_topic


class Answering:
    """Answers everything with the same."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        self.answer = SimpleNamespace(error_code=int(code), error_message=message)

    def ask(self, *words: object) -> Any:
        del words
        return SimpleNamespace(topics=[self.answer])


def test_a_setting_that_a_broker_refuses_is_told_in_its_words() -> None:
    client: Any = Answering(ErrorCode.INVALID_CONFIG, "Unknown topic config name: nonsense")
    with pytest.raises(RefusedConfigError, match="nonsense"):
        create_topic(client, "t", 1, {"nonsense": "1"})


def test_any_other_refusal_is_a_code_and_may_be_asked_again() -> None:
    client: Any = Answering(ErrorCode.NOT_CONTROLLER, "")
    assert create_topic(client, "t", 1, {}) == ErrorCode.NOT_CONTROLLER
