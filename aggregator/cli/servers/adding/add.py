"""`aggregator add`: the entry made, shown, tried and written."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.logs import start_logging
from aggregator.cli.runtime.setup import environment
from aggregator.cli.servers.adding.asking import ask_value, at_terminal, confirmed
from aggregator.cli.servers.adding.draft import EntryDraft, drafted
from aggregator.cli.servers.adding.entries import BuiltEntry, auth_per, plain_entry, planned_entry
from aggregator.cli.servers.adding.report import AddReport, PrintableEntry
from aggregator.cli.servers.adding.request import AddRequest
from aggregator.cli.servers.adding.trial import try_server
from aggregator.cli.servers.edit import ConfigEdit, open_config
from aggregator.config.load import Loaded, load_content
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import OperatorError
from aggregator.domain.shell import shell_word
from aggregator.editing.replace import only_for_owner

# Seconds for a connection: more if the first start may have to download the program.
_USUAL: Final = 30.0
_WITH_DOWNLOAD: Final = 180.0
_DOWNLOADING: Final = frozenset({"npx", "bunx", "pnpm", "yarn", "uvx", "uv", "pipx", "docker", "podman", "dnx"})
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z0-9_]+)\}")
_NOTHING_DONE: Final = "Nothing was started and nothing was written."


def run(request: AddRequest) -> int:
    """Add a server; return 1 if it was not written.

    Raises:
        OperatorError: the request, its source or the configuration cannot be used.
    """
    _check_texts(request)
    edit = open_config(request.config)
    draft = drafted(request, _registry(edit)) if request.source is not None else None
    name = request.name or (draft.plan.name if draft is not None else "")
    if name in edit.servers and not request.replace:
        raise OperatorError(f"{edit.path} has a server {name!r:.80} already. Choose another name, or add --replace.")
    asks = ask_value if at_terminal() and not request.yes and not request.as_json else None
    built = planned_entry(request, draft, ask=asks) if draft is not None else plain_entry(request)
    shown = PrintableEntry(built.entry, built.secrets)
    loaded, server = _checked(edit, name, built, shown)
    report = AddReport(name, edit.path, built, shown, expose=loaded.config.expose, config=request.config)
    report.notes += [*(draft.plan.notes if draft is not None else ()), *(draft.notes if draft is not None else ())]
    report.notes += [*built.left_out, *_missing_programs(built.entry)]
    report.gone += _not_set(built.entry)
    if not request.as_json:
        report.preview()
    try:
        status = _added(request, report, edit, draft, loaded, server)
    except BaseException:
        _forget(draft, report)
        raise
    if request.as_json:
        report.print_json()
    else:
        report.end()
    return status


def _added(
    request: AddRequest,
    report: AddReport,
    edit: ConfigEdit,
    draft: EntryDraft | None,
    loaded: Loaded,
    server: ServerConfig,
) -> int:
    if draft is not None and not request.yes:
        if request.as_json or not at_terminal():
            report.said = f"{_NOTHING_DONE} Add --yes to go on."
            return 1
        if not confirmed("Start it once to see its tools, and write the entry?" if request.connect else "Write it?"):
            report.said = _NOTHING_DONE
            return 1
    if draft is not None and draft.bundle is not None:
        report.unpacked = draft.bundle.unpack()
    if request.connect and server.disabled_reason is not None:
        report.notes.append(f"It was not tried: {server.disabled_reason}")
    elif request.connect:
        start_logging("error", as_json=False, hide=loaded.redactor)
        limit = request.seconds or (_WITH_DOWNLOAD if _downloads(report.built.entry, draft) else _USUAL)
        report.trial = run_loop(try_server(loaded, server, limit, quiet=request.as_json))
        if not request.as_json:
            report.tried()
        if report.trial.login:
            _want_login(report, edit)
        elif report.trial.problem is not None and not request.anyway:
            _forget(draft, report)
            report.said = "Nothing was written. Mend it and try again, or add --anyway to write it as it is."
            return 1
    if report.built.entry.get("enabled") is False:
        edit.add_entry(report.name, report.built.entry, replace=True)
    if report.shown.clear:
        only_for_owner(edit.path)  # before they are in it; the new content and the backup keep the mode
    report.backup = edit.write_entry(report.name, replace=request.replace)
    report.written = True
    return 0


def _want_login(report: AddReport, edit: ConfigEdit) -> None:
    """Configure an account for a server that requires a login, and print how to connect it."""
    if "auth" not in report.built.entry:
        report.built.entry["auth"] = auth_per("shared")
        report.given_auth = True
        edit.add_entry(report.name, report.built.entry, replace=True)
    named = f" --config {shell_word(str(report.config))}" if report.config is not None else ""
    report.next = f"aggregator connect {shell_word(report.name)}{named}"


def _check_texts(request: AddRequest) -> None:
    for text in _texts(asdict(request)):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise OperatorError(f"{text!r:.60} is not UTF-8 text. Write it as UTF-8.") from None


def _registry(edit: ConfigEdit) -> str:
    """Return the address of the registry to ask. Raises OperatorError for one that cannot be used."""
    if edit.is_new:
        return str(Config.model_fields["registry"].default)
    loaded = load_content(edit.path, edit.file.content, environment())
    faulty = next((one for one in loaded.problems if one.where == "registry" and one.severity == "error"), None)
    if faulty is not None:
        # The default is another registry, whose server of the same name may be a different one.
        said = faulty.message.removesuffix(" The default is used.")
        raise OperatorError(f"{edit.path}: registry: {said} {faulty.fix}")
    return loaded.config.registry


def _checked(edit: ConfigEdit, name: str, built: BuiltEntry, shown: PrintableEntry) -> tuple[Loaded, ServerConfig]:
    """Put the entry into the document, switched on, and return the configuration with it.

    Raises:
        OperatorError: the entry is not one that the gateway would take.
    """
    entry = {key: value for key, value in built.entry.items() if key != "enabled"}
    edit.add_entry(name, entry, replace=name in edit.servers)
    loaded = load_content(edit.path, edit.file.content, environment())
    loaded.redactor.add(shown.secrets)
    server = next((server for server in loaded.config.servers if server.key == name), None)
    if server is None:
        where = edit.path_to(name)
        told = [one for one in loaded.problems if one.severity == "error" and name in one.where]
        why = " ".join(f"{one.message} {one.fix}" for one in told) or f"See what is wrong at {'.'.join(where)}."
        raise OperatorError(f"{name!r:.80} cannot be added to {edit.path}. {why}")
    return loaded, server


def _forget(draft: EntryDraft | None, report: AddReport) -> None:
    """Remove a bundle that was unpacked for an entry that is not written."""
    if draft is not None and draft.bundle is not None and report.unpacked:
        draft.bundle.remove()
        report.unpacked = False


def _downloads(entry: Mapping[str, Any], draft: EntryDraft | None) -> bool:
    program = str(entry.get("command") or entry.get("launch", {}).get("command", ""))
    named = os.path.basename(program).removesuffix(".cmd").removesuffix(".exe").lower()
    return named in _DOWNLOADING or (draft is not None and draft.plan.downloads)


def _missing_programs(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for a program that is not found on this machine."""
    program = entry.get("command") or entry.get("launch", {}).get("command")
    if not isinstance(program, str) or "${" in program or os.path.dirname(program):
        return
    if shutil.which(program) is None:
        yield f"{program:.80} is not found on PATH. {_INSTALL.get(program, 'Install it first.')}"


_INSTALL: Final = {
    "npx": "Install Node.js, which has it.",
    "bunx": "Install Bun, which has it.",
    "uvx": "Install uv, which has it.",
    "uv": "Install uv.",
    "docker": "Install Docker, or use podman.",
    "dnx": "Install the .NET SDK 10, which has it.",
}


def _not_set(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the environment variables that an entry refers to and that are not set, each once."""
    environ = environment()
    found = (name for text in _texts(entry) for name in _VARIABLE.findall(text))
    yield from dict.fromkeys(name for name in found if name not in environ)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
