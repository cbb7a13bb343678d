"""Descriptions of servers as registries have them, and strategies for any."""

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

NPM: Json = {
    "registryType": "npm",
    "registryBaseUrl": "https://registry.npmjs.org",
    "identifier": "@example/weather-mcp",
    "version": "1.2.3",
    "runtimeHint": "npx",
    "transport": {"type": "stdio"},
}


def server(*packages: Json, remotes: list[Json] | None = None, **fields: Any) -> Json:
    """A server.json of the version 2025-12-11."""
    made: Json = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.example/weather",
        "description": "Weather of all places",
        "version": "1.2.3",
        **fields,
    }
    return {**made, **({"packages": list(packages)} if packages else {}), **({"remotes": remotes} if remotes else {})}


def answer(detail: Json, status: str = "active") -> Json:
    """The answer of a registry with the API v0.1."""
    official = {"status": status, "publishedAt": "2026-01-01T00:00:00Z", "isLatest": True}
    return {"server": detail, "_meta": {"io.modelcontextprotocol.registry/official": official}}


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
    max_leaves=20,
)

_TRAPS = st.sampled_from(["$", "{HOME}", "{x}", "${AWS_SECRET}", "${file:/etc/passwd}"])
_WORDS = _TRAPS | _TRAPS | st.sampled_from(["", "a b", "--flag", "; rm -rf ~", "$(id)"]) | st.text(max_size=10)
# Texts that are made to become references when they are put together.
FISHING = st.lists(_WORDS, max_size=4).map("".join)
_INPUT: Any = st.fixed_dictionaries(
    {},
    optional={
        "value": FISHING,
        "default": FISHING,
        "isRequired": st.booleans() | st.text(max_size=3),
        "isSecret": st.booleans(),
        "isRepeated": st.booleans(),
        "format": st.sampled_from(["string", "number", "boolean", "filepath", "x"]),
        "choices": st.lists(FISHING, max_size=3) | st.integers(),
        "description": FISHING,
        "valueHint": FISHING,
        "variables": st.dictionaries(
            st.sampled_from(["x", "HOME", "AWS_SECRET"]),
            st.fixed_dictionaries({}, optional={"default": FISHING, "value": FISHING, "isRequired": st.booleans()})
            | ANY_JSON,
            max_size=3,
        ),
    },
)
_NAMED: Any = st.tuples(_INPUT, st.sampled_from(["KEY", "X-Key", "--port", "-e", "A=B", ""])).map(
    lambda made: {**made[0], "name": made[1]}
)
_ARGUMENTS: Any = st.lists(
    st.tuples(_INPUT | _NAMED, st.sampled_from(["named", "positional", "other"])).map(
        lambda made: {**made[0], "type": made[1]}
    )
    | ANY_JSON,
    max_size=4,
)
_TRANSPORT: Any = st.fixed_dictionaries(
    {"type": st.sampled_from(["stdio", "sse", "streamable-http", "x"])},
    optional={
        "url": st.sampled_from(
            ["https://{x}.example.com/mcp", "http://127.0.0.1:{--port}/", "file:///etc", "https://a"]
        ),
        "headers": st.lists(_NAMED, max_size=3) | ANY_JSON,
        "variables": st.dictionaries(st.sampled_from(["x"]), _INPUT | ANY_JSON, max_size=1),
    },
)
_PACKAGE: Any = st.fixed_dictionaries(
    {
        "registryType": st.sampled_from(["npm", "pypi", "oci", "nuget", "mcpb", "cargo"]),
        "identifier": st.sampled_from(["@a/b", "name", "ghcr.io/a/b:1", "--call=id", "../x", "git+ssh://x", "A.B", ""]),
    },
    optional={
        "version": st.sampled_from(["1.0.0", "latest", "^1", "-x", ""]),
        "runtimeHint": st.sampled_from(["npx", "bash", "docker", "uvx"]),
        "registryBaseUrl": st.sampled_from(["https://npm.example.com", "http://x", "-", "https://pypi.org"]),
        "transport": _TRANSPORT | ANY_JSON,
        "runtimeArguments": _ARGUMENTS | ANY_JSON,
        "packageArguments": _ARGUMENTS | ANY_JSON,
        "environmentVariables": st.lists(_NAMED | ANY_JSON, max_size=4) | ANY_JSON,
    },
)
# Descriptions that are nearly right, and full of traps.
DESCRIPTIONS: Any = st.fixed_dictionaries(
    {"name": FISHING},
    optional={
        "packages": st.lists(_PACKAGE | ANY_JSON, max_size=3) | ANY_JSON,
        "remotes": st.lists(_TRANSPORT | ANY_JSON, max_size=3) | ANY_JSON,
        "description": FISHING | ANY_JSON,
        "_meta": ANY_JSON,
    },
)
