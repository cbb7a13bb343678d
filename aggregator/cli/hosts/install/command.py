"""`aggregator install HOST`: preview, question, writing, and what to do next."""

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggregator.cli.hosts.install.ask import ask
from aggregator.cli.hosts.install.build import BuiltInstall, build_plan
from aggregator.cli.hosts.install.host_files import other_files
from aggregator.cli.hosts.install.listing import list_hosts
from aggregator.cli.hosts.install.options import InstallOptions
from aggregator.cli.hosts.install.paste import text_to_paste
from aggregator.cli.hosts.install.plan import InstallPlan
from aggregator.cli.hosts.install.preview import Preview
from aggregator.cli.hosts.install.records import InstallRecord, InstallRecords
from aggregator.cli.hosts.install.undo import (
    check_unchanged,
    newest,
    removal_previews,
    removals,
    restore_all,
    restored_previews,
    write_removals,
)
from aggregator.cli.hosts.install.writing import write_changes
from aggregator.cli.keys import end_key, store_key
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.config.files.find import platform_folder, trust_list
from aggregator.domain.errors import OperatorError
from aggregator.editing.errors import EditError
from aggregator.editing.replace import backup_path, only_for_owner
from aggregator.hosts.every_host import host_named
from aggregator.hosts.machine import this_machine
from aggregator.hosts.model import HostProgram, Machine

# A host that rewrites its file all the time is tried again so often, as long as its servers stay the same.
_ATTEMPTS = 6
_HIDDEN = "Values that may be secrets are shown as [redacted]; the files keep them as they are."
_WRITES = (
    "It writes its file from what it has read at its start, so the change would be lost: quit it first, its icon in "
    "the menu bar or tray included."
)
_NOT_ASKED = "Nothing was written. Add --write to write it."


@dataclass(slots=True)
class InstallOutput:
    """The lines for users, printed immediately, or the object for programs, printed at the end."""

    as_json: bool
    found: dict[str, Any]

    def say(self, text: str) -> None:
        """Print a text for users."""
        if not self.as_json:
            say(text)

    def show(self, previews: Iterable[Preview]) -> None:
        """Print diffs."""
        shown = list(previews)
        self.found["diffs"] = [preview.diff for preview in shown]
        for preview in shown:
            self.say(preview.diff.rstrip("\n").expandtabs(4))
        if any(preview.hidden for preview in shown):
            self.say(_HIDDEN)

    def end(self, action: str, **more: Any) -> int:
        """Print the object for programs, and return the exit code."""
        if self.as_json:
            say(json.dumps({**self.found, "action": action, **more}, ensure_ascii=False, indent=2))
        return 0


def run(options: InstallOptions) -> int:
    """Write our entry into the file of a host, or undo that.

    Raises:
        OperatorError: there is no such host or file, it cannot be edited, or something else is in the way.
    """
    if options.host is None:
        if options.undo or options.write:
            raise OperatorError("Name a host. `aggregator install` alone lists them.")
        return list_hosts(options.config, options.as_json)
    host = host_named(options.host)
    options.check()
    if options.undo:
        return _undo(host, options)
    machine = this_machine()
    if not host.files(machine):
        return _paste(host, machine, options)
    return _install(host, machine, options)


def _paste(host: HostProgram, machine: Machine, options: InstallOptions) -> int:
    """Print the text to paste into the settings of a host without a file of its own."""
    text, remarks = text_to_paste(host, machine, options)
    output = InstallOutput(options.as_json, {"host": host.id, "paste": text, "remarks": list(remarks)})
    output.say(host.paste or f"{host.title} has no file of its own. Paste this into its settings:")
    output.say(text)
    for remark in remarks:
        output.say(one_line(remark))
    return output.end("paste")


def records() -> InstallRecords:
    """Return the records of this user."""
    return InstallRecords(platform_folder(os.environ) / "aggregator" / "installed")


def _install(host: HostProgram, machine: Machine, options: InstallOptions) -> int:
    built = build_plan(host, machine, options)
    plan = built.plan
    output = InstallOutput(
        options.as_json,
        {
            "host": host.id,
            "file": str(plan.file.path),
            "entry": plan.name,
            "remarks": list(plan.remarks),
            "moves": [{"name": move.name, "as": move.key, "said": move.said} for move in plan.moves],
        },
    )
    output.say(one_line(f"{host.title} reads {plan.file.path} ({plan.file.scope})."))
    for other in other_files(plan.file, host, machine):
        output.say(one_line(f"It reads {other.path} too: name that with --file to write there."))
    if plan.changes_nothing:
        output.say("Its entry points here already: there is nothing to write.")
        return output.end("unchanged")
    output.show(plan.previews())
    for move in plan.moves:
        output.say(one_line(f"{move.name}: {move.said}"))
    for remark in plan.remarks:
        output.say(one_line(remark))
    _say_running(host, machine, plan.file.path, output)
    answer = ask("Write this?", options.write)
    if answer != "yes":
        output.say(_NOT_ASKED if answer == "not asked" else "Nothing was written.")
        return output.end("preview")
    _check_ended(host, machine, plan.file.path, options)
    written = _write_with_key(built)
    if clear := sum(move.secrets for move in plan.moves):
        only_for_owner(*(path for change in written.changes for path in (change.path, backup_path(change.path))))
        output.say(
            f"{clear} secret{'' if clear == 1 else 's'} in the clear moved with them, into a file that is for this "
            "user alone. `aggregator import --secrets keyring` before a take-over stores them better."
        )
    backups = [f"{change.path}.bak" for change in written.changes if change.before is not None]
    for backup in backups:
        output.say(one_line(f"Previous version: {backup}"))
    output.say(f"Written. {host.after_install}")
    output.say(f"`aggregator install {host.id} --undo` restores {'both files' if plan.moved else 'the file'}.")
    return output.end("installed", backups=backups, next=host.after_install)


def _say_running(host: HostProgram, machine: Machine, path: Path, output: InstallOutput) -> None:
    if host.state(machine, path).running is not None:
        output.found["running"] = True
        output.say(f"{host.title} is running. {_WRITES}")


def _check_ended(host: HostProgram, machine: Machine, path: Path, options: InstallOptions) -> None:
    """Refuse to write the file of a running host that writes it too. Raises OperatorError."""
    mark = host.state(machine, path).running
    if mark is not None and not options.while_running:
        raise OperatorError(
            f"{host.title} is running, so nothing was written. {_WRITES} If it does not run, {mark} is left from a "
            "crash: add --while-running."
        )


def _write_with_key(built: BuiltInstall) -> InstallRecord:
    """Write a plan, whose key is valid from before; it is revoked if the plan cannot be written."""
    if built.key is None:
        return _write(built.plan)
    audited, chain_key = built.audited, built.chain_key
    store_key(built.storage, built.key, audited=audited, chain_key=chain_key)
    try:
        return _write(built.plan)
    except OperatorError:
        end_key(built.storage, built.key.record.key_id, audited=audited, chain_key=chain_key)
        raise


def _write(plan: InstallPlan) -> InstallRecord:
    kept = records()
    for _ in range(_ATTEMPTS - 1):
        try:
            return _write_once(plan, kept)
        except EditError as error:
            # The host wrote its file since it was read. What was shown is about the servers in it alone.
            again = plan.again()
            if again is None or again.edited.was == plan.edited.was:
                raise error
            plan = again
    return _write_once(plan, kept)


def _write_once(plan: InstallPlan, kept: InstallRecords) -> InstallRecord:
    written = write_changes(kept, plan.record(), plan.contents())
    if plan.config is not None and plan.config.trusted:
        trust_list(os.environ).add(plan.config.path, plan.config.file.content)
    return written


def _undo(host: HostProgram, options: InstallOptions) -> int:
    kept = records()
    record = newest(kept, host.id, host.title, options.file, options.name)
    files = [str(change.path) for change in reversed(record.changes)]
    at = time.strftime("%Y-%m-%d %H:%MZ", time.gmtime(record.at))
    output = InstallOutput(options.as_json, {"host": host.id, "entry": record.entry, "files": files})
    edits = removals(record) if options.only_entry else ()
    if not options.only_entry:
        check_unchanged(record, kept)
    output.say(f"The install into {host.title} of {at}:")
    if options.only_entry:
        output.show(removal_previews(edits))
        for edit in edits:
            for remark in edit.remarks:
                output.say(one_line(remark))
    else:
        output.show(restored_previews(record))
    machine = this_machine()
    _say_running(host, machine, record.host_file, output)
    answer = ask("Restore this?", options.write)
    if answer != "yes":
        output.say(_NOT_ASKED if answer == "not asked" else "Nothing was written.")
        return output.end("preview")
    _check_ended(host, machine, record.host_file, options)
    if options.only_entry:
        for backup in write_removals(edits, record, kept):
            output.say(one_line(f"The version before this: {backup}"))
        output.say(f"Removed our entry from {record.host_file}; the rest is unchanged. {host.next_step}")
    else:
        restore_all(record, kept)
        for file in files:
            output.say(one_line(f"{file} is restored."))
        output.say(host.next_step)
    if record.key_id is not None:
        output.say(f"The key that was made for it still counts: aggregator keys revoke {record.key_id}")
    return output.end("undone", key_id=record.key_id)
