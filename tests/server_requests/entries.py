"""Asking servers as entries of a configuration, and the requests they send."""

import sys
from typing import Any, Final

from tests.end_to_end.server_harness import ROOT
from tests.peers.toolbox import Json

SCHEMA: Final[Json] = {"type": "object", "properties": {"answer": {"type": "string"}}}
FORM: Final[Json] = {
    "method": "elicitation/create", "params": {"message": "Which one?", "requestedSchema": SCHEMA, "x-vendor": [1]},
}  # fmt: skip
PAGE: Final[Json] = {
    "method": "elicitation/create",
    "params": {
        "mode": "url", "message": "Log in.", "url": "https://example.com/in?a=1&b=é%20#x", "elicitationId": "its-own",
    },
}  # fmt: skip
SAMPLE: Final[Json] = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Say it."}}],
        "maxTokens": 10,
        "includeContext": "allServers",
    },
}
ROOTS: Final[Json] = {"method": "roots/list", "params": {}}
KINDS: Final = {"form": FORM, "page": PAGE, "sample": SAMPLE, "roots": ROOTS}
ANSWERS: Final[dict[str, Json]] = {
    "form": {"action": "accept", "content": {"answer": "知识"}, "x-vendor": 1},
    "page": {"action": "accept"},
    "sample": {"role": "assistant", "content": {"type": "text", "text": "it"}, "model": "m", "stopReason": "endTurn"},
    "roots": {"roots": [{"uri": "file:///home/me", "name": "mine"}]},
}
ABLE: Final[Json] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {"listChanged": True}}


def stdio_entry(era: str, *args: str, **fields: Any) -> Json:
    """Return the entry of an asking server as a child process."""
    command = ["-m", "tests.server_requests.asking_server_stdio", era, *args]
    return {"command": sys.executable, "args": command, "cwd": str(ROOT), **fields}
