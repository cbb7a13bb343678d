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
    """The outcome of a check of a signature. `untrusted`: it fits, but this system does not trust its certificate."""

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
    """Return the check of an archive's signature.

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
        # The certificate's purpose is not checked: it is for programs, not for mail.
        if not _run([*verify, "-noverify"], folder):
            raise PackageError("The signature of the bundle does not fit: it was changed after it was signed.")
        signer = _signer(openssl, folder)
        trusted = _run([*verify, "-purpose", "any"], folder)
    return SignatureCheck("trusted" if trusted else "untrusted", signer)


def _signer(openssl: str, folder: Path) -> str:
    show = [openssl, "x509", "-in", "signer", "-noout", "-subject", "-nameopt", "multiline,utf8,-esc_msb"]
    done = _done(show, folder)
    lines = done.stdout.decode("utf-8", "replace").splitlines() if done is not None else []
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    named = next((value for key, value in fields.items() if key.strip() == "commonName"), "")
    return "".join(c for c in named if c.isprintable()).strip()[:100]


def _run(command: list[str], folder: Path) -> bool:
    done = _done(command, folder)
    return done is not None and done.returncode == 0


def _done(command: list[str], folder: Path) -> subprocess.CompletedProcess[bytes] | None:
    """Return the result of a program run on files in a folder; None if it did not finish."""
    try:
        # It is `openssl`, and all its arguments are ours.
        return subprocess.run(command, cwd=folder, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
