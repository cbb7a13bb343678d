"""The host's own servers moved into our configuration, by the rules of `aggregator import`."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from aggregator.cli.hosts.import_plan import ImportRow, plan_import
from aggregator.cli.hosts.install.plan import ServerMove
from aggregator.cli.servers.edit import ConfigEdit
from aggregator.config.servers.foreign import translate
from aggregator.hosts.discover import discover
from aggregator.hosts.model import HostFile, HostProgram, Machine
from aggregator.hosts.own import conflicts, lacking


def server_moves(
    host: HostProgram,
    file: HostFile,
    machine: Machine,
    names: Collection[str],
    config: ConfigEdit,
    ports: Collection[int],
) -> tuple[ServerMove, ...]:
    """Add the servers of a host's file to an edit of our configuration, and return what becomes of each.

    Raises:
        OperatorError: our configuration cannot be edited safely.
    """
    before = dict(config.servers)
    # The same path may be a project's file too, with another meaning of relative paths.
    found = discover(machine, [replace(host, files=lambda _: (file,))])
    moves: list[ServerMove] = []
    for row in plan_import(found, before, ports=ports).rows:
        name = row.found.name
        if name not in names:
            moves.append(ServerMove(name, None, said="stays: it has no name in its file."))
        elif any(name == move.name for move in moves):
            moves.append(ServerMove(name, None, said="stays: its name is there twice."))
        elif move := _move(row, before):
            moves.append(move)
            if move.key is not None and move.fields is not None:
                config.add_entry(move.key, move.fields)
    return tuple(moves)


def _move(row: ImportRow, before: Mapping[str, object]) -> ServerMove | None:
    name, notes = row.found.name, " ".join(row.notes)
    if row.outcome == "own":
        return None
    if row.outcome == "add" and row.key is not None:
        said = f"moves into our configuration as {row.key}. {notes}".rstrip()
        return ServerMove(name, row.key, row.entry, said, len(row.places))
    if row.outcome in ("present", "repeated") and row.like is not None:
        key = re.sub(r"^`([^`]*)`.*", r"\1", row.like, flags=re.DOTALL)
        if differing := sorted(set(_differing(row, before.get(key)))):
            said = f"stays: our configuration has it as {key}, with other values of {', '.join(differing)}."
            return ServerMove(name, None, None, said)
        return ServerMove(name, key, None, f"goes: our configuration has it as {key}. {notes}".rstrip())
    reason = f"stays: {row.like}." if row.outcome == "unusable" and row.like else "stays."
    return ServerMove(name, None, None, f"{reason} {notes}".rstrip())


def _differing(row: ImportRow, there: object) -> Iterator[str]:
    """Yield the variables and headers that would be lost with the entry."""
    if not isinstance(there, Mapping) or row.found.fields is None:
        return
    mine, theirs = row.found.fields, translate(there).fields
    yield from conflicts(mine, theirs)
    yield from lacking(mine, theirs)
