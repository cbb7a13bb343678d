"""The database and its disk. This file decides."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from aggregator import DISTRIBUTION
from aggregator.doctor.finding import CheckFinding, found
from aggregator.domain.shell import in_turn, keep_private, let_write, make_folder, move_file, remove_file, shell_word
from aggregator.pins.decide.spelling import said_of_respelled
from aggregator.system.file_rights import CLOSED, OpenTo, said_of

DatabaseFault = Literal[
    "url", "folder", "read_only", "damaged", "locked", "too_new", "too_old", "unreachable", "refused", "driver"
]

# Names in one sentence.
_NAMED: Final = 5
_MIB: Final = 2**20
_FULL: Final = 16 * _MIB
_LOW: Final = 512 * _MIB


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """The database: `path` is its file, None for a database server; `fault` is why it cannot be used.

    `exists`: the file is there. `stamp` is the revision of its schema, `newest` ours. `aside` are damaged files beside
    it. `free` is the room on its disk in bytes. `mode` are the permission bits of the file. `owner` is the name of its
    owner, or of its folder's, if that is another user. `said` is without secrets.
    """

    path: Path | None
    exists: bool = False
    fault: DatabaseFault | None = None
    said: str = ""
    stamp: str | None = None
    newest: str = ""
    aside: Sequence[Path] = ()
    free: int | None = None
    mode: int | None = None
    # The groups with rights to it on Windows.
    others: OpenTo = CLOSED
    owner: str | None = None


def of_storage(facts: StorageFacts, *, audited: bool) -> Iterator[CheckFinding]:
    """Yield the findings about the database and its disk."""
    if facts.fault is not None:
        yield _faulty(facts)
    elif facts.stamp is not None and facts.stamp < facts.newest:
        said = f"The database has schema {facts.stamp}; the next start brings it to {facts.newest}."
        yield found("database_old", said, "Nothing needs to be done; keep a copy if you want to go back.", facts.path)
    for lost in facts.aside:
        yield found(
            "database_set_aside",
            f"{lost} is a damaged database: the keys in it are lost, and requests without a key are refused while it "
            "lies there.",
            f"Make the keys again, then run `{remove_file(lost)}`.",
            lost,
        )
    if facts.mode is not None and facts.mode & 0o077 and facts.path is not None:
        yield found(
            "database_open",
            f"Other users can read the database {facts.path} (mode {facts.mode:o}).",
            f"Run `{keep_private(facts.path)}`.",
            facts.path,
            safe=True,
        )
    if facts.others.readers and facts.path is not None:
        yield found(
            "database_open",
            f"{said_of(facts.others.readers)} can read the database {facts.path}.",
            f"Run `{keep_private(facts.path, windows=True)}`.",
            facts.path,
        )
    if facts.free is not None and facts.free < _LOW:
        folder = facts.path.parent if facts.path is not None else "its folder"
        said = f"The disk of {folder} has {facts.free // _MIB} MiB left"
        if facts.free < _FULL:
            fix = "Make room, or name a database on another disk with `storage`."
            yield found("disk_full", f"{said}: keys and the audit cannot be written.", fix, folder)
        else:
            fix = 'Make room, or bound the audit: "audit": {"keep_bytes": "100MiB"}.'
            yield found("disk_low", f"{said}.", fix, folder)
    if not audited:
        yield found(
            "audit_off", "The audit is switched off: no call is recorded.", 'Take "enabled": false out of "audit".'
        )


def of_chain(begun_with: str | None, key: str | None) -> Iterator[CheckFinding]:
    """Yield whether the audit log was begun with another key than the one that is configured; both are their ids."""
    if begun_with is not None and begun_with != key:
        has = "another one is" if key is not None else "none is"
        yield found(
            "audit_chain_key",
            f"The audit log was begun with a key, and {has} configured, so no row is written to it.",
            'Put the key back: "audit": {"chain_key": "${AGGREGATOR_CHAIN_KEY}"}.',
            "audit.chain_key",
        )


def of_held(
    held: Mapping[str, Sequence[str]],
    less: Mapping[str, Sequence[str]],
    withheld: Mapping[tuple[str, str], str],
    servers: Collection[str],
) -> Iterator[CheckFinding]:
    """Yield the configured servers with definitions that wait for an approval, given by their names. `less`: those of
    which the server no longer takes all approved calls. `withheld`: by server and name, the approved names under which
    tools are served that their servers spell otherwise now.
    """
    for server, names in held.items():
        if server in servers:
            refused = less.get(server, ())
            some = f" Calls of {_some(refused)} that the server no longer takes are refused." if refused else ""
            respelled = [said_of_respelled(old, name) for name in names if (old := withheld.get((server, name)))]
            more = ["and others"] if len(respelled) > _NAMED else []
            otherwise = f" {', '.join([*respelled[:_NAMED], *more])}." if respelled else ""
            yield found(
                "definitions_held",
                f"{server} has definitions that wait for an approval: {_some(names)}. What was approved goes on, "
                f"unless all calls of it could fail.{some}{otherwise}",
                f"Look at `aggregator pins diff {server}`, then run `aggregator pins approve {server}`.",
                server,
            )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"{name!r:.60}" for name in names[:_NAMED]) + more


def _faulty(facts: StorageFacts) -> CheckFinding:
    path = facts.path
    aside = move_file(path, f"{path}.old") if path is not None else ""
    if facts.fault == "url":
        return found("database_url", facts.said, "Correct `storage`, or take it out: there is a default.", "storage")
    if facts.fault == "folder":
        folder = make_folder(path.parent) if path is not None else ""
        fix = f"Run `{folder}` as a user who may, or correct `storage`."
        return found("database_folder", f"The folder of the database {path} cannot be made: {facts.said}", fix, path)
    if facts.fault == "driver":
        fix = f"Run `pip install {shell_word(f'{DISTRIBUTION}[postgres]')}` in the environment of the aggregator."
        return found("database_driver", facts.said, fix, "storage")
    if facts.fault == "refused":
        return found("database_refused", facts.said, "Try it with `psql`, and correct `storage`.", "storage")
    if facts.fault == "read_only" and path is None:
        return found("database_read_only", facts.said, "Grant it, or name the primary in `storage`.", "storage")
    if facts.fault == "read_only" and facts.owner is not None and path is not None:
        said = f"The database {path} or its folder belongs to {facts.owner}, so you cannot write it."
        fix = (
            f'Give it to your user: `sudo chown -R "$USER" {shell_word(str(path.parent))}`; and start the aggregator '
            "as one user alone, not with `sudo`."
        )
        return found("database_read_only", said, fix, path)
    if facts.fault == "read_only" and path is not None:
        fix = f"Run {in_turn(let_write(path.parent), let_write(path))}."
        return found("database_read_only", f"The database {path} or its folder cannot be written.", fix, path)
    if facts.fault == "damaged" and path is None:
        fix = "Restore a backup (`aggregator restore`) into an empty database, and name it in `storage`."
        return found("database_damaged", f"The tables on the database server cannot be read: {facts.said}", fix, path)
    if facts.fault == "damaged":
        fix = f"Put a copy back; or run `{aside}`, and make keys again."
        return found("database_damaged", f"The database {path} is damaged: {facts.said}", fix, path)
    if facts.fault == "locked":
        fix = "End the program that holds it, such as a database browser."
        return found("database_locked", f"Another program has locked the database {path}.", fix, path)
    if facts.fault == "too_new":
        where = path or "on the server"
        said = f"The database {where} was changed by a newer version of the aggregator (schema {facts.stamp})."
        fix = 'Use that version, or name another file: "storage": "sqlite:///other.db".'
        return found("database_too_new", said, fix, path)
    if facts.fault == "too_old":
        where = path or "on the server"
        said = (
            f"The database {where} is from before the first release (schema {facts.stamp}) and cannot be upgraded: "
            "nothing that uses it starts."
        )
        if path is None:
            return found("database_too_old", said, "Make an empty database, and name it in `storage`.", "storage")
        return found("database_too_old", said, f"Run `{aside}`, and make keys again.", path)
    return found("database_unreachable", facts.said, "Start the database server, or correct `storage`.", "storage")
