"""Facts of the machine: permissions, programs on a `PATH`, versions, proxies, the certificate of our own TLS."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aggregator import __version__
from aggregator.config.load import Loaded
from aggregator.config.servers.secrets import secrets_in
from aggregator.config.settings import TlsConfig
from aggregator.doctor.checks.machine import FileMode, MachineFacts
from aggregator.doctor.checks.programs import ProgramFacts
from aggregator.domain.errors import OperatorError
from aggregator.domain.ordinary_files import read_ordinary
from aggregator.domain.uris.addresses import is_loopback
from aggregator.domain.usual_folders import with_usual_folders
from aggregator.frontends.tls import CertificateFacts, facts_of, server_context
from aggregator.policy.files.folder import is_policy_file
from aggregator.secret_sources.file_text import file_text
from aggregator.secret_sources.reference import SecretUnavailable
from aggregator.system.file_rights import rights_of_others
from aggregator.system.program_words import program_words
from aggregator.upstream.process.environment import environment

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy")
_NODE_PROGRAMS: Final = frozenset({"npx", "node", "npm", "pnpm", "bunx"})
# Variables by which most programs find a folder of this machine.
_FOLDERS: Final = ("HOME", "TMPDIR") if os.name == "posix" else ("TEMP", "TMP")
_PATIENCE: Final = 3.0
_MOST_FILES: Final = 1_000


def read_machine(loaded: Loaded | None, environ: Mapping[str, str], now: float) -> MachineFacts:
    """Return the facts of this machine; `loaded` is the configuration, if there is one."""
    servers = loaded.config.servers if loaded is not None else ()
    local = [one.id for one in servers if one.enabled and one.url and is_loopback(urlsplit(one.url).hostname or "")]
    newest = max(_modes(loaded.files if loaded is not None else ()), key=lambda one: one.changed, default=None)
    return MachineFacts(
        now,
        platform.python_version(),
        version("mcp"),
        __version__,
        os.name != "posix" or bool(environ.get("HOME")),
        [(name, folder) for name in _FOLDERS if (folder := environ.get(name)) and not os.path.isdir(folder)],
        node_version(environ),
        [name for name in _PROXIES if environ.get(name)],
        environ.get("NO_PROXY") or environ.get("no_proxy") or "",
        local,
        newest,
    )


def node_version(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the version of Node.js and its path, or None."""
    path = shutil.which("node", path=environ.get("PATH"))
    if path is None:
        return None
    try:
        words = program_words(path, ["--version"], environ)
        ended = subprocess.run(  # noqa: S603
            words, capture_output=True, timeout=_PATIENCE, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    said = ended.stdout.decode("utf-8", "replace").strip()[:40]
    return (said, path) if said.startswith("v") and said.isprintable() else None


def needs_node(loaded: Loaded) -> bool:
    """Return whether a server is run by Node.js."""
    return any(os.path.basename(one.command or "") in _NODE_PROGRAMS for one in loaded.config.servers if one.enabled)


def read_programs(loaded: Loaded, env: Mapping[str, str], home: Path) -> list[ProgramFacts]:
    """Return the programs that servers start by their name, as a shell and as a host with these variables finds them.

    `aggregator stdio` adds the usual folders in `home` and of the system to the PATH of its host.
    """
    ours = environment()["PATH"].rpartition(os.pathsep)
    shell, folder = ours[0], ours[2]
    of_host = os.pathsep.join((with_usual_folders(env.get("PATH", ""), home, env), folder))
    found = []
    for server in loaded.config.servers:
        for command in (server.command, server.launch.command if server.launch is not None else None):
            if command is None or os.path.dirname(command) or not server.enabled or "PATH" in server.env:
                continue
            place = f"{loaded.path}: mcpServers.{server.key}"
            there, here = shutil.which(command, path=of_host), shutil.which(command, path=shell)
            found.append(ProgramFacts(server.id, place, command, here, there))
    return found


def read_modes(loaded: Loaded) -> tuple[FileMode | None, bool, list[FileMode], list[FileMode]]:
    """Return the mode of the configuration, whether it contains plain-text secrets, and the modes of the policies.

    The last part are the modes of the other files that hold secrets: `envFile`, and those of `${file:...}`.
    """
    config = next(iter(_modes([loaded.path] if loaded.path is not None else [])), None)
    folder = loaded.policies
    try:
        policies = [folder, *(one for one in folder.iterdir() if is_policy_file(one))][:_MOST_FILES]
    except OSError:
        policies = []
    secrets = {text for one in loaded.config.servers for text in secrets_in(one.model_dump())}
    beside = loaded.files - ({loaded.path.absolute()} if loaded.path is not None else set())
    files = [one for one in sorted(beside) if _can_be_narrowed(one) and _is_secret(one, secrets, loaded.secrets)]
    return config, _holds_secrets(loaded.path, secrets), _modes(policies), _modes(files)


def _holds_secrets(path: Path | None, secrets: Iterable[str]) -> bool:
    """Return whether a secret stands in the configuration itself, not only a reference to one."""
    if path is None:
        return False
    try:
        written = read_ordinary(path).decode("utf-8-sig", "replace")
    except OSError:
        return False
    return _holds(written, secrets)


def _is_secret(path: Path, secrets: Iterable[str], values: frozenset[str]) -> bool:
    """Return whether a file holds a secret; `values` are all that the configuration takes from elsewhere.

    The file of a `${file:...}` is one value; of the values of an `envFile`, those with a telling name are secrets.
    """
    try:
        written = file_text(path, path.name)
    except SecretUnavailable:
        return False
    return written.strip() in values or _holds(written, secrets)


def _holds(written: str, secrets: Iterable[str]) -> bool:
    return any(secret in written for secret in secrets if len(secret) > 5 and "${" not in secret)


def _can_be_narrowed(path: Path) -> bool:
    """Return whether this user can change the rights to a file.

    Container platforms mount secrets read-only, often readable by all users; a container has no other users.
    """
    if sys.platform == "win32":
        return True
    try:
        return path.stat().st_uid == os.geteuid() and not os.statvfs(path).f_flag & os.ST_RDONLY
    except (OSError, ValueError):
        return False


def _modes(paths: Iterable[Path]) -> list[FileMode]:
    found = []
    for path in paths:
        try:
            status = path.stat()
        except (OSError, ValueError):
            continue
        mode = status.st_mode & 0o777 if os.name == "posix" else None
        found.append(FileMode(path, mode, status.st_mtime, rights_of_others(path)))
    return found


def read_certificate(tls: TlsConfig) -> tuple[CertificateFacts | None, str | None]:
    """Return the facts of the certificate, or None and why the files cannot be used."""
    try:
        return facts_of(server_context(tls), tls.certificate), None
    except OperatorError as error:
        return None, str(error)
