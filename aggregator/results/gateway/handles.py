"""The handles of kept results, and the owner of one. A handle is a capability: it stands in no log and no record."""

import re
import secrets
from hashlib import sha256
from typing import Final

from aggregator.domain.principal import Principal
from aggregator.wire.codec import encode

# Known by its form to the redaction (aggregator/redaction/key_formats.py).
_HEAD: Final = "agr_"
# 18 bytes as URL-safe Base64: 144 random bits.
_RANDOM_BYTES: Final = 18
_FORM: Final = re.compile(r"agr_[A-Za-z0-9_-]{24}", re.ASCII)
URI_HEAD: Final = "aggregator://results/"


def new_handle() -> str:
    """Return a handle that was never given before."""
    return _HEAD + secrets.token_urlsafe(_RANDOM_BYTES)


def handle_in(text: str) -> str | None:
    """Return the handle that a text is, alone or as the URI of its result; None for any other text."""
    handle = text.strip().removeprefix(URI_HEAD)
    return handle if _FORM.fullmatch(handle) is not None else None


def id_of(handle: str) -> str:
    """Return the id under which the result of a handle is kept."""
    return sha256(handle.encode()).hexdigest()


def owner_of(principal: Principal) -> str:
    """Return a digest of a caller, equal for those that `Principal.is_same_caller` is true of."""
    bearer = principal.token.bearer if principal.token is not None else None
    return sha256(encode([principal.agent_id, principal.key_id, bearer])).hexdigest()
