"""A desk whose upstream has hostile patterns in every schema, called with text made for them; prints when it is done.

`python -m tests.access.stall`: a program of its own, because what stalls in a regular expression can only be killed.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from tests.access.desk import Desk, configured, tool
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
        config = configured(Path(folder), {"crm": {"command": "x", "output_validation": "enforce"}})
    rule = {"properties": {"x": {"maxLength": 10**6, "pattern": "^(a|b|x|!| )*$"}}}
    desk = Desk(config, {"crm": hostile()}, {"agents": {"one": {"allow": ["*"], "arguments": {"crm.*": rule}}}})

    async def echo(params: Json) -> Json:
        return {"content": [], "structuredContent": params["arguments"]}

    desk.played["crm"].answer = echo
    for text in TEXTS:
        for one in hostile():
            answer = await desk.call(desk.host("one"), f"crm.{one['name']}", {"x": text, text: 1})
            assert "result" in answer, answer
    print(f"{len(TEXTS) * (len(PATTERNS) + 1)} calls answered, {len(desk.sent)} sent")


if __name__ == "__main__":
    asyncio.run(main())
