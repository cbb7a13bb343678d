"""The files of hosts: whether they have us, once, with a program and a configuration that exist. This file decides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from aggregator.doctor.finding import CheckFinding, found
from aggregator.domain.shell import foreign_word, shell_word

StartFault = Literal["ended", "hangs", "not_started", "not_mcp"]


@dataclass(frozen=True, slots=True)
class OwnEntry:
    """The content of our entry in a host file, without the values of its variables and headers.

    `config` and `agent` are the options it names, `config_file` is the full path of the first, `program` the path of
    `command` on the host's `PATH`, `elsewhere` its path on the shell's. `url` has no query. `config_exists` is None if
    it names none. `held_back`: it is in a file of the working folder and not started.
    """

    name: str
    place: Path
    enabled: bool = True
    command: str | None = None
    program: str | None = None
    elsewhere: str | None = None
    config: str | None = None
    config_exists: bool | None = None
    config_file: Path | None = None
    agent: str | None = None
    url: str | None = None
    scope: str = "user"
    held_back: bool = False


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host on this machine. `unreadable` are sentences about its files, `same` servers that the configuration has
    too, as the file, their names there and here, and the scope of the file. `files` are those that exist, `first` is
    the one that we would write to; None if it has no file of its own.
    """

    id: str
    title: str
    first: Path | None
    files: Sequence[Path] = ()
    unreadable: Sequence[tuple[Path, str]] = ()
    entries: Sequence[OwnEntry] = ()
    same: Sequence[tuple[Path, str, str, str]] = ()
    asked_for: bool = field(default=False)


@dataclass(frozen=True, slots=True)
class StartFacts:
    """A start of the program in a host file that failed: `words` are its last lines on stderr, without secrets."""

    title: str
    host: str
    place: str | None
    command: str
    fault: StartFault
    seconds: float
    words: Sequence[str] = ()


def of_host(host: HostFacts, examined: Path | None, agent: str | None) -> Iterator[CheckFinding]:
    """Yield the findings about the files of a host; `examined` is the configuration, `agent` the one of `--agent`."""
    for path, said in host.unreadable:
        fix = "Correct it there; the host cannot read it either."
        yield found("host_file_unreadable", f"The file of {host.title} cannot be used: {said}", fix, path)
    install = f"Run `aggregator install {host.id}`."
    if not host.entries:
        if host.asked_for and not host.unreadable:
            if host.first is None:
                yield found(
                    "host_settings_unseen",
                    f"{host.title} keeps its servers in settings that cannot be read, so it is not known whether the "
                    "aggregator is among them.",
                    f"`aggregator install {host.id}` prints what to paste there.",
                )
                return
            yield found(
                "host_without_entry",
                f"{host.title} does not have the aggregator: no entry in {host.first} starts it or names its address.",
                install,
                host.first,
            )
        return
    enabled = [entry for entry in host.entries if entry.enabled]
    if len(enabled) > 1:
        names = ", ".join(f"`{entry.name}` in {entry.place}" for entry in enabled)
        yield found(
            "host_entry_twice",
            f"{host.title} has the aggregator {len(enabled)} times ({names}), so every tool is there as often.",
            f"Remove `{enabled[1].name}` from {enabled[1].place}.",
            enabled[1].place,
        )
    for entry in host.entries:
        yield from _of_entry(host, entry, examined, agent)
    for place, there, here, scope in host.same:
        yield found(
            "host_direct_server",
            f"{host.title} starts `{there}` itself, and the aggregator has it as {here}: its tools are there twice.",
            f"Run `aggregator install {host.id}{_scoped(scope)} --take-over`, or remove `{there}` from {place}.",
            place,
        )


def _of_entry(host: HostFacts, entry: OwnEntry, examined: Path | None, agent: str | None) -> Iterator[CheckFinding]:
    if entry.held_back and entry.enabled and entry.program is not None:
        yield found(
            "host_entry_of_folder",
            f"`{entry.name}` in {entry.place} was not started: it comes with the folder, and is not what "
            "`aggregator install` writes there.",
            f"Read it; if it is yours, run `{_install(host, entry, None)}`, or start the host and see.",
            entry.place,
        )
    place, install = entry.place, f"Run `{_install(host, entry, examined)}`."
    if not entry.enabled:
        said = f"The entry `{entry.name}` for the aggregator is switched off in {host.title}."
        yield found("host_entry_disabled", said, f"Switch it on in {place}, or run {install[4:]}", place)
        return
    if entry.command is not None and entry.program is None:
        if entry.elsewhere is not None:
            yield found(
                "host_program_not_found",
                f"{host.title} starts `{entry.command}`, which is on the PATH of your shell and not on that of "
                "this host.",
                f'{install[:-1]}, or write its full path: "command": "{entry.elsewhere}".',
                place,
            )
        else:
            yield found(
                "host_program_missing",
                f"{host.title} starts `{entry.command}`, which does not exist (was its environment deleted?).",
                install,
                place,
            )
    if entry.config is not None and not entry.config.startswith(("/", "~")) and not Path(entry.config).is_absolute():
        yield found(
            "host_config_relative",
            f"{host.title} names the configuration `{entry.config}`, a relative path, and starts in a folder of "
            "its own.",
            f"{install[:-1]}, which writes the full path.",
            place,
        )
    elif entry.config is not None and entry.config_exists is False:
        yield found(
            "host_config_missing",
            f"{host.title} names the configuration {entry.config}, which does not exist.",
            install,
            place,
        )
    elif entry.config is not None and examined is not None and not _same(entry.config, examined):
        yield found(
            "host_other_config",
            f"{host.title} uses the configuration {entry.config}, not {examined}.",
            f"Examine that one with `--config {shell_word(entry.config)}`, or run {install[4:]}",
            place,
        )
    if agent is not None and entry.command is not None and (entry.agent or "local") != agent:
        yield found(
            "host_agent_differs",
            f"{host.title} starts the aggregator as the agent {entry.agent or 'local'}, not as {agent}.",
            f"Run `{_install(host, entry, examined)} --agent {agent}`.",
            place,
        )


def _install(host: HostFacts, entry: OwnEntry, examined: Path | None) -> str:
    """Return the command that writes our entry anew."""
    config = f" --config {shell_word(str(examined))}" if examined is not None and entry.config is not None else ""
    name = f" --name {foreign_word(entry.name)}" if entry.name != "aggregator" else ""
    return f"aggregator install {host.id} --replace{_scoped(entry.scope)}{name}{config}"


def _scoped(scope: str) -> str:
    return f" --scope {scope}" if scope in ("project", "local") else ""


def of_failed_start(start: StartFacts) -> CheckFinding:
    """Return why the program that a host starts gave no list of tools."""
    words = f" Its last words: {' | '.join(start.words[-3:])}" if start.words else ""
    if start.fault == "hangs":
        return found(
            "host_start_hangs",
            f"`{start.command}`, started as {start.title} does, did not answer within {start.seconds:.0f} s.{words}",
            'Run it in a terminal; if servers are slow, set "startup_wait" in the configuration lower.',
            start.place,
        )
    how = {"ended": "ended before it answered", "not_started": "could not be started"}.get(
        start.fault, "answered what is not MCP"
    )
    return found(
        "host_start_fails",
        f"`{start.command}`, started as {start.title} does, {how}.{words}",
        f"Run `aggregator install {start.host} --replace`, unless its last words tell what to mend.",
        start.place,
    )


def of_lost_servers(title: str, lost: Sequence[tuple[str, str]], place: object) -> Iterator[CheckFinding]:
    """Yield the servers that are disabled when a host starts the aggregator; each with the reason."""
    for server, reason in lost:
        yield found(
            "host_variable_missing",
            f"{server} is switched off when {title} starts the aggregator: {reason[:1].lower()}{reason[1:]} "
            "It is set in this shell alone.",
            f'Put it under "env" of our entry in {place}, or keep the value where every program finds it: '
            "`${file:...}`, or `aggregator secrets set`.",
            place,
        )


def of_version(title: str, version: str | None, own: str, place: str | None, host: str) -> Iterator[CheckFinding]:
    """Yield whether the program that a host starts is of another version than this one."""
    if version is not None and version != own:
        yield found(
            "host_other_version",
            f"{title} starts version {version} of the aggregator; this is {own}.",
            f"Run `aggregator install {host} --replace`, which writes the path of this one, or update the other.",
            place,
        )


def _same(written: str, examined: Path) -> bool:
    return Path(written).expanduser().absolute() == examined.absolute()
