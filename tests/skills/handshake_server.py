"""A server of the handshake eras that declares the extension of skills: `python -m tests.skills.handshake_server`.

The SDK leaves the extension out of `initialize`, so this one is plain JSON lines.
"""

import json
import sys
from typing import Final

from tests.peers.toolbox import Json
from tests.skills.skill_server import EXTENSION, entry_of, skill_md

URI: Final = "skill://old/SKILL.md"
TEXT: Final = skill_md("old", "Of the handshake eras")
ENTRY: Final = entry_of("skill://old", {"SKILL.md": TEXT}, {"name": "old", "description": "Of the handshake eras"})
_ANSWERS: Final[dict[str, Json]] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {}, "extensions": {EXTENSION: {}}},
        "serverInfo": {"name": "old", "version": "1"},
    },
    "tools/list": {"tools": []},
    "resources/list": {"resources": []},
    "skills/list": {"skills": [ENTRY]},
    "skills/get": {"skill": ENTRY},
    "resources/read": {"contents": [{"uri": URI, "text": TEXT}]},
}


def main() -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            known = _ANSWERS.get(message["method"])
            answer = {"result": known} if known is not None else {"error": {"code": -32601, "message": "Not here"}}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
