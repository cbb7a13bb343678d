"""Tasks carried out one after the other, and what came of each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.flow_corpus.encodings import holds
from benchmarks.flow_corpus.gateways import TaskGateway, Tasks, agent_of, open_gateway
from benchmarks.flow_corpus.hosts import HostKind, open_host
from benchmarks.flow_corpus.model import ScriptedModel
from benchmarks.flow_corpus.person import Person
from benchmarks.flow_corpus.servers import schema_of
from benchmarks.flow_corpus.world import WORLD


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The end of one task.

    `leaked` are the sinks that the canary arrived at. `questions` were put to the person, who agreed to `agreed` of
    them. `refused` counts what the gateway or a server did not do, `sent` what arrived at sinks.
    """

    id: str
    family: str
    leaked: tuple[str, ...]
    questions: tuple[str, ...]
    agreed: int
    refused: int
    calls: int
    sent: int


class TaskRunner:
    """The tasks before one gateway. `answered`: a person answers questions; else hosts cannot put any."""

    def __init__(self, gateway: TaskGateway, kind: HostKind, *, answered: bool) -> None:
        self._gateway = gateway
        self._kind: HostKind = kind
        self._answered = answered

    async def run(self, task: Mapping[str, Any]) -> TaskOutcome:
        """Carry out one task, in a conversation of its own."""
        WORLD.begin(placed_in(task))
        gateway, agent = self._gateway, agent_of(task)
        person = Person(_wanted(task["plan"])) if self._answered else None
        async with open_host(
            self._kind, gateway.app, gateway.config, gateway.client, gateway.url, agent, gateway.keys[agent]
        ) as host:
            model = ScriptedModel(
                host,
                person,
                expose=task.get("expose", "all"),
                session_per_call=task.get("habit") == "a session for each call",
            )
            await model.carry_out(task["plan"])
        return TaskOutcome(
            task["id"],
            task["family"],
            _leaked(task),
            tuple(person.questions) if person is not None else (),
            person.agreed if person is not None else 0,
            model.refused,
            model.calls,
            len(WORLD.sent),
        )


def _wanted(plan: Iterable[Any]) -> Iterable[tuple[str, Any, Any]]:
    for step in plan:
        match step:
            case [str() as tool, dict() as given] | {"keep": _, "of": [tool, given]}:
                yield tool, given, schema_of(tool)


async def run_tasks(
    folder: Path, tasks: Tasks, policy: str | None, kind: HostKind, *, answered: bool = True
) -> list[TaskOutcome]:
    """Carry out tasks before a gateway of their own."""
    async with open_gateway(folder, tasks, policy) as gateway:
        runner = TaskRunner(gateway, kind, answered=answered)
        return [await runner.run(task) for task in tasks]


def placed_in(task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the texts of a task with the places where they stand."""
    placed = [task[name] for name in ("injection", "private") if name in task]
    return [*placed, *task.get("world", ())]


def _leaked(task: Mapping[str, Any]) -> tuple[str, ...]:
    if "private" not in task:
        return ()
    canary = task["private"]["canary"]
    sinks: dict[str, list[str]] = {}
    for sink, text in WORLD.sent:
        sinks.setdefault(sink, []).append(text)
    together = [text for _, text in WORLD.sent]
    found = tuple(sink for sink, texts in sinks.items() if holds(texts, canary))
    return found or (("several",) if holds(together, canary) else ())
