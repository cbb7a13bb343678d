"""A running aggregator in front of one server whose definitions no model API takes whole."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import SecuredHarness
from tests.dialects.test_mend import SCHEMAS, TEXT
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

OPTIONAL: Final[Json] = {
    "type": "object",
    "properties": {"who": TEXT, "how": TEXT, "free": {"type": "object"}},
    "required": ["who"],
}
BIG: Final[Json] = {
    "type": "object",
    "properties": {f"p{number}": {"$ref": "#/$defs/big"} for number in range(90)},
    "$defs": {"big": {"type": "object", "properties": {f"q{number}": TEXT for number in range(90)}}},
}
DEFINITIONS: Final = [
    {"name": "optional", "description": "Has members that may be left out.", "inputSchema": OPTIONAL},
    {"name": "odd", "description": "Has odd names.", "inputSchema": SCHEMAS["odd names"]},
    {"name": "any_top", "description": "Has alternatives.", "inputSchema": SCHEMAS["anyOf at the top"]},
    {"name": "big", "description": "Is too large for some.", "inputSchema": BIG},
    {"name": "plain", "description": "Fits every API.", "inputSchema": {"type": "object", "properties": {"a": TEXT}}},
]
POLICIES: Final = {
    "agents": {
        "one": {"allow": ["*"]},
        "two": {"allow": ["*"], "schemas": "gemini", "names": "compatible"},
        "held": {"allow": ["*"], "arguments": {"shop.plain": {"properties": {"a": {"maxLength": 3}}}}},
    }
}


class MendingHarness(SecuredHarness):
    """The aggregator, and the calls that reached the server."""

    box: RecordingToolbox


OpenMending = Callable[..., MendingHarness]


@pytest.fixture
def open_mending(tmp_path: Path) -> Iterator[OpenMending]:
    with BackgroundLoop() as running:

        def opened(definitions: list[Json] | None = None, coerce: bool = False, **settings: Any) -> MendingHarness:
            box = RecordingToolbox(definitions or DEFINITIONS)
            # Without `coerce`, nothing but the way back of a dialect changes arguments.
            servers = {"shop": box.config_entry(coerce=coerce)}
            made = MendingHarness(running, tmp_path, servers, POLICIES, POLICIES["agents"], **settings)
            made.box = box
            return made

        yield opened
