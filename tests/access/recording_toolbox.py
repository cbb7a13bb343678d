"""SDK servers in the process of the test, each around a toolbox that records the calls that reached it."""

import itertools
from collections.abc import Mapping
from typing import Any, Final

from mcp.server import Server

from tests.peers.sdk import build
from tests.peers.toolbox import Json, Progress, Toolbox, text_result

_numbers: Final = itertools.count(1)
_servers: Final[dict[str, Server[Any]]] = {}


def __getattr__(name: str) -> Server[Any]:
    """Return the server that the `target` of a `local` upstream names."""
    try:
        return _servers[name]
    except KeyError:
        raise AttributeError(name) from None


class RecordingToolbox(Toolbox):
    """A toolbox with its own answers by tool, else those of `Toolbox`. `calls` is every call that reached it."""

    def __init__(self, definitions: list[Json], answers: Mapping[str, Json] | None = None) -> None:
        super().__init__(definitions)
        self.calls: list[Json] = []
        self._answers = dict(answers or {})

    async def call(self, params: Mapping[str, Any], progress: Progress) -> Json:
        self.calls.append(dict(params))
        if params["name"] in self._answers:
            return self._answers[params["name"]]
        if params["name"] in ("hold", "release", "witness"):
            return await super().call(params, progress)
        return text_result(f"did {params['name']}")

    def config_entry(self, **fields: Any) -> Json:
        """Return an entry of `mcpServers` for this toolbox."""
        name = f"box_{next(_numbers)}"
        _servers[name] = build(self)
        return {"target": f"{__name__}:{name}", "protocol": "legacy", **fields}
