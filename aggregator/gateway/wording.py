"""A server's question as the host is to get it, and the host's answer as the server is. No waiting, no state.

Rule 1: the host is told which server asks, since all it sees is one (S/client/elicitation).
Rule 2: a page's address is never touched, and never visited.
"""

import secrets
from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.abilities import ELICIT, SAMPLE
from aggregator.gateway.eras import onward, received

# Names the server in the `_meta` of a question; in a form's or a page's words it stands in front.
ASKER_KEY: Final = "aggregator/server"


def worded(server: str, method: str, params: Mapping[str, Any], *, modern: bool) -> dict[str, Any]:
    """The params of a question for a host of that era."""
    # Tasks are agreed hop by hop, and we agreed to none.
    asked = {key: value for key, value in params.items() if key not in ("task", "_meta")}
    if method == ELICIT:
        asked["message"] = f"[{server}] {asked.get('message', '')}"
        page = asked.pop("elicitationId", None)
        if asked.get("mode") == "url" and not modern:
            asked["elicitationId"] = page_id(server, page if isinstance(page, str) else secrets.token_urlsafe(16))
    elif method == SAMPLE and "includeContext" in asked:
        # `thisServer` would be every server behind us.
        asked["includeContext"] = "none"
    return {**asked, "_meta": {**onward(params.get("_meta"), trusted=False), ASKER_KEY: server}}


def page_id(server: str, own: str) -> str:
    """How a page is called towards hosts: two servers may have given the same name to theirs."""
    return f"{server}:{own}"


def answered(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The host's answer, without what belongs to its hop."""
    return received({key: value for key, value in answer.items() if key != "resultType"})


def renamed(server: str, data: Any) -> Any:
    """The data of an error -32042 for a host that knows it."""
    pages = [worded(server, ELICIT, page, modern=False) for page in pages_of(data)]
    return {**data, "elicitations": [{key: page[key] for key in page if key != "_meta"} for page in pages]}


def pages_of(data: Any) -> list[dict[str, Any]]:
    """The pages that an error -32042 of 2025-11-25 sends a person to; what is no page is left out."""
    found = data.get("elicitations") if isinstance(data, Mapping) else None
    return [page for page in (found if isinstance(found, list) else ()) if isinstance(page, dict) and "url" in page]
