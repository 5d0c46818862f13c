"""The API table."""

import pytest

from quorate.protocol.apis import APIS, Api, ApiKey

# Key, versions, first flexible version, as in Kafka 4.1 and later.
FACTS = {
    "Produce": (0, 3, 13, 9),
    "Fetch": (1, 4, 18, 12),
    "Metadata": (3, 0, 13, 9),
    "ApiVersions": (18, 0, 4, 3),
    "SaslHandshake": (17, 0, 1, None),
    "DescribeCluster": (60, 0, 2, 0),
}


def test_every_key_has_its_api() -> None:
    assert set(APIS) == set(ApiKey)
    assert all(api.key == key for key, api in APIS.items())


@pytest.mark.parametrize("name", FACTS)
def test_versions_are_those_of_kafka(name: str) -> None:
    key, min_version, max_version, flexible_from = FACTS[name]
    api = APIS[key]
    assert (api.name, api.min_version, api.max_version) == (name, min_version, max_version)
    assert api.flexible_from == flexible_from


def test_produce_is_advertised_from_zero_for_the_sake_of_old_librdkafka() -> None:
    assert APIS[ApiKey.PRODUCE].advertised_min_version == 0
    others = [api for api in APIS.values() if api.key != ApiKey.PRODUCE]
    assert all(api.advertised_min_version == api.min_version for api in others)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_headers_have_tags_exactly_in_flexible_versions(api: Api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        flexible = api.flexible_from is not None and version >= api.flexible_from
        assert api.request_header_version(version) == (2 if flexible else 1)
        expected = 1 if flexible and api.key != ApiKey.API_VERSIONS else 0
        assert api.response_header_version(version) == expected
