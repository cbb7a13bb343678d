"""One MCP server in front of many."""

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
