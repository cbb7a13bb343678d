"""The machine: files that others may read or write, home folder, clock, versions, proxies. This file decides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.doctor.finding import CheckFinding, found
from aggregator.domain.patient_files import ON_WINDOWS
from aggregator.domain.shell import keep_private, make_folder, set_variable, shell_word, take_rights
from aggregator.system.file_rights import CLOSED, OpenTo, said_of

# Seconds that a file may be ahead of the clock.
_AHEAD: Final = 86_400.0
# 2026-01-01: this program did not exist before.
_EARLIEST: Final = 1_767_225_600.0
_NO_PROXY: Final = set_variable("NO_PROXY", "localhost,127.0.0.1,::1")
# What `setx` sets reaches programs of a new terminal alone.
_ANEW: Final = ", and start it from a new terminal" if ON_WINDOWS else ""


@dataclass(frozen=True, slots=True)
class FileMode:
    """The permission bits of a file or folder, and when it was changed; None on systems without such bits.

    `others` are the groups with rights to it on Windows.
    """

    path: Path
    mode: int | None
    changed: float = 0.0
    others: OpenTo = CLOSED


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The machine around the program. `loopback` are servers that are reached on this machine over HTTP;
    `lost_folders` are variables that name a missing folder, each with the folder.
    """

    now: float
    python: str
    mcp: str
    own: str
    home: bool = True
    lost_folders: Sequence[tuple[str, str]] = ()
    node: tuple[str, str] | None = None
    proxies: Sequence[str] = ()
    no_proxy: str = ""
    loopback: Sequence[str] = ()
    newest_file: FileMode | None = None


def of_modes(
    config: FileMode | None, secrets: bool, policies: Sequence[FileMode], values: Sequence[FileMode] = ()
) -> Iterator[CheckFinding]:
    """Yield the files whose permissions are too wide.

    secrets: the configuration holds some in the clear. values: the files beside it that hold secrets of servers.
    """
    if config is not None and secrets and config.mode is not None and config.mode & 0o044:
        yield found(
            "config_open",
            f"Other users can read {config.path}, which holds secrets (mode {config.mode:o}).",
            f"Run `{keep_private(config.path)}`; `aggregator secrets` keeps them out of the file.",
            config.path,
            safe=True,
        )
    if config is not None and secrets and config.others.readers:
        yield found(
            "config_open",
            f"{said_of(config.others.readers)} can read {config.path}, which holds secrets.",
            f"Run `{keep_private(config.path, windows=True)}`; `aggregator secrets` keeps them out of the file.",
            config.path,
        )
    yield from _of_policies(policies)
    for one in values:
        by_mode = one.mode is not None and one.mode & 0o044
        if by_mode or one.others.readers:
            who = "Other users" if by_mode else said_of(one.others.readers)
            mode = f" (mode {one.mode:o})" if by_mode else ""
            # Programs of other users may have a right to it, so that `--fix` leaves it alone.
            yield found(
                "value_file_open",
                f"{who} can read {one.path}, which holds secrets of the configuration{mode}.",
                f"Run `{keep_private(one.path, windows=not by_mode)}`.",
                one.path,
            )


def _of_policies(policies: Sequence[FileMode]) -> Iterator[CheckFinding]:
    told: set[Path] = set()
    for one in policies:
        # A file has the rights of its folder.
        if one.others.writers and one.path.parent not in told:
            told.add(one.path)
            groups = [identifier for _, identifier in one.others.writers]
            yield found(
                "policy_open",
                f"{said_of(one.others.writers)} can change {one.path}, which decides what agents may do.",
                f"Run {take_rights(one.path, groups)}.",
                one.path,
            )
        if one.mode is not None and one.mode & 0o022:
            yield found(
                "policy_open",
                f"Other users can change {one.path}, which decides what agents may do (mode {one.mode:o}).",
                f"Run `chmod go-w {shell_word(str(one.path))}`.",
                one.path,
                safe=True,
            )


def of_machine(facts: MachineFacts) -> Iterator[CheckFinding]:
    """Yield the findings about home folder, clock, proxies, and the versions."""
    if not facts.home:
        yield found(
            "home_missing",
            "HOME is not set, so files may be looked for elsewhere than your other programs keep them.",
            "Set HOME, in the service or the host that starts the aggregator too.",
            severity="warning",
        )
    for name, folder in facts.lost_folders:
        code, fix = ("home_missing", "Set HOME to your home folder") if name == "HOME" else ("temp_missing", "")
        yield found(
            code,
            f"{name} names {folder}, which is no folder, so programs that are started here may not find a place for "
            "their files.",
            f"{fix or f'Run `{make_folder(folder)}`, or set {name} to a folder that exists'}, in the service or the "
            "host that starts the aggregator too.",
            name,
            severity="warning",
        )
    newest = facts.newest_file
    if facts.now < _EARLIEST:
        yield _clock("it shows a time before this program existed")
    elif newest is not None and newest.changed - facts.now > _AHEAD:
        yield _clock(f"{newest.path} was changed in the future")
    passed = [name for name in ("localhost", "127.0.0.1", "*") if name in facts.no_proxy.replace(" ", "").split(",")]
    if facts.proxies and facts.loopback and not passed:
        yield found(
            "proxy_for_loopback",
            f"{' and '.join(facts.proxies)} is set without NO_PROXY, so programs that are started here may send "
            f"requests for this machine ({', '.join(facts.loopback)}) to the proxy.",
            f"Run `{_NO_PROXY}` where the aggregator is started{_ANEW}.",
            "NO_PROXY",
        )
    node = f", Node.js {facts.node[0].lstrip('v')}" if facts.node is not None else ""
    yield found("versions", f"aggregator {facts.own}, Python {facts.python}, mcp {facts.mcp}{node}.")


def _clock(why: str) -> CheckFinding:
    return found(
        "clock_wrong",
        f"The clock is wrong: {why}; keys, approvals and certificates depend on it.",
        "Set it, or switch on time synchronisation.",
    )
