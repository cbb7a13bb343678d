"""Plain-text secrets in imported entries, and the better places for them.

`keyring` keeps them in the user's keyring, `file` in files of mode 0600 beside the configuration.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from aggregator.cli.hosts.import_plan import ImportRow
from aggregator.cli.secrets.store import can_store, store, stored_names
from aggregator.config.files.private_file import write_private
from aggregator.config.servers.secret_places import SecretPlace, with_references
from aggregator.domain.errors import OperatorError
from aggregator.domain.ordinary_files import is_reserved

SecretsChoice = Literal["keep", "keyring", "file"]
FOLDER: Final = "secrets"


def moved(rows: Sequence[ImportRow], choice: SecretsChoice, config: Path) -> list[ImportRow]:
    """Store the secrets of the rows in their new place, and return the rows with references to them.

    Nothing is stored when the keyring cannot take them. A file of secrets is never written over.

    Raises:
        OperatorError: the keyring or the folder cannot be used.
    """
    if choice == "keep":
        return list(rows)
    if choice == "keyring" and (problem := can_store()):
        raise OperatorError(f"{problem} Or import with `--secrets file`, or `--secrets keep`.")
    taken = set(stored_names()()) if choice == "keyring" else _files(config)
    made = []
    for row in rows:
        references: dict[SecretPlace, str] = {}
        values: dict[str, str] = {}
        for place in row.places:
            name = values.get(place.secret) or _free(f"{row.key}.{place.name}", taken)
            values[place.secret] = name
            references[place] = f"${{keyring:{name}}}" if choice == "keyring" else f"${{file:{FOLDER}/{name}}}"
        for secret, name in values.items():
            if choice == "keyring":
                store(name, secret)
            else:
                _keep_in_file(config, name, secret)
        entry = with_references(row.entry or {}, references)
        made.append(replace(row, entry=entry, places=()))
    return made


def _keep_in_file(config: Path, name: str, secret: str) -> None:
    folder = config.parent / FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(f"{folder} cannot be made: {error.strerror or error}.") from None
    write_private(folder / name, f"{secret}\n")


def _files(config: Path) -> set[str]:
    try:
        return {entry.name for entry in (config.parent / FOLDER).iterdir()}
    except OSError:
        return set()


def _free(wanted: str, taken: set[str]) -> str:
    """Return a name that is not taken, without regard to case, and take it."""
    wanted = re.sub(r"[^A-Za-z0-9._-]", "-", wanted)[:150]
    if is_reserved(wanted):
        # Windows writes such a name into a device. Other systems do not, but people copy the folder to Windows.
        wanted = f"secret-{wanted.rstrip('.')}"
    folded: Collection[str] = {name.casefold() for name in taken}
    name, number = wanted, 2
    while name.casefold() in folded:
        name, number = f"{wanted}-{number}", number + 1
    taken.add(name)
    return name
