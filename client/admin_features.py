"""Trio shell: what the Admin client asks brokers about themselves, and the levels of features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.client.admin_base import AdminBase, check
from quorate.client.admin_results import BrokerVersions
from quorate.net.rpc import SOFTWARE_NAME, VersionRange
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from quorate.protocol.messages.session import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quorate.client.admin_results import FeatureChange


class FeatureAdmin(AdminBase):
    """The part of the Admin client that is about what brokers can do, and agreed to do."""

    async def describe_versions(self, broker_id: int | None = None) -> BrokerVersions:
        """Return what a broker speaks, which levels it supports, and which are finalized (KIP-584).

        Any broker is asked by default: what is finalized is the same everywhere.
        """
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version="0"
        )
        response: ApiVersionsResponse = await self.call(ApiKey.API_VERSIONS, request, broker_id)
        check(response.error_code, None, "versions")
        return BrokerVersions(
            {a.api_key: VersionRange(a.min_version, a.max_version) for a in response.api_keys},
            {
                feature.name: VersionRange(feature.min_version, feature.max_version)
                for feature in response.supported_features
            },
            {f.name: f.max_version_level for f in response.finalized_features},
            response.finalized_features_epoch,
        )

    async def update_features(
        self, changes: Iterable[FeatureChange], *, validate_only: bool = False
    ) -> None:
        """Have the cluster work at other levels: all of the changes are made, or none.

        Raises:
            KafkaError: INVALID_UPDATE_VERSION: one of them cannot be; the message says why.
        """
        keys = [
            FeatureUpdateKey(
                feature=change.name,
                max_version_level=change.level,
                allow_downgrade=change.upgrade > 1,
                upgrade_type=change.upgrade,
            )
            for change in changes
        ]
        request = UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)
        response: UpdateFeaturesResponse = await self.call(ApiKey.UPDATE_FEATURES, request)
        check(response.error_code, response.error_message, "features")
        for told in response.results:
            check(told.error_code, told.error_message, told.feature)
