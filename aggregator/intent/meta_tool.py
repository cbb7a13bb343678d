"""The meta tool `match_intent`: the tools that a chat message asks for, if any."""

from typing import Any, Final

from aggregator.catalog.describe.levels import shown_name
from aggregator.domain.text.tokens import estimate
from aggregator.gateway.meta.tool import MetaTool, MetaToolCall, meta_record
from aggregator.wire.codec import encode

_LIMIT: Final = 10

_RECORD: Final = meta_record(
    "match_intent", "Tools that a message of the user asks for", {"message": {"type": "string"}}, ("message",)
)


async def match_intent(asking: MetaToolCall) -> str:
    """Return compact JSON: `intent`, and if it is `mcp` the rule, the server, the tools and a level 1 text to
    inject.
    """
    found = await asking.finder.match(asking.view, asking.arguments["message"], _LIMIT)
    body: dict[str, Any] = {"intent": found.intent, "tools": [shown_name(tool) for tool in found.tools]}
    if found.intent != "none":
        from aggregator.intent.match.intent import snippet

        text = snippet(found)
        body |= {"rule": found.rule, "server": found.server, "snippet": text, "tokens": estimate(text)}
    return encode(body).decode()


TOOL: Final = MetaTool(_RECORD, match_intent)
