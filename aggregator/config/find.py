"""Where the configuration file is."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from aggregator.config.errors import ConfigError

FILE = "aggregator.json"


def find_config(explicit: Path | None, cwd: Path, environ: Mapping[str, str]) -> Path:
    """The file named, else the one in the working folder, else the one in the platform's folder for configuration.

    Raises ConfigError, naming every place looked at, when there is none.
    """
    if explicit is not None:
        places = [cwd / os.path.expanduser(explicit)]
    else:
        places = [cwd / FILE, platform_folder(environ) / "aggregator" / FILE]
    for place in places:
        if os.path.exists(place):  # False, not an error, in a folder that may not be entered
            return place
    looked = " nor ".join(str(place) for place in places)
    raise ConfigError(
        f"There is no configuration: neither {looked} exists. Start with a file {FILE} that holds "
        '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}, '
        "or name another file with --config."
        if len(places) > 1
        else f"There is no file {looked}. Create it, or name another with --config."
    )


def platform_folder(environ: Mapping[str, str]) -> Path:
    """Where programs of this platform keep their configuration."""
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    given = environ.get("XDG_CONFIG_HOME", "")
    return Path(given) if os.path.isabs(given) else home / ".config"
