"""What is wrong with a file of certificates or keys is told with its name; nobody is asked."""

import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from quorate.net.pem import default_context, load_own


@pytest.fixture
def encrypted(tmp_path: Path) -> str:
    """A key whose password is "right"."""
    issued = trustme.CA().issue_cert("127.0.0.1")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"right"))
    path = tmp_path / "own.pem"
    path.write_bytes(locked + issued.cert_chain_pems[0].bytes())
    return str(path)


def test_a_key_is_opened_with_its_password(encrypted: str) -> None:
    load_own(default_context("", purpose=ssl.Purpose.CLIENT_AUTH), encrypted, "right")


def test_a_key_that_is_opened_and_has_another_certificate_or_none_has_no_wrong_password(
    encrypted: str,
) -> None:
    own = Path(encrypted)
    key, _, _ = own.read_text().partition("-----BEGIN CERTIFICATE-----")
    other = trustme.CA().issue_cert("127.0.0.1").cert_chain_pems[0].bytes().decode()
    for certificate, why in ((other, "is not that of its first certificate"), ("", "no PEM file")):
        own.write_text(key + certificate)
        with pytest.raises(OSError, match=rf"own\.pem: .*{why}"):
            load_own(default_context("", purpose=ssl.Purpose.CLIENT_AUTH), encrypted, "right")


@pytest.mark.parametrize(
    ("password", "why"),
    [("", r"own\.pem: its key wants a ssl\.key\.password"), ("wrong", r"own\.pem: .* is wrong")],
)
def test_a_key_that_is_not_opened_is_told_and_nobody_is_asked(
    encrypted: str, password: str, why: str
) -> None:
    with pytest.raises(OSError, match=why):
        load_own(default_context(""), encrypted, password)


def test_files_that_are_missing_or_no_certificates_are_named(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nonsense")
    with pytest.raises(OSError, match=r"nonsense\.pem: no PEM file"):
        load_own(default_context(""), str(nonsense), "")
    with pytest.raises(OSError, match=r"nonsense\.pem: no PEM file"):
        default_context(str(nonsense))
    with pytest.raises(OSError, match=r"absent\.pem: No such file"):
        default_context(str(tmp_path / "absent.pem"))


def test_only_those_who_are_named_are_trusted(tmp_path: Path) -> None:
    authority, trusted = trustme.CA(), tmp_path / "trust.pem"
    authority.cert_pem.write_to_path(trusted)
    assert len(default_context(str(trusted)).get_ca_certs()) == 1
    assert len(default_context("", data=authority.cert_pem.bytes().decode()).get_ca_certs()) == 1
