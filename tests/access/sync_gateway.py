"""A gateway for tests that are no coroutines: in an event loop of its own."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.access.gateway_harness import GatewayHarness, make_config
from tests.peers.toolbox import Json

Ask = Callable[[str, Json], Json]


@contextmanager
def sync_gateway(definitions: list[Json], rules: list[Json], body: Json | None = None) -> Iterator[Ask]:
    """Yield a function that asks a gateway with one server `crm` and one agent; `rules` tighten its arguments.

    Arguments are checked as they are, and not corrected.
    """
    roles = {f"r{at}": {"arguments": {"crm.*": rule}} for at, rule in enumerate(rules)}
    policies = {"roles": roles, "agents": {"one": {"allow": ["crm.*"], **(body or {}), "roles": list(roles)}}}
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:

        async def made() -> GatewayHarness:
            return GatewayHarness(
                make_config(Path(folder), {"crm": {"command": "played", "coerce": False}}),
                {"crm": definitions},
                policies,
            )

        harness = runner.run(made())

        def ask(method: str, params: Json) -> Json:
            result: Json = runner.run(harness.ask(harness.host("one"), method, params)).get("result", {})
            return result

        yield ask
