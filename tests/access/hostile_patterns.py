"""Call tools whose schemas hold hostile patterns with text made for them, and print when every call is answered.

`python -m tests.access.hostile_patterns`: a separate process, since a stalled regular expression can only be killed.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from tests.access.gateway_harness import GatewayHarness, make_config, tool
from tests.peers.toolbox import Json

PATTERNS: Final = [
    "(a+)+$", "(a|a)*$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*a){25}", "((a{1,50}){1,50}){1,50}$",
    "(x+x+)+y", r"^(\w+\s?)*$", "(?=a*)*b", r"(a*)*\1b", "[", "(?<!a)b", r"\p{L}+$", "a{100000}",
    "(?:" * 300 + ")" * 300,
]  # fmt: skip
TEXTS: Final = ("a" * 50_000 + "!", "ab" * 50_000, "a " * 50_000 + "!", "x" * 100_000)


def hostile() -> list[Json]:
    """Tools with these patterns in the schemas of both directions, and for the names of arguments."""
    tools = []
    for at, pattern in enumerate(PATTERNS):
        properties = {"x": {"type": "string", "pattern": pattern}}
        tools.append(tool(f"t{at}", properties, outputSchema={"type": "object", "properties": properties}))
    named = {"type": "object", "patternProperties": {"(a+)+$": {}}, "propertyNames": {"pattern": "(a|a)*$"}}
    return [*tools, {"name": "named", "inputSchema": named}]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = make_config(Path(folder), {"crm": {"command": "x", "output_validation": "enforce"}})
    rule = {"properties": {"x": {"maxLength": 10**6, "pattern": "^(a|b|x|!| )*$"}}}
    policies = {"agents": {"one": {"allow": ["*"], "arguments": {"crm.*": rule}}}}

    async def echo(params: Json) -> Json:
        return {"content": [], "structuredContent": params["arguments"]}

    async with GatewayHarness(config, {"crm": hostile()}, policies) as harness:
        harness.fake_upstreams["crm"].answer = echo
        for text in TEXTS:
            for one in hostile():
                answer = await harness.call(harness.host("one"), f"crm.{one['name']}", {"x": text, text: 1})
                assert "result" in answer, answer
    print(f"{len(TEXTS) * (len(PATTERNS) + 1)} calls answered, {len(harness.sent)} sent")


if __name__ == "__main__":
    asyncio.run(main())
