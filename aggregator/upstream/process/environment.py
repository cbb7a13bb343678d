"""What a server that is started as a program is given of the aggregator's own environment."""

import os
import re
import sys
from pathlib import Path
from typing import Final

# What a server may see of our environment: never more, since the rest may hold other servers' secrets.
_INHERITED: Final = frozenset(
    {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"}
    | {"NO_PROXY", "no_proxy"}
    | {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"}
    | {"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMFILES"}
    | {"SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "WINDIR"}
)
# The same, without the user name and password in them: a server that needs those is given them by its own `env`.
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def environment() -> dict[str, str]:
    """What every child gets; our own program folder ends its PATH, so that what is installed with us is found."""
    env = {key: value for key, value in os.environ.items() if key in _INHERITED or key.startswith("LC_")}
    env |= {key: _without_login(os.environ[key]) for key in _PROXIES if key in os.environ}
    env["PATH"] = os.pathsep.join(filter(None, [env.get("PATH", os.defpath), str(Path(sys.executable).parent)]))
    return env


def _without_login(address: str) -> str:
    """Return the address of a proxy without a user name and password."""
    found = _SCHEME.match(address)
    scheme = found[0] if found is not None else ""
    return scheme + address[len(scheme) :].rpartition("@")[2]
