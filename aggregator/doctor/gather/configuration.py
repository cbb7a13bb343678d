"""The configuration that is to be examined, found and read as every command does."""

import codecs
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aggregator.config.errors import ConfigError
from aggregator.config.files.find import FILE, ConfigLocation, find_config, own_file
from aggregator.config.load import Loaded, load, load_found
from aggregator.doctor.checks.configuration import (
    UnusableConfig,
    of_problems,
    of_shadowed,
    of_unusable,
    of_utf16,
    of_variables,
)
from aggregator.doctor.finding import CheckFinding
from aggregator.doctor.gather.owners import other_owner
from aggregator.domain.ordinary_files import read_ordinary
from aggregator.domain.shell import shell_word
from aggregator.storage.locate import default_url

# Usual wrong places of the file, relative to the home folder, and beside the right place.
_ELSEWHERE: Final = (
    f".{FILE}",
    FILE,
    f".aggregator/{FILE}",
    ".aggregator/config.json",
    f".config/{FILE}",
    f".config/aggregator/{FILE}",
    f"Library/Application Support/aggregator/{FILE}",
)
_BESIDE: Final = ("config.json", "aggregator.jsonc", "aggregator.json.txt", "mcp.json", f"../{FILE}")


@dataclass(frozen=True, slots=True)
class ConfigRead:
    """The configuration, as far as it can be used, and the findings about it; `path` is the file, if there is one."""

    path: Path | None
    loaded: Loaded | None
    findings: tuple[CheckFinding, ...]
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path = Path()

    @property
    def option(self) -> str:
        """The option that makes other commands use this file; empty if they find it by themselves."""
        try:
            usual: Path | None = find_config(None, self.folder, self.environ).path
        except ConfigError:
            usual = _own(self.environ)
        return "" if self.path is None or usual == self.path else f"--config {shell_word(str(self.path))}"

    @property
    def storage(self) -> str | None:
        """The URL of the database, or None."""
        if self.loaded is not None and self.loaded.storage is not None:
            return self.loaded.storage
        try:
            return default_url(self.environ)
        except ConfigError:
            return None


def read_config(named: Path | None, folder: Path, environ: Mapping[str, str]) -> ConfigRead:
    """Return the configuration that was named, or that commands would find."""
    location: ConfigLocation | None = None
    try:
        location = find_config(named, folder, environ)
        loaded = load_found(location, environ)
    except ConfigError as error:
        path = location.path if location is not None else _path_of(named, folder, environ)
        owner = other_owner(path) if path is not None and "Permission" in str(error) else None
        facts = UnusableConfig(str(error), path, _own(environ), tuple(_misplaced(environ)), owner)
        return ConfigRead(path, None, tuple(of_unusable(facts)), environ, folder)
    path = Path(os.path.abspath(location.path))
    return ConfigRead(path, loaded, tuple(_of_loaded(location, loaded, environ)), environ, folder)


def lost_servers(loaded: Loaded, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the servers that other variables would leave switched off, which ours do not, each with the reason."""
    on = {server.id for server in loaded.config.servers if server.enabled}
    try:
        there = load(loaded.path, environ, loaded.trust)
    except ConfigError:
        return []
    return [(one.id, one.disabled_reason) for one in there.config.servers if one.id in on and one.disabled_reason]


def _of_loaded(location: ConfigLocation, loaded: Loaded, environ: Mapping[str, str]) -> Iterator[CheckFinding]:
    if location.passed_over is not None:
        yield of_shadowed(location.path, location.passed_over)
    if _is_utf16(location.path):
        yield of_utf16(location.path)
    yield from of_problems(loaded.problems)
    uneven = {value for value in loaded.secrets if value != value.strip()}
    yield from of_variables(sorted(name for name, value in environ.items() if value in uneven))


def _path_of(named: Path | None, folder: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the file that an error is about, as far as it exists."""
    if named is not None:
        return folder / named.expanduser()
    own = _own(environ)
    for path in (own, folder / FILE):
        if path is not None and os.path.lexists(path):
            return path
    return None


def _own(environ: Mapping[str, str]) -> Path | None:
    try:
        return own_file(environ)
    except ConfigError:
        return None


def _misplaced(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield files that look like a configuration, in places that are not searched."""
    own = _own(environ)
    if own is None:
        return
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    for path in (*(home / name for name in _ELSEWHERE), *(own.parent / name for name in _BESIDE)):
        if path != own and path.is_file() and _names_servers(path):
            yield path


def _names_servers(path: Path) -> bool:
    try:
        return b'"mcpServers"' in read_ordinary(path, 2**20)
    except OSError:
        return False


def _is_utf16(path: Path) -> bool:
    try:
        return read_ordinary(path, 2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    except OSError:
        return False
