"""A machine as a stranger has it: an empty home, a `python`, and the wheel."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.end_to_end.server_harness import ROOT

# Where packages come from on this machine; nothing else of the environment is passed on.
_INDEX: Final = re.compile(r"^(PIP|UV)_|_proxy$|_PROXY$|^SSL_CERT_FILE$")
_SYSTEM: Final = os.defpath
_BUILD_BOUND: Final = 120.0
_INSTALL_BOUND: Final = 600.0
COMMAND_BOUND: Final = 60.0


class Failed(Exception):
    """A program did not do what it was started for; the text has its last words."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that has ended: its exit code, what it printed, and the seconds it took."""

    code: int
    out: str
    err: str
    seconds: float


def run(command: Sequence[str | Path], folder: Path, environ: Mapping[str, str], bound: float = COMMAND_BOUND) -> Ended:
    """Run a program with this environment and no other, and no terminal.

    Raises:
        Failed: it did not end in time.
    """
    began = time.monotonic()
    try:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=bound,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        words = b"".join(part for part in (error.stdout, error.stderr) if part)[-1500:].decode(errors="replace")
        raise Failed(f"{Path(command[0]).name} did not end within {bound:.0f} s: {words}") from None
    return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - began)


def must(ended: Ended, what: str) -> Ended:
    """Return what has ended well.

    Raises:
        Failed: it has not.
    """
    if ended.code:
        raise Failed(f"{what} ended with {ended.code}: {(ended.out + ended.err)[-1500:]}")
    return ended


def build_wheel(folder: Path) -> Path:
    """Return the wheel of this tree.

    Raises:
        Failed: it cannot be built.
    """
    code = f"import hatchling.build as backend; print(backend.build_wheel({str(folder)!r}))"
    built = run([sys.executable, "-c", code], ROOT, {"PATH": _SYSTEM}, _BUILD_BOUND)
    return folder / must(built, "the build").out.split()[-1]


@dataclass(frozen=True, slots=True)
class Stranger:
    """A folder with a home and a working folder, and an environment into which the wheel was installed."""

    folder: Path
    venv: Path

    @classmethod
    def empty(cls, folder: Path, venv: Path) -> "Stranger":
        """Make a home that is empty, with an environment that is there."""
        stranger = cls(folder, venv)
        stranger.home.mkdir(parents=True)
        stranger.work.mkdir()
        return stranger

    @classmethod
    def installed(cls, folder: Path, wheel: Path, python: str) -> tuple["Stranger", float]:
        """Make an environment and install the wheel with `pip`; return the seconds of `pip install`, too.

        Raises:
            Failed: one of both did not work.
        """
        stranger = cls.empty(folder, folder / "venv")
        environ = stranger.environ() | {key: value for key, value in os.environ.items() if _INDEX.search(key)}
        must(run([python, "-m", "venv", stranger.venv], folder, environ, _BUILD_BOUND), "python -m venv")
        pip: list[str | Path] = [stranger.venv / "bin" / "python", "-m", "pip", "install", "--quiet", wheel]
        ended = must(run(pip, folder, environ, _INSTALL_BOUND), "pip install")
        return stranger, ended.seconds

    @property
    def home(self) -> Path:
        """The home, empty at first."""
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """The folder in which hosts are started."""
        return self.folder / "work"

    @property
    def aggregator(self) -> Path:
        """Our command."""
        return self.venv / "bin" / "aggregator"

    def environ(self, **more: str) -> dict[str, str]:
        """Return the environment of programs: the home, a plain PATH with Node.js, and `more`."""
        return {"HOME": str(self.home), "PATH": _SYSTEM, "LANG": "C.UTF-8", **more}

    def ours(self, *arguments: str, bound: float = COMMAND_BOUND) -> Ended:
        """Run our command, which must end well.

        Raises:
            Failed: it did not.
        """
        ended = run([self.aggregator, *arguments], self.work, self.environ(), bound)
        return must(ended, f"aggregator {' '.join(arguments)}")
