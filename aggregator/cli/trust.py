"""`aggregator trust`: manages the list of folders whose configuration is used without `--config`."""

import os
import sys
from pathlib import Path

from aggregator.cli.runtime.setup import environment
from aggregator.cli.runtime.tables import one_line, print_rows
from aggregator.cli.runtime.writer import say
from aggregator.config.errors import ConfigError
from aggregator.config.files.find import FILE, own_file, trust_list
from aggregator.config.files.jsonfile import read_bytes
from aggregator.config.files.trust import TrustList, digest_of
from aggregator.config.load import load
from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import OperatorError


def run(path: Path | None, listed: bool, remove: bool) -> int:
    """Trust the current configuration of a folder, remove it from the list, or print the list.

    Raises:
        OperatorError: the file cannot be used, is not in the list, or the list cannot be read or written.
    """
    known = trust_list(os.environ)
    if listed:
        if path is not None or remove:
            raise OperatorError("--list takes nothing else.")
        return _list(known)
    file = _file(path)
    if remove:
        if not known.remove(file):
            raise OperatorError(f"{file} was not trusted. `aggregator trust --list` says what is.")
        say(f"{file} is not trusted any more.")
        return 0
    return _add(known, file)


def _file(path: Path | None) -> Path:
    given = Path.cwd() / os.path.expanduser(path or Path())
    file = given if given.name == FILE and not given.is_dir() else given / FILE
    if given.is_file() and given.name != FILE:
        raise OperatorError(f"Only the {FILE} of a folder is looked for: name {given} with --config.")
    return file.parent.resolve() / file.name


def _add(known: TrustList, file: Path) -> int:
    content = read_bytes(file)
    loaded = load(file, environment())
    for server in loaded.config.servers:
        say(one_line(loaded.redactor(_said(server))))
    for problem in loaded.problems:
        say(problem)
    known.add(file, content)
    say(f"{file} is trusted as it is now: it is used in its folder, and has to be trusted again after an edit.")
    own = own_file(os.environ)
    if os.path.exists(own):
        say(f"Your own {own} is there too and goes before it: name this one with --config, or take your own away.")
    return 0


def _said(server: ServerConfig) -> str:
    """Return in one line the program that a server starts on this machine, or the address it connects to."""
    if server.command is not None:
        what = f"starts {' '.join((server.command, *server.args))}"
    elif server.target is not None:
        what = f"runs the Python object {server.target}"
    else:
        what = f"connects to {server.url}"
    if server.launch is not None:
        what += f", starts {' '.join((server.launch.command, *server.launch.args))}"
    for text in server.references:
        for reference in text.references:
            if reference.kind == "command":
                what += f", runs {' '.join(reference.words)} for a secret"
    return f"{server.id}: {what}{'' if server.enabled else ' (switched off)'}"


def _list(known: TrustList) -> int:
    if not known.entries():
        say("No file is trusted. `aggregator trust` trusts the aggregator.json of this folder.", file=sys.stderr)
        return 0
    rows = [("FILE", "STATE")]
    rows += [(one_line(path), _state(Path(path), digest)) for path, digest in known.entries().items()]
    print_rows(rows)
    return 0


def _state(file: Path, digest: str) -> str:
    if not os.path.exists(file):
        return "gone"
    try:
        return "trusted" if digest_of(read_bytes(file)) == digest else "changed since"
    except ConfigError:
        return "cannot be read"
