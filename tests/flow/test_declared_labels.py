"""What results say of themselves: wherever the field writes it, only ever adding, whatever else stands there."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from aggregator.flow.gateway.guard import declared_labels
from tests.peers.toolbox import Json, text

TRUST: Final = "io.modelcontextprotocol/trust-annotations"
ANY: Final = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
NAMES: Final = (
    *("_meta", "annotations", "content", "resource", "openWorldHint", "privateHint", "sensitiveHint", "ifc", TRUST),
    *("returnMetadata", "integrity", "confidentiality", "untrusted", "sensitive", "source"),
)


@pytest.mark.parametrize(
    ("result", "labels"),
    [
        ({"content": [text("plain")]}, set()),
        # SEP-1913, at the result and at a block; what is false, or of another kind, says nothing.
        ({"_meta": {"annotations": {"openWorldHint": True}}}, {"untrusted"}),
        ({"_meta": {"annotations": {"maliciousActivityHint": True}}}, {"untrusted"}),
        ({"_meta": {"annotations": {"privateHint": True, "attribution": ["mcp://hr/x"]}}}, {"private"}),
        ({"_meta": {"annotations": {"sensitiveHint": "high"}}}, {"private"}),
        ({"_meta": {"annotations": {"sensitiveHint": "Medium"}}}, {"private"}),
        ({"_meta": {"annotations": {"sensitiveHint": "low", "privateHint": "yes", "openWorldHint": 1}}}, set()),
        ({"annotations": {"openWorldHint": False, "privateHint": True}}, {"private"}),
        ({"content": [text("a"), {**text("b"), "annotations": {"openWorldHint": True}}]}, {"untrusted"}),
        (
            {"content": [{"type": "resource", "resource": {"_meta": {"annotations": {"privateHint": True}}}}]},
            {"private"},
        ),
        ({"messages": [{"role": "user", "content": {**text("b"), "annotations": {"privateHint": True}}}]}, {"private"}),
        ({"contents": [{"uri": "x", "_meta": {TRUST: {"untrusted": True}}}]}, {"untrusted"}),
        ({"_meta": {"annotations": {"returnMetadata": {"source": "untrustedPublic"}}}}, {"untrusted"}),
        ({"_meta": {"annotations": {"returnMetadata": {"sensitivity": "credentials"}}}}, {"private"}),
        ({"_meta": {"annotations": {"returnMetadata": {"source": "internal", "sensitivity": "none"}}}}, set()),
        # The draft extension, and GitHub's server in both of its forms.
        ({"_meta": {TRUST: {"sensitive": True, "untrusted": True}}}, {"private", "untrusted"}),
        ({"_meta": {TRUST: {"evidenceRef": {"type": "data-class.v1"}}}}, set()),
        ({"_meta": {"ifc": {"integrity": "untrusted", "confidentiality": "public"}}}, {"untrusted"}),
        ({"_meta": {"ifc": {"integrity": "trusted", "confidentiality": ["octocat"]}}}, {"private"}),
        ({"_meta": {"com.github.ifc/labels": {"confidentiality": "private"}}}, {"private"}),
        ({"_meta": {"ifc": {"confidentiality": ["public", "normal"]}}}, set()),
        ({"_meta": {"ifc": {"confidentiality": {"hr": True}}}}, {"private"}),
        # More words than are looked at: what is not known to be public is private.
        ({"_meta": {"ifc": {"confidentiality": ["public"] * 101}}}, {"private"}),
        ({"_meta": {"annotations": {"returnMetadata": {"sensitivity": ["none"] * 101}}}}, {"private"}),
    ],
)
def test_where_servers_say_it(result: Json, labels: set[str]) -> None:
    assert declared_labels(result) == labels


@given(some.dictionaries(some.sampled_from(NAMES), ANY, max_size=5))
def test_anything_may_stand_there(result: dict[str, Any]) -> None:
    """No value of a server makes a failure; and what says more adds to what was said."""
    found = declared_labels({"_meta": result, "content": [result]})
    assert found <= {"untrusted", "private"}
    more = {**result, "annotations": {"openWorldHint": True, "privateHint": True}}
    assert declared_labels({"_meta": more, "content": [result]}) >= found
