"""The environment of a child process: a selection from the aggregator's own."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aggregator.redaction.field_names import NameVerdict, SecretNames

# Variables by which programs find certificates and proxies, and package managers their registries.
CERTIFICATES: Final = frozenset(
    {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"}
)
NO_PROXIES: Final = frozenset({"NO_PROXY", "no_proxy"})
# Variables that are passed on without a user name and password; a server that needs these gets them by its `env`.
PROXIES: Final = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"})
_PACKAGES: Final = re.compile(r"(?:UV|PIP|NPM_CONFIG)_[A-Z0-9_]+")
# npm sets these for what it runs itself, and so does uv: they are about one run.
_PACKAGES_SMALL: Final = frozenset(
    {"npm_config_registry", "npm_config_cafile", "npm_config_userconfig", "npm_config_strict_ssl"}
    | {"npm_config_proxy", "npm_config_https_proxy", "npm_config_noproxy"}
)
_ONE_RUN: Final = re.compile(r"UV_(?:RUN|INTERNAL|PUBLISH)_\w+|UV_PROJECT\w*|UV_WORKING_DIR\w*|UV_ENV_FILE")
# The text of a private key, not the path of its file.
_KEY: Final = "NPM_CONFIG_KEY"
# Other variables that a server may see; the rest may hold secrets of other servers.
_INHERITED: Final = frozenset(
    {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"}
    | {"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"}
    | {"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMFILES"}
    | {"SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE", "WINDIR"}
)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_NAMES: Final = SecretNames()


def environment() -> dict[str, str]:
    """Return the variables for every child. PATH ends with the folder of our own programs, so that these are found."""
    env = passed_on(as_named(os.environ))
    env["PATH"] = os.pathsep.join(filter(None, [env.get("PATH", os.defpath), str(Path(sys.executable).parent)]))
    return env


def as_named(env: Mapping[str, str]) -> dict[str, str]:
    """Return variables under names that can be compared: in capitals on Windows, where `Path` is `PATH`."""
    return {name.upper(): value for name, value in env.items()} if sys.platform == "win32" else dict(env)


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a child gets of these, without user names and passwords in addresses."""
    env = {key: value for key, value in environ.items() if key in _INHERITED or key.startswith("LC_")}
    return env | network_variables(environ)


def network_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables about certificates, proxies and package registries that a child gets of these."""
    plain = {key: value for key, value in environ.items() if key in CERTIFICATES or key in NO_PROXIES}
    addresses = {key: value for key, value in environ.items() if key in PROXIES or of_packages(key)}
    return plain | {key: _without_logins(value) for key, value in addresses.items()}


def of_packages(name: str) -> bool:
    """Return whether a variable is a setting of a package manager, and no secret by its name."""
    if name not in _PACKAGES_SMALL and (not _PACKAGES.fullmatch(name) or _ONE_RUN.fullmatch(name)):
        return False
    return _NAMES.verdict(name) is NameVerdict.NOTHING and "USERNAME" not in name and name != _KEY


def _without_logins(value: str) -> str:
    """Return addresses, of which there may be several with spaces between, without user names and passwords."""
    return " ".join(_without_login(address) for address in value.split(" "))


def _without_login(address: str) -> str:
    """Return an address without a user name and password; `NAME=` before it stays, as indexes of uv have it."""
    found = _SCHEME.search(address)
    before = address[: found.end()] if found is not None else ""
    rest = address[len(before) :]
    return before + rest.rpartition("@")[2] if found is not None or "@" in rest else address
