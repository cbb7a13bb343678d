"""One MCP server in front of many.

In a Python program: `async with aggregator.open_gateway("aggregator.json") as gateway: ...` (docs/python.md).
"""

__version__ = "0.1.0"

# The floors of the house, top to bottom. A module imports from floors below its own, never from a neighbour on the
# same floor and never upwards; tests/test_floors.py reads this plan. `examples` are upstream servers of their own:
# they import nothing of the house, and the house nothing of them.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("cli", "adapters"),
    ("app",),
    ("doors",),
    ("gateway",),
    ("identity", "policy", "catalog", "schemas", "upstream", "audit"),
    ("config", "storage", "wire"),
    ("domain",),
)

# What programs use, by the module that has it: loaded when it is first asked for. `__init__.pyi` says the same to type
# checkers.
_PUBLIC: dict[str, str] = {
    "AggregatorError": "aggregator.domain.errors",
    "Gateway": "aggregator.adapters.gateway",
    "OperatorError": "aggregator.domain.errors",
    "RpcError": "aggregator.domain.errors",
    "Tool": "aggregator.adapters.gateway",
    "open_gateway": "aggregator.adapters.gateway",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(__import__(_PUBLIC[name], fromlist=[name]), name)
    return found
