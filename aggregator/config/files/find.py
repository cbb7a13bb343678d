"""Look-up of the configuration file.

Law: a file of the working folder is used only if it is named or was trusted: a configuration starts programs, and the
folder may be copied or cloned from somewhere else.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from aggregator.config.errors import ConfigError, ConfigMissing
from aggregator.config.files.trust import TrustList

FILE: Final = "aggregator.json"

_WHY: Final = {"named": "named with --config", "own": "your own", "trusted": "of this folder, which is trusted"}


@dataclass(frozen=True, slots=True)
class ConfigLocation:
    """The configuration file to use, and why it is this one.

    `trust` is the list that must have the file whenever it is read; None if the file needs no trust. `passed_over`
    is a file of the working folder that is not used.
    """

    path: Path
    why: Literal["named", "own", "trusted"]
    trust: TrustList | None = None
    passed_over: Path | None = None

    def __str__(self) -> str:
        """Return one line for the log."""
        said = f"configuration: {self.path} ({_WHY[self.why]})"
        return f"{said}; {self.passed_over} is not used, name it with --config to use it" if self.passed_over else said


def find_config(explicit: Path | None, cwd: Path, environ: Mapping[str, str]) -> ConfigLocation:
    """Return the file that was named, else the user's own, else that of the working folder if it is trusted.

    Raises:
        ConfigMissing: none was named, and there is none; the message names every place looked at.
        ConfigError: the named one is not there, the file is a link that leads nowhere, or that of the working folder is
            not trusted.
    """
    if explicit is not None:
        named = cwd / os.path.expanduser(explicit)
        _refuse_broken_link(named)
        if not os.path.exists(named):  # False, not an error, in a folder that may not be entered
            raise ConfigError(f"There is no file {named}. Create it, or name another with --config.")
        return ConfigLocation(named, "named")
    own, here = own_file(environ), cwd / FILE
    _refuse_broken_link(own)
    if os.path.exists(own):
        other = os.path.exists(here) and not os.path.samefile(here, own)
        return ConfigLocation(own, "own", passed_over=here if other else None)
    if os.path.exists(here):
        trust = trust_list(environ)
        trust.check(here)
        return ConfigLocation(here, "trusted", trust)
    raise ConfigMissing(
        f"There is no configuration: neither {own} nor {here} exists. Run `aggregator init`, add a server with "
        "`aggregator add NAME -- COMMAND ARGS...`, or name another file with --config."
    )


def _refuse_broken_link(path: Path) -> None:
    """Raise ConfigError for a link to a missing file: a new file in its place would hide the one that was moved."""
    if path.is_symlink() and not os.path.exists(path):
        try:
            target = os.readlink(path)
        except OSError:
            return
        if Path(os.path.join(path.parent, target)) == path:
            raise ConfigError(f"{path} is a link to itself. Remove the link, and put the file in its place.")
        raise ConfigError(
            f"{path} is a link to {target}, which does not exist. Put that file back, or have the link lead to where "
            "it is now."
        )


def own_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's own configuration file, which may be missing."""
    return platform_folder(environ) / "aggregator" / FILE


def trust_list(environ: Mapping[str, str]) -> TrustList:
    """Return the list of the files that the user trusts."""
    return TrustList(platform_folder(environ) / "aggregator" / "trusted.json")


def platform_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder in which programs of this platform keep their configuration.

    Raises:
        ConfigError: the user has no home folder.
    """
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    if sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        folder = Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    else:
        given = environ.get("XDG_CONFIG_HOME", "")
        folder = Path(given) if os.path.isabs(given) else home / ".config"
    if not os.path.isabs(folder):
        raise ConfigError("There is no home folder to look for a configuration in: set HOME, or use --config.")
    return folder
