"""The key of an entry: in which configuration it stands, and what it starts or calls.

What is remembered of a server belongs to this key, not to the server's name: two configurations may give one name to
different servers, and an operator may give it to another one.
Rule: no secret is in it: a renewed token changes nothing, and the key helps no guess at one.
"""

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from aggregator.config.server_config import ServerConfig
from aggregator.config.servers.secrets import secrets_in

# Hexadecimal digits of each half.
_HALF: Final = 24


def configuration_of(path: Path | None, storage: str | None, group: str) -> str:
    """Return the identity of a configuration: its file, or the group whose replicas share it.

    On a database server replicas have one configuration at several paths. The folder is resolved and the file is not:
    a mounted file is often a link that leads elsewhere with each change.
    """
    if storage is not None and storage.startswith("postgresql"):
        return f"group {group}"
    if path is None:
        return ""
    return f"file {os.path.realpath(path.absolute().parent)}/{path.name}"


def entry_key(configuration: str, server: ServerConfig) -> str:
    """Return 48 hexadecimal digits: half for the configuration, half for what the entry starts or calls."""
    return f"{_digest(configuration)}{_digest(json.dumps(_started(server), sort_keys=True))}"


def _started(server: ServerConfig) -> dict[str, object]:
    launch = server.launch
    fields = {"args": server.args, "url": server.url, "launch": launch.model_dump() if launch is not None else None}
    secrets = sorted(filter(None, secrets_in(fields)), key=len, reverse=True)

    def plain(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "*")
        return text

    started: dict[str, object] = {
        "command": server.command,
        "args": [plain(arg) for arg in server.args],
        "cwd": server.cwd,
        "target": server.target,
        "url": _address(server.url) if server.url is not None else None,
    }
    if launch is not None:
        started["launch"] = [launch.command, *(plain(arg) for arg in launch.args)]
        # The port is another one each time.
        started["url"] = None
    return started


def _address(url: str) -> str:
    """Return an address without its user, query and fragment, where secrets stand."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2].lower(), parts.path.rstrip("/"), "", ""))


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HALF]
