"""A certificate authority of a test, and the files of the certificates that it gives out."""

import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY: Final = datetime.timedelta(days=1)
_CA_USAGE: Final = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """An authority; `folder` is where its files are."""

    def __init__(self, folder: Path, name: str = "tests") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = _begun(self._name, self._name, self._key.public_key(), 30)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        own = own.add_extension(_CA_USAGE, critical=True)
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def give(
        self,
        folder: Path,
        name: str = "localhost",
        *,
        days: int = 30,
        password: str | None = None,
        address: str | None = "127.0.0.1",
    ) -> tuple[Path, Path]:
        """Write a certificate for a name and an address, and its key; return the two files."""
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        addresses = [x509.IPAddress(ipaddress.ip_address(address))] if address is not None else []
        names = x509.SubjectAlternativeName([x509.DNSName(name), *addresses])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        made = _begun(subject, self._name, key.public_key(), days).add_extension(names, critical=False)
        made = made.add_extension(usage, critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = made.add_extension(issuer, critical=False)
        certificate, private = folder / "tls.crt", folder / "tls.key"
        certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        sealing: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            sealing = serialization.BestAvailableEncryption(password.encode())
        form = serialization.PrivateFormat.PKCS8
        private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, sealing))
        return certificate, private

    def trust(self, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """Return a context of a client that trusts the authority, and perhaps shows a certificate itself."""
        context = ssl.create_default_context(cafile=str(self.file))
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return context


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for localhost that signs itself, and its key; return the two files."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    made = _begun(name, name, key.public_key(), 30).add_extension(names, critical=False)
    certificate, private = folder / "own.crt", folder / "own.key"
    certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form, sealing = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, sealing))
    return certificate, private


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    begins = now - (abs(days) + 2) * _DAY
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(now + days * _DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )
