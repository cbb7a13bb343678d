"""Links that connect an account, removed from records: anyone who has a link may use it until it ends."""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.errors import ERROR_META_KEY
from aggregator.domain.missing import LoginRequired

# The key of the page among the input requests of a result.
CONNECT: Final = "connect"
_TAKEN_OUT: Final = "[a link to connect an account]"


def without_link(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result in the form for the record: unchanged, unless it contains a link to connect an account."""
    asked = result.get("inputRequests")
    if isinstance(asked, Mapping) and CONNECT in asked:
        return {**result, "inputRequests": {**asked, CONNECT: _TAKEN_OUT}}
    meta = result.get("_meta")
    error = meta.get(ERROR_META_KEY) if isinstance(meta, Mapping) else None
    if not isinstance(error, Mapping) or error.get("code") != LoginRequired.code or "url" not in error:
        return result
    said = [{"type": "text", "text": f"{error['message']} {_TAKEN_OUT}"}]
    return {**result, "content": said, "_meta": {ERROR_META_KEY: {**error, "url": _TAKEN_OUT}}}
