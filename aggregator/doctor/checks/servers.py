"""The servers: why one cannot be used, by its state, its last words and its entry. This file decides."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aggregator.config.server_config import ServerConfig
from aggregator.doctor.finding import CheckFinding, brief, found
from aggregator.domain.connection_causes import CauseKind, cause_in, without_mend
from aggregator.gateway.views.server_seen import ASKS_IN_CALLS
from aggregator.pins.decide.upgrade import ADDS_TOOLS, SHOW_NEW

# Seconds to start, above which a host may not have the tools in its first list.
_SLOW: Final = 8.0
_MODULE: Final = re.compile(
    r"(?:ModuleNotFoundError: No module named|Error: Cannot find (?:module|package)|ERR_MODULE_NOT_FOUND"
    r"|No module named|could not determine executable|npm (?:ERR!|error) (?:code )?E?404|No solution found"
    r"|ImportError:)"
    r"[ :]*['\"]?([\w@./-]*)"
)
_NODE: Final = re.compile(
    r"(?i)unsupported engine|requires? node(?:\.js)?(?: version)? ?[>v\d]|EBADENGINE"
    r"|SyntaxError: (?:Unexpected|The requested module|Cannot use import)"
    r"|node:internal.*(?:not supported|ERR_UNKNOWN_BUILTIN)"
)
_DOCKER: Final = re.compile(r"(?i)docker daemon|docker desktop is not running|docker\.sock|podman\.sock")
# The codes of findings about connections, by the kind of cause.
_CAUSES: Final[Mapping[CauseKind, str]] = {
    "unreachable": "server_unreachable",
    "certificate": "server_certificate",
    "tls": "server_tls",
    "path": "server_not_there",
    "server": "server_gateway",
}
_STATUS: Final = re.compile(r"HTTP (\d{3})")


def of_asking(asking: Collection[str], servers: Iterable[ServerConfig]) -> Iterator[CheckFinding]:
    """Yield the configured servers that have asked hosts during calls, if hosts may share their connections.

    asking: the ids of all servers that have.
    """
    for server in servers:
        if server.id not in asking:
            continue
        if server.isolation == "auto":
            fix = 'Nothing needs to be done; `"isolation": "per_session"` gives each session of a host its own at once.'
            yield found("server_asks", f"{server.id} {ASKS_IN_CALLS}.", fix, server.id)
        elif server.isolation == "shared":
            said = f"{server.id} asks during calls, and is refused the answer while several hosts share its connection."
            fix = f'Take `"isolation": "shared"` out of the entry of {server.id}.'
            yield found("server_asks", said, fix, server.id, severity="warning")


def of_growing(grows: Collection[str], servers: Iterable[ServerConfig]) -> Iterator[CheckFinding]:
    """Yield the configured servers that have added tools while they were connected, and whose new tools wait.

    grows: the ids of all servers that have.
    """
    for server in servers:
        if server.id in grows and not server.shows_new:
            yield found("server_grows", f"{server.id} {ADDS_TOOLS}.", f"{SHOW_NEW.capitalize()}.", server.id)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server after its trial: `reason` explains why it is not ready, `words` is its stderr tail.

    `place` is the entry in the file. `address` and `same_as` are without secrets: the address without its query, and
    the server that starts the same. `left_out` has a sentence for each unlisted tool, `faults` one for each other fault
    in the server's lists and messages.
    """

    id: str
    type: str
    place: str
    state: str
    enabled: bool = True
    disabled_reason: str | None = None
    reason: str = ""
    words: Sequence[str] = ()
    noise: bool = False
    seconds: float | None = None
    tools: int = 0
    left_out: Sequence[str] = ()
    faults: Sequence[str] = ()
    command: str | None = None
    address: str | None = None
    same_as: str | None = None
    calls: int | None = None


def of_servers(servers: Iterable[ServerFacts]) -> Iterator[CheckFinding]:
    """Yield the findings about every server."""
    for server in servers:
        yield from _of_one(server)


def _of_one(server: ServerFacts) -> Iterator[CheckFinding]:
    if server.same_as is not None and server.enabled:
        yield found(
            "server_twice",
            f"{server.id} is the same server as {server.same_as}, so its tools are listed twice.",
            f"Run `aggregator remove {server.id}`.",
            server.place,
        )
    if not server.enabled:
        if server.disabled_reason is None:
            said = f"{server.id} is switched off in the configuration."
            yield found("server_off", said, f"Run `aggregator enable {server.id}` if you want it.", server.place)
        return
    if server.noise:
        yield found(
            "server_stdout",
            f"{server.id} prints to its stdout what is not MCP.",
            "Have it print to stderr, or use a version that does; an option such as `--quiet` may help.",
            server.place,
        )
    if server.state in ("ready", "stopped"):
        yield from _of_ready(server)
        return
    yield _of_down(server)


def _of_ready(server: ServerFacts) -> Iterator[CheckFinding]:
    if server.left_out:
        said = "; ".join(server.left_out[:3])
        more = f" and {len(server.left_out) - 3} more" if len(server.left_out) > 3 else ""
        yield found(
            "tools_left_out",
            f"{brief(said, 600)}{more}.",
            f"Tell the author of {server.id}; no setting makes up for it.",
            server.place,
        )
    if server.faults:
        said = "; ".join(server.faults[:3])
        more = f" and {len(server.faults) - 3} more" if len(server.faults) > 3 else ""
        yield found(
            "server_faulty",
            f"{brief(said, 600)}{more}.",
            f"Tell the author of {server.id}; what could be used is used.",
            server.place,
        )
    if not server.tools and not server.left_out:
        yield found(
            "server_no_tools",
            f"{server.id} answers, and no tool of it is listed.",
            "Look at `tools.include` and `tools.exclude` of its entry, or remove it if it has only resources or "
            "prompts that you do not need.",
            server.place,
        )
    if server.seconds is not None and server.seconds > _SLOW:
        yield found(
            "server_slow",
            f"{server.id} takes {server.seconds:.0f} s to start; a host may have listed its tools by then.",
            'Install its package once, in place of fetching it at each start; or set "start": "lazy" in its entry.',
            server.place,
        )
    if server.calls == 0:
        said = f"No tool of {server.id} was called in the last 30 days, and its tools cost tokens in every list."
        yield found("server_unused", said, f"Run `aggregator disable {server.id}`.", server.place)


def _of_down(server: ServerFacts) -> CheckFinding:
    """Return why a server is not ready."""
    words = " | ".join(server.words[-3:])
    told = f"{server.reason} {words}"
    status = _STATUS.search(server.reason)
    code = int(status[1]) if status else 0
    at = server.place

    def says(key: str, message: str, fix: str) -> CheckFinding:
        last = f" Its last words: {brief(words)}" if words and words not in message else ""
        return found(key, f"{server.id}: {message.rstrip('.')}.{last}", fix, at)

    if "working folder" in server.reason:
        return says("server_folder_missing", "its working folder does not exist", "Create it, or correct `cwd`.")
    if _DOCKER.search(told):
        return says("server_docker", "the Docker daemon does not answer", "Start Docker, then try again.")
    if "was not found" in server.reason or "may not be run" in server.reason or "interpreter" in server.reason:
        return says("server_command_missing", _reason(server), _install(server))
    if _NODE.search(words):
        return says("server_node_version", "it needs another version of Node.js", "Install a current Node.js (22).")
    if missing := _MODULE.search(words):
        name = f" {missing[1]}" if missing[1] else ""
        mend = "Install it for the program in `command`, or correct the name in `args`."
        return says("server_module_missing", f"a module or package{name} is missing", mend)
    if "login required" in server.reason or "needs an account" in server.reason:
        mend = f"Run `aggregator connect {server.id}`."
        return says("server_login", "it wants an account to be connected first", mend)
    if code in (401, 403) or "refused our credentials" in server.reason:
        mend = "Renew the token: correct `headers`, or the variable that it comes from."
        return says("server_unauthorized", f"it refuses our credentials (HTTP {code or 401})", mend)
    if other := _other_transport(server, code):
        return says("server_other_transport", f"{other[0]} ({_reason(server)})", other[1])
    if cause := cause_in(server.reason):
        told = f"{cause.sentence} ({server.address}{f', HTTP {code}' if code else ''})"
        return says(_CAUSES[cause.kind], told, f"{cause.mend[:1].upper()}{cause.mend[1:]}.")
    if "`tls." in server.reason:
        return says("server_tls", _reason(server), "Correct `tls` in its entry, or the file that it names.")
    if "did not answer within" in server.reason:
        mend = "Run its command in a terminal once: it may wait for an answer, a download or a sign-in; or raise "
        return says("server_hangs", _reason(server), f"{mend}`limits.connect_timeout`.")
    if "cannot be reached" in server.reason:
        return says("server_unreachable", _reason(server), "Start that server, or correct `url`.")
    if "process ended" in server.reason or "is gone" in server.reason:
        return says("server_crashes", _reason(server), "Run its command in a terminal, and mend what it says.")
    return says("server_down", _reason(server) or f"it is {server.state}", "`aggregator check` tells more.")


def _other_transport(server: ServerFacts, status: int) -> tuple[str, str] | None:
    """Return that the address speaks another transport, and the mend."""
    path = (server.address or "").rstrip("/")
    if server.type == "http" and status in (404, 405, 415) and (path.endswith("/sse") or status == 415):
        return "its address speaks SSE, not Streamable HTTP", 'Set "type": "sse" in its entry.'
    if server.type == "sse" and (status in (405, 406) or "not with events" in server.reason):
        return "its address does not speak SSE", 'Set "type": "http" in its entry.'
    return None


def _install(server: ServerFacts) -> str:
    command = (server.command or "").rpartition("/")[2]
    known = {
        "npx": "Install Node.js (https://nodejs.org), or give the full path of npx in `command`.",
        "node": "Install Node.js (https://nodejs.org), or give the full path of node in `command`.",
        "uvx": "Install uv (https://docs.astral.sh/uv), or give the full path of uvx in `command`.",
        "uv": "Install uv (https://docs.astral.sh/uv), or give the full path of uv in `command`.",
        "docker": "Install Docker, or give the full path of docker in `command`.",
    }
    return known.get(command, "Install it, or give its full path in `command`.")


def _reason(server: ServerFacts) -> str:
    reason = without_mend(server.reason).partition("; it last said: ")[0].partition("; next try in ")[0]
    return brief(reason.removeprefix(f"{server.id}: ").removeprefix(f"{server.id} ")).rstrip(".")
