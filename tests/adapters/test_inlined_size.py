"""How much a schema becomes when its references are put in place."""

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.utils.json_schema import dereference_refs

from aggregator.adapters.langchain import grows_beyond
from tests.laws import examples
from tests.peers.toolbox import Json

LIMIT: Final = 1_000


def doubling(depth: int) -> Json:
    """Definitions that each name the next one twice."""
    parts = {f"d{n}": {"items": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**parts, f"d{depth}": {"type": "string"}}}


def clique(size: int) -> Json:
    """Definitions that each name all."""
    parts = {f"d{n}": {"items": [{"$ref": f"#/$defs/d{m}"} for m in range(size)]} for n in range(size)}
    return {"$ref": "#/$defs/d0", "$defs": parts}


@pytest.mark.parametrize(
    ("schema", "beyond"),
    [
        ({"type": "object", "properties": {str(n): {} for n in range(LIMIT - 10)}}, False),
        ({"type": "object", "properties": {str(n): {} for n in range(LIMIT)}}, True),
        (doubling(3), False),
        (doubling(60), True),
        (clique(3), False),
        (clique(12), True),
        ({"properties": {"again": {"$ref": "#"}}}, False),
        ({"properties": {str(n): {"$ref": "#"} for n in range(50)}}, True),
        ({"properties": {"gone": {"$ref": "#/nowhere"}, "odd": {"$ref": 3}, "$ref": {}}}, False),
    ],
)
def test_what_grows(schema: Json, beyond: bool) -> None:
    """A bound on the work, not on the text: a small schema may be endless work to read."""
    assert grows_beyond(schema, LIMIT) is beyond


def values(value: Any) -> int:
    """Return the number of values in a value, itself included."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(values, parts))


NAMES: Final = ["a", "b", "c"]
PART: Final = st.recursive(
    st.sampled_from([{"$ref": f"#/$defs/{name}"} for name in NAMES] + [{"type": "string"}]),
    lambda deeper: st.fixed_dictionaries({"items": st.lists(deeper, max_size=3)}),
    max_leaves=6,
)


@given(st.fixed_dictionaries({"properties": PART, "$defs": st.fixed_dictionaries({name: PART for name in NAMES})}))
@settings(max_examples=examples(200))
def test_no_less_than_langchain_makes_of_it(schema: Json) -> None:
    """What LangChain writes out is never more than what was counted."""
    limit = values(dereference_refs(schema, skip_keys=[])) - 1
    assert grows_beyond(schema, limit)
