"""`aggregator secrets set`, `list` and `delete`.

Law: a value is read from the terminal or from stdin, goes to the keyring, and is never printed.
"""

import getpass
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from aggregator.cli.runtime.setup import environment
from aggregator.cli.runtime.tables import one_line, print_rows
from aggregator.cli.runtime.writer import as_shown, say
from aggregator.cli.secrets.store import backend_name, can_store, check_name, delete, store, stored_names
from aggregator.config.errors import ConfigError, ConfigMissing
from aggregator.config.files.find import find_config
from aggregator.config.load import load_found
from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import OperatorError
from aggregator.domain.shell import shell_word
from aggregator.secret_sources.program_run import MOST
from aggregator.secret_sources.reference import SecretReference

# Keyrings of `keyrings.alt` that encrypt nothing.
_IN_THE_CLEAR: Final = ("PlaintextKeyring",)


def set_secret(name: str, given: bool, config: Path | None) -> int:
    """Store a secret. `given`: something stood behind the name on the command line.

    Raises:
        OperatorError: the name or value cannot be used, or there is no keyring.
    """
    if given:
        raise OperatorError(
            "A secret is never given as an argument, since other users see it in the list of processes and the shell "
            f"keeps it: write `aggregator secrets set {shell_word(one_line(name)[:60])}` alone, then type it, or "
            "pipe it in."
        )
    check_name(name)
    if (problem := can_store()) is not None:
        raise OperatorError(problem)
    users = _users(config).get(name, ())
    store(name, _read(name))
    say(f"The secret `{name}` is stored. Refer to it as ${{keyring:{name}}}.")
    if users:
        say(f"It counts with the next connection of {', '.join(users)}; one that is down tries again by itself.")
    if any(kind in backend_name() for kind in _IN_THE_CLEAR):
        say("Beware: the keyring in use keeps secrets in a file in the clear.", file=sys.stderr)
    return 0


def list_secrets(config: Path | None, as_json: bool) -> int:
    """Print the names that were stored here or are referred to, and the servers that refer to each."""
    stored, users = stored_names()(), _users(config)
    names = sorted({*stored, *users})
    if as_json:
        found = [{"name": name, "stored_here": name in stored, "servers": list(users.get(name, ()))} for name in names]
        say(json.dumps(found, ensure_ascii=False, indent=2))
        return 0
    if not names:
        say("No secret is stored or referred to. `aggregator secrets set NAME` stores one.", file=sys.stderr)
        return 0
    rows = [("NAME", "STORED WITH `set`", "REFERRED TO BY")]
    rows += [
        (one_line(name), "yes" if name in stored else "no", ", ".join(users.get(name, ())) or "-") for name in names
    ]
    print_rows(rows)
    return 0


def delete_secret(name: str, config: Path | None) -> int:
    """Delete a secret. Raises OperatorError."""
    users = _users(config).get(name, ())
    delete(name)
    say(f"The secret `{name}` is deleted.")
    if users:
        say(f"It is still referred to by {', '.join(users)}, which cannot connect without it.", file=sys.stderr)
    return 0


def references_of(server: ServerConfig) -> Iterable[SecretReference]:
    """Return the references to secrets in the entry of a server, each once."""
    return dict.fromkeys(reference for text in server.references for reference in text.references)


def _users(config: Path | None) -> Mapping[str, tuple[str, ...]]:
    """Return the servers by the names in the keyring that they refer to.

    Only a configuration that was named has to be usable: secrets are stored before one is written.
    """
    try:
        loaded = load_found(find_config(config, Path.cwd(), os.environ), environment())
    except ConfigError as error:
        if config is not None:
            raise
        if not isinstance(error, ConfigMissing):
            say(f"aggregator: no server is looked at: {one_line(str(error))}", file=sys.stderr)
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for server in loaded.config.servers:
        for reference in references_of(server):
            if reference.kind == "keyring":
                found[reference.name] = (*found.get(reference.name, ()), server.id)
    return found


def _read(name: str) -> str:
    """Return the value, typed at the terminal without echo, or read from stdin; its last line break does not count."""
    if sys.stdin.isatty():
        try:
            value = getpass.getpass(as_shown(f"Value of {name} (it is not shown): "))
        except EOFError:
            value = ""
    else:
        data = sys.stdin.buffer.read(MOST + 1)
        if len(data) > MOST:
            raise OperatorError(f"A secret may have {MOST // 1024} KiB; nothing was stored.")
        try:
            value = data.decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            raise OperatorError("The secret is not UTF-8 text; nothing was stored.") from None
    if not value:
        raise OperatorError("The secret is empty; nothing was stored.")
    return value
