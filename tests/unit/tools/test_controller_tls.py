"""Controllers trust each other by certificates: by those of whom they are told to trust."""

import ssl
from pathlib import Path

import pytest
import trustme

from quorate.errors import InvalidConfigError
from quorate.settings import NodeConfig, node_config
from quorate.tools.controller_tls import controller_client_context, controller_server_context


def controller_config(**locations: Path) -> NodeConfig:
    names = {"keystore": "ssl.keystore.location", "truststore": "ssl.truststore.location"}
    texts = {names[name]: str(path) for name, path in locations.items()}
    return node_config({"quorate.controller.security.protocol": "SSL", **texts})


def test_only_whom_the_truststore_names_is_taken_for_a_controller(tmp_path: Path) -> None:
    trusted = tmp_path / "trust.pem"
    trustme.CA().cert_pem.write_to_path(trusted)
    context = controller_client_context(controller_config(truststore=trusted))
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(context.get_ca_certs()) == 1, "and nobody whom the system trusts besides"


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match=r"absent\.pem: No such file"):
        controller_server_context(controller_config(keystore=tmp_path / "absent.pem"))
    with pytest.raises(InvalidConfigError, match="needs a PEM file"):
        controller_server_context(controller_config())


def test_without_tls_there_is_no_context() -> None:
    config = node_config({})
    assert controller_client_context(config) is controller_server_context(config) is None
