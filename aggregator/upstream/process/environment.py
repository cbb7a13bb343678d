"""The environment of a child process: a selection from the aggregator's own."""

import os
import re
import sys
from pathlib import Path
from typing import Final

# Variables that a server may see; the others may hold secrets of other servers.
_INHERITED: Final = frozenset(
    {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"}
    | {"NO_PROXY", "no_proxy"}
    | {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"}
    | {"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMFILES"}
    | {"SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "WINDIR"}
)
# Variables that are passed on without a user name and password; a server that needs these gets them by its `env`.
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def environment() -> dict[str, str]:
    """Return the variables for every child. PATH ends with the folder of our own programs, so that these are found."""
    env = {key: value for key, value in os.environ.items() if key in _INHERITED or key.startswith("LC_")}
    env |= {key: _without_login(os.environ[key]) for key in _PROXIES if key in os.environ}
    env["PATH"] = os.pathsep.join(filter(None, [env.get("PATH", os.defpath), str(Path(sys.executable).parent)]))
    return env


def _without_login(address: str) -> str:
    """Return the address of a proxy without a user name and password."""
    found = _SCHEME.match(address)
    scheme = found[0] if found is not None else ""
    return scheme + address[len(scheme) :].rpartition("@")[2]
