"""Servers, hosts and agents that write into every text what might become more than text on a page."""

import sys
from typing import Final

from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.peers.toolbox import Json, text_result

MARKUP: Final = (
    "</textarea></title></style></script><script>window.hacked = 1</script>\"><img src=x onerror='window.hacked=1'>"
    "'><svg/onload=window.hacked=1><a href=javascript:window.hacked=1>x</a><!-- <form action=//evil.example>"
    " hx-get=/console/sign-out hx-trigger=load {{ 7 * 7 }} {% include 'base.html' %} ${7*7} &lt;b&gt;"
)
# A terminal's title and colours, a turned direction, what cannot be seen, NUL, many marks upon a letter.
UNSEEN: Final = (
    "\x1b]0;pwned\x07\x1b[2J\x1b[31m\u202egnp.exe\u2066 a\u200bb\U000e0041\ufeff\x00\x85\u2028 Z" + "\u0335" * 60
)
TEXT: Final = f"{MARKUP} {UNSEEN}"
LONG: Final = f"{TEXT} " * (10 * 2**20 // len(TEXT.encode()))
# Looks like "admin"; the first letter is Cyrillic.
LOOK_ALIKE: Final = "\u0430dmin"
STDERR: Final = (
    f"import sys; text = {TEXT!a}; sys.stderr.reconfigure(errors='replace'); sys.stderr.write(text * 400 + chr(10));"
    " sys.stderr.write(text); sys.exit(3)"
).replace("$", "${$}")

EVIL: Final = [
    tool("tell", {MARKUP: {"type": "string", "description": TEXT, "default": TEXT, "enum": [MARKUP, "x"]}},
         title=TEXT, description=TEXT, annotations={"title": TEXT}),
    tool("<script>window.hacked=1</script>", description=TEXT),
    tool("\"onload=x'", description=TEXT),
    tool("fail", {"text": {"type": "string"}}, description=LONG[: 2**19]),
    tool("big", description="Answers with much."),
    tool("pay", {"amount": {"type": "integer", "description": TEXT}}, description=TEXT),
]  # fmt: skip
POLICIES: Final = {
    "agents": {
        "clerk": {
            "allow": ["*"],
            "deny": ["evil.x*"],
            "confirm": ["evil.pay"],
            "confirm_by": "queue",
            "confirm_wait": 0,
        },
        "reader": {"allow": ["shop.get"]},
    }
}


def servers() -> dict[str, Json]:
    """Return the entries of a server that writes such texts everywhere, and of one that dies with such last words."""
    answers = {
        "tell": {**text_result(TEXT), "structuredContent": {MARKUP: TEXT}, "_meta": {MARKUP: TEXT}},
        "fail": {**text_result(TEXT), "isError": True},
        "big": text_result(LONG),
    }
    written = TEXT.replace("$", "${$}")
    dying = {"command": sys.executable, "args": ["-I", "-S", "-c", STDERR], "description": written}
    return {"evil": RecordingToolbox(EVIL, answers).config_entry(description=written), "dead": dying}


def calls() -> list[tuple[str, Json]]:
    """Return calls whose names and arguments are such texts; one waits for a person."""
    return [
        ("evil.tell", {MARKUP: TEXT, "nested": [{TEXT: [TEXT, {MARKUP: None}]}]}),
        ("evil.fail", {"text": TEXT}),
        ("evil.fail", {"text": 5, MARKUP: TEXT}),
        ("evil.big", {"key": LONG[: 2**18]}),
        ("evil.pay", {"amount": 5, MARKUP: TEXT, "to": LONG[:5000], LOOK_ALIKE: LOOK_ALIKE}),
        (f"evil.x{MARKUP}", {}),
        (TEXT, {}),
        ("dead.anything", {"text": TEXT}),
        ("search_tools", {"query": TEXT}),
        ("call_tool", {"name": "evil.tell", MARKUP: TEXT}),
    ]
