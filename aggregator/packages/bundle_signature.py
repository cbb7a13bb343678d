"""The signature after the archive of an MCPB file: PKCS#7 over the archive, checked by the program `openssl`.

The block is `MCPB_SIG_V1`, four bytes with the length in little endian, the DER, `MCPB_SIG_END`
(https://github.com/anthropics/mcpb, src/node/sign.ts).
"""

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from aggregator.packages.errors import PackageError

_HEADER: Final = b"MCPB_SIG_V1"
_FOOTER: Final = b"MCPB_SIG_END"
_LARGEST: Final = 256 * 1024
_SECONDS: Final = 60.0

SignatureState = Literal["unsigned", "trusted", "untrusted", "unchecked"]


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """What is known of a signature. `untrusted`: it fits, and its certificate is not one that this system trusts."""

    state: SignatureState
    signer: str = ""

    def __str__(self) -> str:
        by = f" by {self.signer}" if self.signer else ""
        return {
            "unsigned": "not signed",
            "trusted": f"signed{by}",
            "untrusted": f"signed{by}, with a certificate that this system does not trust",
            "unchecked": "signed, but not checked: the program openssl is not there",
        }[self.state]


def split_signature(content: bytes) -> tuple[bytes, bytes | None]:
    """Return the archive in an MCPB file, and its signature, or None without one."""
    if not content.endswith(_FOOTER):
        return content, None
    start = content.rfind(_HEADER, max(0, len(content) - _LARGEST))
    if start < 0:
        return content, None
    after = start + len(_HEADER)
    length = int.from_bytes(content[after : after + 4], "little")
    signature = content[after + 4 : after + 4 + length]
    if after + 4 + length + len(_FOOTER) != len(content):
        return content, None
    return content[:start], signature


def check_signature(archive: bytes, signature: bytes | None) -> SignatureCheck:
    """Return what a signature says of an archive.

    Raises:
        PackageError: the signature does not fit, so the archive was changed after it was signed.
    """
    if signature is None:
        return SignatureCheck("unsigned")
    openssl = shutil.which("openssl")
    if openssl is None:
        return SignatureCheck("unchecked")
    with tempfile.TemporaryDirectory(prefix="aggregator-") as made:
        folder = Path(made)
        (folder / "archive").write_bytes(archive)
        (folder / "signature").write_bytes(signature)
        verify = [openssl, "cms", "-verify", "-binary", "-inform", "DER", "-in", "signature", "-content", "archive"]
        verify += ["-out", "verified", "-signer", "signer"]
        # Of the certificate's purpose nothing is asked: it is for programs, and not for mail.
        if not _run([*verify, "-noverify"], folder):
            raise PackageError("The signature of the bundle does not fit: it was changed after it was signed.")
        signer = _signer(openssl, folder)
        trusted = _run([*verify, "-purpose", "any"], folder)
    return SignatureCheck("trusted" if trusted else "untrusted", signer)


def _signer(openssl: str, folder: Path) -> str:
    show = [openssl, "x509", "-in", "signer", "-noout", "-subject", "-nameopt", "multiline,utf8,-esc_msb"]
    try:
        done = subprocess.run(
            show, cwd=folder, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    fields = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    named = next((value for key, value in fields.items() if key.strip() == "commonName"), "")
    return "".join(c for c in named if c.isprintable()).strip()[:100]


def _run(command: list[str], folder: Path) -> bool:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, timeout=_SECONDS, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
