"""A client of `/v1` that checks every exchange against the OpenAPI document of the frontend."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import jsonschema

from tests.access.secured_harness import SecuredHarness
from tests.peers.toolbox import Json

_JSON: Final = "application/json"


@dataclass(frozen=True)
class ApiResponse:
    """A response of `/v1`; `body` is JSON."""

    status: int
    body: Any
    headers: Mapping[str, str]


class Api:
    """Requests of one agent. `document` is None for those who may not read it, and nothing is compared then."""

    def __init__(self, client: httpx2.AsyncClient, document: Json | None) -> None:
        self._client = client
        self.document = document

    async def get(self, path: str, **parameters: Any) -> ApiResponse:
        return self._held(path, "get", await self._client.get(f"/v1/{path}", params=parameters))

    async def post(self, path: str, body: Any, **headers: str) -> ApiResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._held(path, "post", await self._client.post(f"/v1/{path}", json=body, headers=named), body)

    async def call(self, name: str, arguments: Json | None = None, **more: Any) -> ApiResponse:
        """One call in the shortest form."""
        return await self.post("tool_calls", {"tool_call": {"name": name, "arguments": arguments or {}}, **more})

    async def calls(self, *named: tuple[str, Json], **more: Any) -> ApiResponse:
        """Several, as OpenAI writes them, with ids `c0`, `c1` and so on."""
        written = [
            {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for at, (name, arguments) in enumerate(named)
        ]
        return await self.post("tool_calls", {"tool_calls": written, **more})

    async def raw(self, path: str, method: str = "post", **more: Any) -> ApiResponse:
        """A request that is not as it should be."""
        return self._held(path, method, await self._client.request(method.upper(), f"/v1/{path}", **more))

    def _held(self, path: str, method: str, response: httpx2.Response, sent: Any = None) -> ApiResponse:
        answer = ApiResponse(response.status_code, response.json(), response.headers)
        if self.document is not None and method in self.document["paths"][f"/v1/{path}"]:
            operation = self.document["paths"][f"/v1/{path}"][method]
            self._valid(operation["responses"][str(answer.status)], answer.body)
            if sent is not None and answer.status == 200:
                self._valid(operation["requestBody"], sent)
        return answer

    def _valid(self, part: Json, body: Any) -> None:
        schema = {**part["content"][_JSON]["schema"], "components": (self.document or {})["components"]}
        jsonschema.Draft202012Validator(schema).validate(body)


@asynccontextmanager
async def api_client(harness: SecuredHarness, agent: str | None) -> AsyncIterator[Api]:
    """Open a client of `/v1` as one of the agents, or without a key."""
    async with harness.client(agent) as client:
        document = None if agent is None else (await client.get("/v1/openapi.json")).json()
        yield Api(client, document)
