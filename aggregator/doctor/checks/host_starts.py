"""Servers that start in this shell, but not when a host starts the aggregator. This file decides."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aggregator.doctor.finding import CheckFinding, brief, found
from aggregator.domain.program_causes import program_cause
from aggregator.upstream.process.environment import CERTIFICATES, NO_PROXIES, PROXIES, of_packages

_NAMED: Final = 5
# In the reason of a server that took too long, and has no other fault (`aggregator.upstream.lifecycle.failures`).
_TOO_LONG: Final = "did not answer within"
_WORDS: Final = 3
# What a server can want of a host, by the words that it uses for it; and the words around them.
_WANTED: Final = ("sampling", "elicitation", "roots")
_OF_HOSTS: Final = ("capabilit", "support", "client", "host")
# What a program says that looks for another one in vain.
_NOT_FOUND: Final = ("no such file or directory", "command not found", ": not found", "enoent", "is not recognized")


@dataclass(frozen=True, slots=True)
class LostServer:
    """A server that did not come up: `reason` and `words` (its last lines on stderr) are without secrets.

    `lacking` are the variables of the shell that it would see, and that the host does not have or has otherwise;
    `place` is its entry in the configuration. `reason` is empty if nothing was heard of it.
    """

    id: str
    place: str
    reason: str
    words: Sequence[str]
    lacking: Sequence[str]


def of_host_start(
    title: str,
    install: str,
    seconds: float,
    lost: Sequence[LostServer],
    shell_seconds: Mapping[str, float],
    declares: Collection[str] | None = None,
) -> Iterator[CheckFinding]:
    """Yield each server that fails when a host starts it, with the variables that differ.

    `install` is the command that writes our entry into the file of the host, `seconds` the waiting time,
    `shell_seconds` the time of each server in this shell; `declares` is what the host can be asked for, if it is known.
    """
    for server in lost:
        why = _why(server, seconds, shell_seconds.get(server.id))
        wanted = _wanted(server)
        if wanted:
            yield found(
                "server_wants_capability",
                f"{server.id} comes up only for a host that offers {' and '.join(wanted)}, which this check offers in "
                f"no session of its own: {why}.",
                _fix_of_wanted(title, wanted, declares),
                server.place,
            )
            continue
        cause = program_cause((server.reason, *server.words))
        if cause is not None and cause.kind == "machine":
            said = f"{server.id} does not start where {title} starts the aggregator: {cause.sentence}."
            yield found("server_environment", said, cause.mend, server.place)
            continue
        if _is_slow(server):
            yield found(
                "server_slow",
                f"{server.id} starts more slowly where {title} starts the aggregator: {why}. It may come up later.",
                _fix_of_slow(server, install),
                server.place,
                severity="warning",
            )
            continue
        said = f"{server.id} comes up in this shell, and not where {title} starts the aggregator: {why}."
        names = _likely(server)
        if names:
            said += f" {_listed(names)} {'is' if len(names) == 1 else 'are'} set in this shell, and not so there."
        yield found("server_not_for_host", said, _fix(server, names, install), server.place)


def _is_slow(server: LostServer) -> bool:
    """Return whether nothing has failed yet: only the time was too short, which proves no difference."""
    return not server.reason or _TOO_LONG in server.reason


def _fix_of_slow(server: LostServer, install: str) -> str:
    fix = "Try again when this machine has less to do, or with a longer `--timeout`."
    names = [name for name in _likely(server) if name != "PATH"]
    if not names:
        return fix
    are = "is" if len(names) == 1 else "are"
    mend = f"If it never comes up: {_listed(names)} {are} set in this shell, and not so there"
    return f'{fix} {mend}, which `{install}` or "env" of {server.place.rpartition(": ")[2]} can mend.'


def _wanted(server: LostServer) -> list[str]:
    """Return the capabilities of a host without which a server ends, as its own words say; none if they do not."""
    told = " ".join((server.reason, *server.words)).lower()
    if not any(word in told for word in _OF_HOSTS):
        return []
    return [word for word in _WANTED if re.search(rf"\b{word}\b", told)]


def _fix_of_wanted(title: str, wanted: Sequence[str], declares: Collection[str] | None) -> str:
    if declares is None:
        return f"Nothing, if {title} offers {' and '.join(wanted)}; if not, use the server with a host that does."
    lacking = [word for word in wanted if word not in declares]
    if not lacking:
        return f"Nothing: {title} is known to offer {' and '.join(wanted)}."
    return f"Use the server with another host: {title} is not known to offer {' and '.join(lacking)}."


def _fix(server: LostServer, names: Sequence[str], install: str) -> str:
    entry = server.place.rpartition(": ")[2]
    written = [name for name in names if _is_written(name)]
    other = [name for name in names if name not in written]
    ways = []
    if written:
        ways.append(f"Run `{install}`, which writes {_listed(written)} into our entry.")
    if other:
        ways.append(f'Put {_listed(other)} under "env" of {entry}, or of our entry in the file of the host.')
    return (
        " ".join(ways) or f'Start the host from a terminal, or give {server.id} what it lacks under "env" of {entry}.'
    )


def _is_written(name: str) -> bool:
    """Return whether `aggregator install` writes a variable of the shell into the file of a host."""
    return name in CERTIFICATES or name in PROXIES or name in NO_PROXIES or of_packages(name)


def _why(server: LostServer, seconds: float, here: float | None) -> str:
    reason = brief(server.reason.partition("; it last said: ")[0].partition("; next try in ")[0]).rstrip(".")
    if not reason:
        took = f" (here it takes {here:.1f} s)" if here is not None else ""
        reason = f"it had not come up after {seconds:.0f} s{took}"
    words = brief(" | ".join(list(dict.fromkeys(server.words))[-_WORDS:]))
    return ". Its last words: ".join(filter(None, (reason, words))).rstrip(".")


def _likely(server: LostServer) -> list[str]:
    """Return the variables that may be the cause, the likeliest first; `PATH` differs nearly always."""
    told = " ".join((server.reason, *server.words)).lower()
    others = [name for name in server.lacking if name != "PATH"]
    others.sort(key=lambda name: 0 if name.lower() in told else 1 if any(map(told.count, _words_about(name))) else 2)
    path = "PATH" in server.lacking and (not others or any(words in told for words in _NOT_FOUND))
    return [*(["PATH"] if path else []), *others]


def _words_about(name: str) -> Sequence[str]:
    """Return the usual words of a program that lacks a variable."""
    if name in CERTIFICATES:
        return "certificate", "ssl", "tls"
    if name in PROXIES or name in NO_PROXIES:
        return "proxy", "timed out", "timeout", "unreachable", "resolve", "connect"
    if of_packages(name):
        return "registry", "no solution found", "e404", "not found in", "index", "no matching distribution"
    return ()


def _listed(names: Sequence[str]) -> str:
    shown = [*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
