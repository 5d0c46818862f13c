"""What a client asks first: versions, a producer id, a coordinator."""

from quorate.broker.handlers.session import init_producer_id
from quorate.broker.handlers.table import API_VERSIONS_HANDLER, HANDLERS
from quorate.errors import ErrorCode
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.messages.session import ApiVersionsRequest
from quorate.protocol.messages.transactions import InitProducerIdRequest
from tests.unit.broker.harness import codes, new_node, now, over, waits


def test_every_api_that_is_served_is_told_with_its_versions() -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    response = API_VERSIONS_HANDLER(new_node().broker, request, over(3))
    assert response.error_code == 0
    assert [api.api_key for api in response.api_keys] == sorted(HANDLERS)
    for told in response.api_keys:
        api = APIS[told.api_key]
        versions = (api.advertised_min_version, api.advertised_max_version)
        assert (told.min_version, told.max_version) == versions


def test_from_version_3_on_clients_have_to_say_who_they_are() -> None:
    node = new_node()
    nameless = ApiVersionsRequest(client_software_version="1")
    refused = API_VERSIONS_HANDLER(node.broker, nameless, over(3))
    assert (codes([refused]), refused.api_keys) == ([ErrorCode.INVALID_REQUEST], [])
    assert API_VERSIONS_HANDLER(node.broker, nameless, over(2)).error_code == 0


def test_a_client_newer_than_us_learns_which_versions_there_are() -> None:
    response = API_VERSIONS_HANDLER.unsupported()
    assert codes([response]) == [ErrorCode.UNSUPPORTED_VERSION]
    assert ApiKey.API_VERSIONS in [api.api_key for api in response.api_keys]


def test_an_idempotent_producer_gets_an_id_once_there_are_some() -> None:
    node = new_node()
    asked: list[str] = []
    ids = node.broker.producer_ids
    ids.request_block = lambda: asked.append("block")
    first = init_producer_id(node.broker, InitProducerIdRequest(transactional_id=None), over(4))
    assert waits(first)
    ids.add_block(5000, 1000)
    second = init_producer_id(node.broker, InitProducerIdRequest(transactional_id=None), over(4))
    assert [now(first).producer_id, now(second).producer_id] == [5000, 5001]
    assert (now(first).error_code, now(first).producer_epoch, asked) == (0, 0, ["block"])


def test_without_a_controller_the_producer_is_told_to_try_again() -> None:
    node = new_node()
    node.broker.producer_ids.request_block = lambda: None
    answer = init_producer_id(node.broker, InitProducerIdRequest(transactional_id=None), over(4))
    node.broker.producer_ids.no_block()
    (code,) = codes([now(answer)])
    assert code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert now(answer).producer_id == -1


def test_without_their_topic_transactions_have_no_coordinator() -> None:
    request = InitProducerIdRequest(transactional_id="t")
    answer = now(init_producer_id(new_node().broker, request, over(4)))
    assert codes([answer]) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
