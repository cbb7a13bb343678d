"""The command by which a host starts this program: one that is still there tomorrow.

Law: an environment that `uvx` or `pipx run` made for one run is never written into a host's file; the command that
makes it again is, with the version that runs now.
"""

import json
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distributions
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aggregator

PROGRAM: Final = "aggregator"
_UV_CACHE: Final = re.compile(r"[/\\](?:archive|environments)-v\d+[/\\]")
_PIPX_CACHE: Final = re.compile(r"[/\\](?:pipx[/\\]\.cache|\.cache[/\\]pipx|pipx[/\\]Cache)[/\\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A command with the arguments that come before `stdio`, the variables it needs, and a remark for users."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    remark: str | None = None


@dataclass(frozen=True, slots=True)
class RunningProgram:
    """The facts about the running program that the choice depends on, as arguments so that tests can set them.

    `requirement` is this distribution for an installer; None: the package was not installed, it was found in the folder
    `source`. `which` finds a program on PATH.
    """

    argv0: str
    executable: str
    prefix: str
    scripts: str
    temporary: str
    source: str
    requirement: str | None
    environ: Mapping[str, str] = field(repr=False)
    which: Callable[[str], str | None] = shutil.which


def this_program() -> RunningProgram:
    """Return the facts of this process."""
    return RunningProgram(
        argv0=sys.argv[0],
        executable=sys.executable,
        prefix=sys.prefix,
        scripts=sysconfig.get_path("scripts"),
        temporary=tempfile.gettempdir(),
        source=str(Path(aggregator.__file__).resolve().parents[1]),
        requirement=_requirement(),
        environ=os.environ,
    )


def own_command(program: RunningProgram) -> OwnCommand:
    """Return the command that starts the same program again, from any folder and without this shell's variables."""
    if program.requirement is not None and _UV_CACHE.search(program.prefix):
        found = _uvx(program)
        if found is not None:
            command, args = found
            from_uvx = (
                f"It runs in an environment that uvx made for this time, so the host is told to ask uvx for "
                f"{program.requirement} each time. After an update, run `{PROGRAM} install` again."
            )
            return OwnCommand(command, (*args, "--from", program.requirement, PROGRAM), remark=from_uvx)
    if program.requirement is not None and _PIPX_CACHE.search(program.prefix) and (pipx := program.which("pipx")):
        from_pipx = (
            f"It runs in an environment that `pipx run` made for this time, so the host is told to ask pipx for "
            f"{program.requirement} each time. `pipx install` makes one that stays."
        )
        args = ("run", "--spec", program.requirement, PROGRAM)
        return OwnCommand(os.path.abspath(pipx), args, remark=from_pipx)
    remark = _remark(program)
    script = _script(program)
    if script is not None:
        return OwnCommand(script, remark=remark)
    env = {} if program.requirement is not None else {"PYTHONPATH": program.source}
    return OwnCommand(program.executable, ("-m", PROGRAM), env, remark)


def _uvx(program: RunningProgram) -> tuple[str, tuple[str, ...]] | None:
    """Return the absolute path of uvx, or of uv with the arguments that make it uvx. uv names itself in `UV`."""
    uv = program.environ.get("UV") or program.which("uv")
    beside = _executable(Path(uv).parent / "uvx") if uv else None
    uvx = beside or program.which("uvx")
    if uvx:
        return os.path.abspath(uvx), ()
    return (os.path.abspath(uv), ("tool", "run")) if uv else None


def _script(program: RunningProgram) -> str | None:
    """Return the running console script, else the one of this interpreter."""
    given = Path(program.argv0)
    named = given.name.lower() in (PROGRAM, f"{PROGRAM}.exe")
    running = _executable(given.absolute()) if named and given.parent != Path() else None
    if running is None and named and (on_path := program.which(given.name)):
        running = os.path.abspath(on_path)
    return running or _executable(Path(program.scripts).absolute() / PROGRAM)


def _executable(path: Path) -> str | None:
    for candidate in (path, path.with_name(f"{path.name}.exe")):
        if candidate.is_file():
            return str(candidate)
    return None


def _remark(program: RunningProgram) -> str | None:
    temporary = (program.temporary, os.path.realpath(program.temporary))
    in_cache = _UV_CACHE.search(program.prefix) or _PIPX_CACHE.search(program.prefix)
    if in_cache or any(program.prefix.startswith(os.path.join(folder, "")) for folder in temporary):
        return (
            f"This program is in a temporary folder ({program.prefix}): the host loses it when that is emptied. "
            "Install it for good, such as with `uv tool install` or `pipx install`, and run this command again."
        )
    return None


def _requirement() -> str | None:
    """Return the distribution of this package for installers: its origin, else name and version."""
    found = _distribution()
    if found is None:
        return None
    with_origin = found.read_text("direct_url.json")
    if with_origin:
        try:
            origin = json.loads(with_origin)
            url, editable = str(origin["url"]), origin.get("dir_info", {}).get("editable", False)
            commit = origin.get("vcs_info", {})
        except (ValueError, KeyError, AttributeError):
            return f"{found.name}=={found.version}"
        if "@" in urlsplit(url).netloc:  # a login, which no file of another program is to hold
            return f"{found.name}=={found.version}"
        if editable or not commit:
            return url
        return f"{commit.get('vcs', 'git')}+{url}@{commit.get('commit_id', '')}"
    return f"{found.name}=={found.version}"


def _distribution() -> Distribution | None:
    """Return the installed distribution whose console script this is; its name may be another than the package's."""
    try:
        for known in distributions():
            scripts = known.entry_points.select(group="console_scripts", name=PROGRAM)
            if any(script.value.startswith(f"{PROGRAM}.") for script in scripts):
                return known
    except (PackageNotFoundError, OSError, ValueError):
        return None
    return None
