"""The trials: one question each, answered by the real program."""

import contextlib
import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aggregator.domain.text.tokens import estimate
from tests.real_hosts.hosts import RealHost
from tests.real_hosts.scripted_model import ScriptedModel, Step
from tests.real_hosts.stranger import Ended, Failed, Stranger, must, run

_HOST_BOUND: Final = 120.0
_READY_BOUND: Final = 30.0
_PAUSE: Final = 0.05
_ROOT: Final = Path(__file__).resolve().parents[2]
# In every answer of this tool of the example server.
_TOOL: Final = "search_cases"
_QUESTION: Final[Mapping[str, Any]] = {"query": "合同", "limit": 1}
_ANSWERED: Final = "SAMPLE-"
_CONFIRM: Final = "agents:\n  local:\n    allow: ['*']\n    confirm: [legal.*]\n"


@dataclass(slots=True)
class Outcome:
    """The finding of a trial: whether it went well, our tools as the model was shown them, tokens, remarks.

    `tokens` are those of the definitions of our tools in the last request. `seconds` are from the start of the host to
    the request that carries the tool's result. `results` is what the model was told of its calls.
    """

    trial: str
    host: str
    good: bool
    names: Sequence[str] = ()
    tokens: int = 0
    seconds: float = 0.0
    remarks: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """One host in one home that nothing else uses."""

    host: RealHost
    installed: Path
    stranger: Stranger

    @property
    def config(self) -> Path:
        """Our configuration in this home."""
        return self.stranger.home / ".config" / "aggregator" / "aggregator.json"

    @property
    def server(self) -> dict[str, Any]:
        """The entry of the example server, whose files are those of this tree."""
        python = self.stranger.venv / "bin" / "python"
        return {"command": str(python), "args": ["-m", "examples.legal"], "cwd": str(_ROOT)}

    def configure(self, policy: str | None = None, **settings: Any) -> None:
        """Write our configuration and, where there is one, a policy file."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        whole = {"mcpServers": {"legal": self.server}, **settings}
        self.config.write_text(json.dumps(whole), encoding="utf-8")
        if policy is not None:
            folder = self.config.parent / "policies"
            folder.mkdir()
            (folder / "trial.yaml").write_text(policy, encoding="utf-8")

    def install(self, *options: str) -> Ended:
        """Write our entry into the host's own file, with our command."""
        return self.stranger.ours("install", self.host.id, "--write", *options)

    def start(self, model: ScriptedModel) -> tuple[Ended, float]:
        """Run the host until its model is done; return when it began, too."""
        began = time.monotonic()
        environ = self.stranger.environ(**self.host.environ(model.url))
        ended = run(self.host.command(self.installed), self.stranger.work, environ, _HOST_BOUND)
        return must(ended, self.host.id), began


Trial = Callable[[Place], Outcome]


def _run_steps(
    trial: str, place: Place, steps: Sequence[Step], prepare: Callable[[], object]
) -> tuple[Outcome, list[str]]:
    """Prepare, start the host with this script, and return the outcome and the results of the calls."""
    with ScriptedModel(steps) as model:
        place.host.prepare(place.stranger.home, model.url)
        prepare()
        _, began = place.start(model)
    if not model.requests:
        raise Failed(f"{place.host.id} never asked its model")
    last = model.requests[-1].view
    after = next((request.at for request in model.requests if request.view.results), model.requests[-1].at)
    ours = {name: text for name, text in last.definitions.items() if "aggregator" in name}
    later = sorted(set(re.findall(r"\bmcp__aggregator__[\w.-]+", last.text)) - ours.keys())
    outcome = Outcome(trial, place.host.id, True, [*ours, *later], sum(map(estimate, ours.values())), after - began)
    if later:
        outcome.remarks.append(f"{len(later)} of them by name only, until the model searches for them")
    outcome.remarks += model.faults
    outcome.good = not model.faults and len(last.results) == len(steps)
    outcome.results = [" ".join(result.split())[:400] for result in last.results]
    return outcome, list(last.results)


def init(place: Place) -> Outcome:
    """Begin with an empty home and a host with one server: import and install by one command, then a call."""
    return _from_nothing("init", place, ("init", "--yes", "--agent", "none", "--install", place.host.id))


def take_over(place: Place) -> Outcome:
    """Begin in the same way, and move the host's server to the aggregator."""
    return _from_nothing("take-over", place, ("install", place.host.id, "--yes", "--take-over"))


def _from_nothing(trial: str, place: Place, command: Sequence[str]) -> Outcome:
    def prepare() -> None:
        place.host.add_server(place.stranger.home, "legal", place.server)
        seconds.append(place.stranger.ours(*command).seconds)

    seconds: list[float] = []
    outcome, results = _run_steps(trial, place, [Step(_TOOL, _QUESTION)], prepare)
    outcome.good &= _ANSWERED in "".join(results)
    outcome.remarks.append(f"aggregator {' '.join(command)}: {seconds[0]:.1f} s")
    return outcome


def dots(place: Place) -> Outcome:
    """Connect over Streamable HTTP, where names have dots."""
    with _serving(place):
        outcome, results = _run_steps("dots", place, [Step(_TOOL, _QUESTION)], lambda: place.install("--http"))
    outcome.good &= _ANSWERED in "".join(results)
    return outcome


def search(place: Place) -> Outcome:
    """Expose by search: the model finds a tool, and calls it by the meta tool."""

    def prepare() -> None:
        place.configure(expose="search")
        place.install()

    steps = [
        Step("search_tools", {"query": "案例"}),
        Step("call_tool", {"name": f"legal.{_TOOL}", "arguments": dict(_QUESTION)}),
    ]
    outcome, results = _run_steps("search", place, steps, prepare)
    outcome.good &= _ANSWERED in results[-1] if results else False
    return outcome


def change(place: Place) -> Outcome:
    """Add a server while the host runs, and see whether the model is shown its tools before its turn ends."""
    with _serving(place) as url:

        def add() -> None:
            both = {"mcpServers": {"legal": place.server, "second": place.server}}
            place.config.write_text(json.dumps(both | {"http": {"port": _port(url)}}), encoding="utf-8")
            _until(lambda: b"second." in _got(f"{url}/v1/tools?format=mcp"), "the new server is listed")

        calls = [Step(_TOOL, _QUESTION, add), *[Step(_TOOL, _QUESTION)] * 2]
        outcome, _ = _run_steps("change", place, calls, lambda: place.install("--http"))
    seen = any("second" in name for name in outcome.names)
    outcome.remarks.append(f"the new tools were {'shown' if seen else 'NOT shown'} in the same turn")
    return outcome


def confirm(place: Place) -> Outcome:
    """Call a tool that a person agrees to first, at a host without a person."""

    def prepare() -> None:
        place.configure(_CONFIRM)
        place.install()

    outcome, results = _run_steps("confirm", place, [Step(_TOOL, _QUESTION)], prepare)
    outcome.good = bool(results) and _ANSWERED not in "".join(results)
    outcome.remarks += [f"the model was told: {result}" for result in outcome.results]
    return outcome


def queue(place: Place) -> Outcome:
    """Put that question into the queue: a person approves with our command, and the same call goes through."""

    def prepare() -> None:
        place.configure(_CONFIRM + "    confirm_by: queue\n    confirm_wait: '0'\n")
        place.install()

    def approve() -> None:
        waiting = json.loads(place.stranger.ours("approvals", "list", "--json").out)
        place.stranger.ours("approvals", "approve", str(waiting[0]["id"]))

    steps = [Step(_TOOL, _QUESTION), Step(_TOOL, _QUESTION, approve)]
    outcome, results = _run_steps("queue", place, steps, prepare)
    outcome.good &= len(results) == 2 and _ANSWERED not in results[0] and _ANSWERED in results[1]
    return outcome


TRIALS: Final[Mapping[str, Trial]] = {
    "init": init,
    "take-over": take_over,
    "dots": dots,
    "search": search,
    "change": change,
    "confirm": confirm,
    "queue": queue,
}


@contextlib.contextmanager
def _serving(place: Place) -> Iterator[str]:
    """Serve the example on a free port, and yield the address."""
    place.configure(http={"port": 0})
    environ = place.stranger.environ()
    log = place.stranger.folder / "serve.log"
    with log.open("wb") as stream:
        served = subprocess.Popen(
            [place.stranger.aggregator, "serve"],
            cwd=place.stranger.work,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    try:
        _until(lambda: _address(log) is not None, "aggregator serve listens")
        url = _address(log)
        assert url is not None
        place.configure(http={"port": _port(url)})
        yield url
    finally:
        served.terminate()
        served.wait(_READY_BOUND)


def _address(log: Path) -> str | None:
    found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text(encoding="utf-8"))
    return None if found is None else found[0]


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


def _got(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - an address of ours, on loopback
            return bytes(answer.read())
    except (urllib.error.URLError, OSError):
        return b""


def _until(condition: Callable[[], bool], what: str) -> None:
    """Return once the condition holds.

    Raises:
        Failed: it did not in time.
    """
    end = time.monotonic() + _READY_BOUND
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"in vain: {what}")
        time.sleep(_PAUSE)
