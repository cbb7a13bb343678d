"""The folders in which package and version managers put programs, where a PATH of the desktop does not lead.

A program that a desktop starts gets the PATH of the system alone: a shell adds the others by its files.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_VERSION: Final = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?")
_LONGEST_ALIAS: Final = 64
# Under the home folder: uv and pipx, cargo, Volta, asdf, mise, Bun, Deno, pnpm, pyenv, nodenv, Nix, OrbStack, Rancher.
_OF_HOME: Final = (
    *(".local/bin", ".cargo/bin", ".volta/bin", ".asdf/shims", ".local/share/mise/shims", ".bun/bin", ".deno/bin"),
    *("Library/pnpm", ".local/share/pnpm", ".pyenv/shims", ".nodenv/shims", ".nix-profile/bin", ".orbstack/bin"),
    *(".rd/bin", ".local/share/fnm/aliases/default/bin", "Library/Application Support/fnm/aliases/default/bin"),
)
# Variables by which these managers are elsewhere, with the folder below.
_MOVED: Final = (("VOLTA_HOME", "bin"), ("ASDF_DATA_DIR", "shims"), ("BUN_INSTALL", "bin"), ("PNPM_HOME", ""))
_OF_SYSTEM: Final = (
    *("/opt/homebrew/bin", "/usr/local/bin", "/home/linuxbrew/.linuxbrew/bin", "/opt/local/bin", "/snap/bin"),
    *("/nix/var/nix/profiles/default/bin", "/Applications/Docker.app/Contents/Resources/bin"),
)


def with_usual_folders(path: str, home: Path, environ: Mapping[str, str], *, windows: bool | None = None) -> str:
    """Return a PATH with the usual folders that there are, behind its own; on Windows, PATH is the same everywhere."""
    if sys.platform == "win32" if windows is None else windows:
        return path
    folders = path.split(os.pathsep) if path else []
    more = [str(folder) for folder in usual_folders(home, environ) if str(folder) not in folders]
    return os.pathsep.join((*folders, *dict.fromkeys(more)))


def usual_folders(home: Path, environ: Mapping[str, str], root: Path = Path("/")) -> Iterator[Path]:
    """Yield the folders that are there; `root` stands in for that of the file system."""
    for folder in _every_folder(home, environ, root):
        with suppress(OSError, ValueError):
            if folder.is_dir() and os.pathsep not in str(folder):
                yield folder


def _every_folder(home: Path, environ: Mapping[str, str], root: Path) -> Iterator[Path]:
    for name, below in _MOVED:
        if os.path.isabs(given := environ.get(name, "")):
            yield Path(given) / below
    if os.path.isabs(home):
        yield from (home / name for name in _OF_HOME)
        named = environ.get("NVM_DIR", "")
        yield from _nvm(Path(named) if os.path.isabs(named) else home / ".nvm")
    yield from (root / name[1:] for name in _OF_SYSTEM)


def _nvm(folder: Path) -> Iterator[Path]:
    """Yield the folder of the version of Node.js that nvm uses by default, else of the newest one."""
    versions: dict[tuple[int, ...], Path] = {}
    with suppress(OSError):
        for entry in (folder / "versions" / "node").iterdir():
            if found := _VERSION.fullmatch(entry.name):
                versions[tuple(int(part or 0) for part in found.groups())] = entry / "bin"
    if not versions:
        return
    wanted = _VERSION.fullmatch(_alias(folder, "default"))
    parts = [int(part) for part in wanted.groups() if part is not None] if wanted is not None else []
    fitting = [version for version in versions if list(version[: len(parts)]) == parts]
    yield versions[max(fitting or versions)]


def _alias(folder: Path, name: str) -> str:
    """Return what an alias of nvm stands for: a version, or the text of the last alias that leads nowhere."""
    text = name
    for _ in range(4):
        if not re.fullmatch(r"[\w.*/-]+", text, re.ASCII) or ".." in text:
            break
        try:
            with (folder / "alias" / text).open(encoding="utf-8") as file:
                text = file.read(_LONGEST_ALIAS).strip()
        except (OSError, ValueError):
            break
    return text
