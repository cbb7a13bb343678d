"""The servers: why one cannot be used, by its state, its last words and its entry. This file decides."""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aggregator.config.server_config import ServerConfig
from aggregator.doctor.checks.tool_settings import UnlistedTool, of_unlisted_tools
from aggregator.doctor.finding import CheckFinding, brief, found
from aggregator.domain.connection_causes import CauseKind, cause_in, without_mend
from aggregator.domain.program_causes import ProgramCauseKind, program_cause
from aggregator.domain.reasons import LAST_WORDS
from aggregator.gateway.views.server_seen import ASKS_IN_CALLS
from aggregator.pins.decide.upgrade import ADDS_TOOLS, SHOW_NEW
from aggregator.upstream.faults import is_mend

# Seconds to start, above which a host may not have the tools in its first list.
_SLOW: Final = 8.0
# The codes of findings about programs that ended, by the kind of cause.
_ENDED: Final[Mapping[ProgramCauseKind, str]] = {
    "module": "server_module_missing",
    "node": "server_node_version",
    "docker": "server_docker",
    "environment": "server_environment",
    "machine": "server_environment",
}
# The codes of findings about connections, by the kind of cause.
_CAUSES: Final[Mapping[CauseKind, str]] = {
    "unreachable": "server_unreachable",
    "certificate": "server_certificate",
    "tls": "server_tls",
    "path": "server_not_there",
    "server": "server_gateway",
}
_STATUS: Final = re.compile(r"HTTP (\d{3})")
# Programs that fetch a server from a registry before they start it.
_FETCHING: Final = frozenset({"npx", "npm", "pnpm", "bunx", "uvx", "uv"})
_UNDER_WAY: Final = frozenset({"starting", "reconnecting"})
# The ends of programs on Windows, which the same program does not have elsewhere.
_OF_WINDOWS: Final = re.compile(r"\.(?:cmd|exe|bat|ps1)$")


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
    the server that starts the same. `elsewhere` is the full path of a missing program, in a folder that is not on the
    PATH; `proxy_variable` the variable of a proxy that the entry could use. `left_out` has a sentence for each unlisted
    tool, `faults` one for each other fault in the server's lists and messages. `unlisted` has the tools that its
    settings name and it does not list.
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
    unlisted: Sequence[UnlistedTool] = ()
    command: str | None = None
    address: str | None = None
    same_as: str | None = None
    elsewhere: str | None = None
    proxy_variable: str | None = None
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
            severity="note" if all(map(is_mend, server.faults)) else None,
        )
    yield from of_unlisted_tools(server.id, server.place, server.unlisted)
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
    words = " | ".join(list(dict.fromkeys(server.words))[-3:])
    # Without the words of the server, which may hold any of the parts that are looked for.
    reason = server.reason.partition(LAST_WORDS)[0]
    status = _STATUS.search(reason)
    code = int(status[1]) if status else 0
    at = server.place

    def says(key: str, message: str, fix: str) -> CheckFinding:
        last = f" Its last words: {brief(words)}" if words and words not in message else ""
        return found(key, f"{server.id}: {message.rstrip('.')}.{last}", fix, at)

    if "working folder" in reason:
        return says("server_folder_missing", "its working folder does not exist", "Create it, or correct `cwd`.")
    if "the interpreter" in reason:
        mend = "Correct that line, or reinstall the program: a virtual environment that was moved keeps the old path."
        return says("server_command_missing", _reason(server), mend)
    if "was not found" in reason:
        return says("server_command_missing", _reason(server), _install(server))
    if "may not be run" in reason:
        mend = "Give the file the right to be run (`chmod +x`), on a disk that is not mounted with `noexec`."
        return says("server_command_missing", _reason(server), mend)
    if "is not a program" in reason:
        mend = "Install it for this system and processor, or name the program that runs such a file in `command`."
        return says("server_command_missing", _reason(server), mend)
    if "login required" in reason or "needs an account" in reason:
        mend = f"Run `aggregator connect {server.id}`."
        return says("server_login", "it wants an account to be connected first", mend)
    if code in (401, 403) or "refused our credentials" in reason:
        mend = "Renew the token: correct `headers`, or the variable that it comes from."
        return says("server_unauthorized", f"it refuses our credentials (HTTP {code or 401})", mend)
    if other := _other_transport(server, code):
        return says("server_other_transport", f"{other[0]} ({_reason(server)})", other[1])
    if cause := cause_in(reason):
        told = f"{cause.sentence} ({server.address}{f', HTTP {code}' if code else ''})"
        mend = f"{cause.mend[:1].upper()}{cause.mend[1:]}."
        if cause.kind == "unreachable" and server.proxy_variable is not None:
            mend = (
                f"{mend[:-1]}; or, if the way there leads through the proxy of {server.proxy_variable}, which servers "
                f'do not use by themselves, write "proxy": "${{{server.proxy_variable}}}" into its entry.'
            )
        return says(_CAUSES[cause.kind], told, mend)
    if "`tls." in reason:
        return says("server_tls", _reason(server), "Correct `tls` in its entry, or the file that it names.")
    if ended := program_cause((reason, *server.words)):
        return says(_ENDED[ended.kind], ended.sentence, ended.mend)
    if "did not answer within" in reason:
        mend = "Run its command in a terminal once: it may wait for an answer, a download or a sign-in; or raise "
        return says("server_hangs", _reason(server), f"{mend}`limits.connect_timeout`.{_of_download(server)}")
    if not reason and server.state in _UNDER_WAY:
        mend = "Try again with a longer `--timeout`; run its command in a terminal once, as it may wait for a download."
        said = "it was still starting when the time of this check was over"
        return says("server_hangs", said, f"{mend}{_of_download(server)}")
    if "cannot be reached" in reason:
        return says("server_unreachable", _reason(server), "Start that server, or correct `url`.")
    if "signal 9" in reason:
        mend = "Look for the words `Out of memory` in `dmesg`; close other programs, or raise its `limits.memory`."
        return says("server_crashes", f"{_reason(server)}: it was killed, mostly for want of memory", mend)
    if "process ended" in reason or "is gone" in reason:
        return says("server_crashes", _reason(server), "Run its command in a terminal, and mend what it says.")
    if "'ascii' codec" in reason or "codec can't encode" in reason:
        mend = "Set LANG=C.UTF-8 where the aggregator is started."
        return says("server_environment", "a name in its entry cannot be written in the language of this shell", mend)
    return says("server_down", _reason(server) or f"it is {server.state}", "`aggregator check` tells more.")


def _other_transport(server: ServerFacts, status: int) -> tuple[str, str] | None:
    """Return that the address speaks another transport, and the mend."""
    path = (server.address or "").rstrip("/")
    if server.type == "http" and status in (404, 405, 415) and (path.endswith("/sse") or status == 415):
        return "its address speaks SSE, not Streamable HTTP", 'Set "type": "sse" in its entry.'
    if server.type == "sse" and (status in (405, 406) or "not with events" in server.reason):
        return "its address does not speak SSE", 'Set "type": "http" in its entry.'
    return None


def _of_download(server: ServerFacts) -> str:
    """Return the mend for a program that fetches the server first, and is silent while its registry does not answer."""
    program = re.split(r"[/\\]", server.command or "")[-1].removesuffix(".exe").removesuffix(".cmd")
    if program not in _FETCHING:
        return ""
    variable = "UV_DEFAULT_INDEX" if program in ("uv", "uvx") else "NPM_CONFIG_REGISTRY"
    return (
        f" {program} is silent while its registry does not answer: look at the network, the proxy (HTTPS_PROXY) and "
        f"the address of the registry ({variable})."
    )


def _install(server: ServerFacts) -> str:
    if server.elsewhere is not None:
        return (
            f'Write its full path: "command": "{server.elsewhere}"; its folder is not on the PATH of this shell. '
            "`aggregator stdio` finds it there by itself."
        )
    command = (server.command or "").replace("\\", "/").rpartition("/")[2]
    plain = _OF_WINDOWS.sub("", command.lower())
    if sys.platform != "win32" and (command.lower() != plain or plain == "cmd" or "\\" in (server.command or "")):
        other = "the program after `/c` in `args`" if plain == "cmd" else f'"command": "{plain}"'
        return f"This entry is for Windows: write {other} in place of `{command}`."
    known = {
        "npx": "Install Node.js (https://nodejs.org), or give the full path of npx in `command`.",
        "node": "Install Node.js (https://nodejs.org), or give the full path of node in `command`.",
        "uvx": "Install uv (https://docs.astral.sh/uv), or give the full path of uvx in `command`.",
        "uv": "Install uv (https://docs.astral.sh/uv), or give the full path of uv in `command`.",
        "docker": "Install Docker, or give the full path of docker in `command`.",
    }
    return known.get(plain, "Install it, or give its full path in `command`.")


def _reason(server: ServerFacts) -> str:
    reason = without_mend(server.reason).partition("; it last said: ")[0].partition("; next try in ")[0]
    return brief(reason.removeprefix(f"{server.id}: ").removeprefix(f"{server.id} ")).rstrip(".")
