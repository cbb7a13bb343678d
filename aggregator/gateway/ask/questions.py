"""A server's question in the form for the host, and the host's answer in the form for the server. No waiting, no state.

Rule 1: the question names the asking server, since the host sees only one (S/client/elicitation). Rule 2: a page's
address is never changed, and never visited. Rule 3: a form that asks for a password or key is marked: servers must not
do that (S/client/elicitation).
"""

import re
import secrets
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from aggregator.domain.abilities import ELICIT, SAMPLE
from aggregator.domain.text.invisible import escaped
from aggregator.gateway.eras import onward, received

# Names the server in the `_meta` of a question; in a form's or a page's words it stands in front.
ASKER_KEY: Final = "aggregator/server"

# Words that mark a field of a form as one for a secret, in the spellings of users.
_SECRET: Final = re.compile(
    r"\b(?:pass ?(?:words?|phrase|code|key)|passwd|pwd|secrets?|token|credentials?|pin|otp|2fa|mfa|cvv2?|cvc)\b"
    r"|\b(?:api|access|private) ?keys?\b|\bone time\b|\bcard ?number\b|密码|口令|令牌|密钥|验证码|パスワード|비밀번호"
    r"|mot de passe|passwort|contraseñ|парол",
    re.IGNORECASE,
)
# A description that warns against entering a secret is no request for one.
_WARNED: Final = re.compile(
    r"\b(?:do not|don['’]t|never) (?:enter|put|type|give|provide|send|share|write|include|use)\b[^.!?;:()]*",
    re.IGNORECASE,
)
# The boundary between two words of a name.
_JOINT: Final = re.compile(r"[_-]+|(?<=[a-z0-9])(?=[A-Z])")
# Fields of a form that are read, and characters of each text.
_FIELDS: Final = 100
_LOOKED_AT: Final = 2_000


def worded(server: str, method: str, params: Mapping[str, Any], *, modern: bool) -> dict[str, Any]:
    """The params of a question for a host of that era."""
    # Tasks are agreed hop by hop, and we agreed to none.
    asked = {key: value for key, value in params.items() if key not in ("task", "_meta")}
    if method == ELICIT:
        asked["message"] = f"[{server}] {_mark(server, asked)}{asked.get('message', '')}"
        page = asked.pop("elicitationId", None)
        if asked.get("mode") == "url" and not modern:
            asked["elicitationId"] = page_id(server, page if isinstance(page, str) else secrets.token_urlsafe(16))
    elif method == SAMPLE and "includeContext" in asked:
        # `thisServer` would be every upstream.
        asked["includeContext"] = "none"
    return {**asked, "_meta": {**onward(params.get("_meta"), trusted=False), ASKER_KEY: server}}


def _mark(server: str, asked: Mapping[str, Any]) -> str:
    """Return the warning before the message of a form that asks for a secret; empty for any other."""
    if asked.get("mode") == "url":
        return ""
    schema = asked.get("requestedSchema")
    fields = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, field in islice(fields.items(), _FIELDS) if isinstance(fields, Mapping) else ():
        about = field if isinstance(field, Mapping) else {}
        texts = (name, about.get("title"), about.get("description"))
        told = " . ".join(text[:_LOOKED_AT] for text in texts if isinstance(text, str))
        said = _JOINT.sub(" ", _WARNED.sub("", told))
        if about.get("format") == "password" or _SECRET.search(said) is not None:
            return (
                f"(Careful: {escaped(repr(name[:80]))} looks like a password or key. Servers must not ask for these in "
                f"a form; what you enter goes to {server!r}.) "
            )
    return ""


def page_id(server: str, own: str) -> str:
    """Return the id of a page towards hosts: two servers may have given the same id to theirs."""
    return f"{server}:{own}"


def answered(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The host's answer, without hop-local members."""
    return received({key: value for key, value in answer.items() if key != "resultType"})


def renamed(server: str, data: Any) -> Any:
    """The data of an error -32042 for a host that knows it."""
    pages = [worded(server, ELICIT, page, modern=False) for page in pages_of(data)]
    return {**data, "elicitations": [{key: page[key] for key in page if key != "_meta"} for page in pages]}


def pages_of(data: Any) -> list[dict[str, Any]]:
    """The pages that an error -32042 of 2025-11-25 sends a user to; invalid entries are dropped."""
    found = data.get("elicitations") if isinstance(data, Mapping) else None
    return [page for page in (found if isinstance(found, list) else ()) if isinstance(page, dict) and "url" in page]
