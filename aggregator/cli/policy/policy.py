"""`aggregator policy check|explain|diff|test|init|schema`: works on the policy files without serving hosts."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from aggregator.app.health_page import address, asked
from aggregator.cli.policy.kept_tools import kept_tools, said_of_missing
from aggregator.cli.policy.policy_setup import (
    PolicySetup,
    check_arguments,
    check_schema,
    loaded_config,
    rulebook_of,
    setup_for,
    setup_of,
    usable,
)
from aggregator.cli.policy.token_claims import facts_in, read_claims
from aggregator.cli.policy.token_claims import lines as token_lines
from aggregator.cli.runtime.writer import say
from aggregator.config.errors import ConfigMissing
from aggregator.config.settings import HttpConfig
from aggregator.domain.decision import Decision
from aggregator.domain.errors import OperatorError
from aggregator.domain.ordinary_files import read_ordinary
from aggregator.domain.problems import Problem
from aggregator.domain.records import ToolRecord
from aggregator.flow.decide.decide_flow import EarlierRead
from aggregator.pins.cli.held_pins import HeldPin, HeldPins, held_pins
from aggregator.policy.annotations import Trusted
from aggregator.policy.compare.diff import ChangeGroup, PolicyDiff
from aggregator.policy.compare.edits import PolicyEdit
from aggregator.policy.explain import agents_allowed, earlier_reads, tools_allowed
from aggregator.policy.explain import explain as explain_one
from aggregator.policy.files import cases, schema
from aggregator.policy.files.folder import LARGEST, read_folder
from aggregator.policy.files.known_names import KnownNames
from aggregator.policy.files.lint import lint
from aggregator.policy.files.starter import FILE, starter
from aggregator.policy.full_names import find_by_full_name
from aggregator.policy.live import LivePolicies
from aggregator.policy.patterns import Target
from aggregator.policy.rulebook import Rulebook, target_of
from aggregator.policy.who import lacking

_UNKNOWN: Final = "Which definitions are held is not known"
_GROUPS: Final = 20
_NAMES: Final = 5


def check(path: Path | None, connect: bool = False, as_json: bool = False) -> int:
    """Print the problems of the policy files; return 1 if one is an error.

    With `connect` the servers are connected, and the patterns compared with their tools.
    """
    setup = setup_for(path)
    rulebook, problems = rulebook_of(setup)
    if rulebook is not None:
        known = setup.known(connect)
        # Rules may name a tool as it was approved, or as its server calls it.
        if known.tools is not None:
            known = replace(known, tools=(*known.tools, *held_pins(path).served()))
        problems = [*problems, *lint(rulebook, known)]
    errors = [problem for problem in problems if problem.severity == "error"]
    if as_json:
        say(json.dumps(_report(setup, rulebook, problems), ensure_ascii=False, indent=2))
        return 1 if errors else 0
    for problem in problems:
        say(problem)
    if rulebook is not None:
        files, agents = _many(len(rulebook.documents.files), "file"), _many(len(rulebook.agents), "agent")
        say(f"{setup.folder}: {files}, {agents}, revision {rulebook.revision}.")
    elif not problems:
        say(f"{setup.folder}: no policy files, so the local agent may do everything. `aggregator policy init` begins.")
    else:
        say(f"{setup.folder}: {_many(len(errors), 'error')}; these files would not come into force.")
    return 1 if errors else 0


def explain(
    path: Path | None, agent: str | None, tool: str | None, connect: bool = False, after: Sequence[str] = ()
) -> int:
    """Print why an agent may or may not call a tool; return 1 for a denial, and for a held tool.

    Without `tool` print all that the agent may call, without `agent` all agents that may call the tool. `after`: the
    full names, or labels, of the earlier reads in the conversation.

    Raises:
        OperatorError: the policy files cannot be used, or the tool is not named as `server.tool`.
    """
    if agent is None and tool is None:
        raise OperatorError("Name an agent, a tool, or both.")
    setup = setup_for(path)
    try:
        rulebook = usable(setup)
    except OperatorError:
        # A tool can be held without rules too, and while they cannot be used.
        if tool is not None:
            _held(held_pins(path), find_by_full_name(tool, setup.servers, ()))
        raise
    known, pins = setup.known(connect or tool is None), held_pins(path)
    earlier = _earlier(after, rulebook, setup, known)
    tools = (*(served := pins.served()), *(known.tools or ()))
    if tool is None:
        assert agent is not None
        allowed = tools_allowed(rulebook, agent, tools, setup.trusted, earlier=earlier)
        _say_allowed(allowed, pins)
        return 0 if allowed else 1
    thing = pins.named_now(find_by_full_name(tool, setup.servers, tools))
    missing = said_of_missing(thing, known, setup.config, setup.storage) if thing not in served else None
    if missing is not None:
        say(missing)
        if agent is None:
            return 1
    held = _held(pins, thing) if missing is None else None
    trusted = setup.trusted.get(thing.server, False)
    if agent is None:
        for name, decision in agents_allowed(rulebook, thing, trusted=trusted, earlier=earlier):
            say(f"{decision.verdict:<7} {name}")
        return 0
    explanation = explain_one(rulebook, agent, thing, trusted=trusted, earlier=earlier)
    # Advice to change rules would mislead if the tool does not exist.
    say(explanation if missing is None else replace(explanation, changes=()))
    if missing is None and known.tools is None and isinstance(thing, ToolRecord):
        say("Judged by its name alone. With --connect the tool's annotations count, if its server is trusted.")
    return 0 if explanation.decision.visible and held is None else 1


def explain_token(
    path: Path | None,
    claims: Path,
    tool: str | None,
    more: str | None = None,
    connect: bool = False,
    after: Sequence[str] = (),
) -> int:
    """Print which agent a token with the claims in a file stands for, and why it may or may not call a tool; return 1
    for a denial. Without `tool` print all that it may call.

    Raises:
        OperatorError: the policy files or the claims cannot be used, or an agent is named besides.
    """
    if more is not None:
        raise OperatorError("With --token-claims the token says which agent is meant: name the tool alone.")
    setup = setup_for(path)
    rulebook = usable(setup)
    if setup.config is None:
        raise OperatorError("The configuration names the issuers of tokens, and it cannot be read.")
    facts, refused = facts_in(read_claims(claims), setup.config.auth)
    found = rulebook.who(facts, one_issuer=len(setup.config.auth.issuers) == 1)
    say("\n".join(token_lines(facts, refused, found)))
    if found.agent_id is None:
        return 1
    known, pins = setup.known(connect or tool is None), held_pins(path)
    earlier = _earlier(after, rulebook, setup, known)
    tools = (*(served := pins.served()), *(known.tools or ()))
    if tool is None:
        allowed = tools_allowed(rulebook, found.agent_id, tools, setup.trusted, found, earlier)
        _say_allowed(allowed, pins)
        return 1 if refused is not None or not allowed else 0
    thing = pins.named_now(find_by_full_name(tool, setup.servers, tools))
    missing = said_of_missing(thing, known, setup.config, setup.storage) if thing not in served else None
    if missing is not None:
        say(missing)
    held = _held(pins, thing) if missing is None else None
    trusted = setup.trusted.get(thing.server, False)
    explanation = explain_one(rulebook, found.agent_id, thing, trusted=trusted, found=found, earlier=earlier)
    say(explanation if missing is None else replace(explanation, changes=()))
    rules = rulebook.for_token(found)
    target = target_of(thing) if isinstance(thing, ToolRecord) else thing
    wanted = rules.scopes_of(target) if rules is not None else ()
    lacks = lacking(wanted, facts.scopes)
    if lacks:
        say(f"  refused with 403 until a token has the scope {' '.join(lacks)}")
    return 0 if explanation.decision.visible and refused is None and not lacks and held is None else 1


def _say_allowed(allowed: Sequence[tuple[ToolRecord, Decision]], pins: HeldPins) -> None:
    """Print the tools that an agent may call, with the reason of each one that is held, or of which the server refuses
    calls.
    """
    if pins.unknown is not None:
        say(f"{_UNKNOWN}: {pins.unknown}", file=sys.stderr)
    for record, decision in allowed:
        said = f"{decision.verdict:<7} {target_of(record)}"
        if (held := pins.of(record)) is not None:
            said += f"  held: {held.why}"
        elif (newer := pins.waiting(record)) is not None and newer.takes_less:
            said += f"  some calls are refused: {newer.why}"
        say(said)


def _held(pins: HeldPins, thing: ToolRecord | Target) -> HeldPin | None:
    """Return why a target is held, and print it before the decision of the rules; None if it is not."""
    if pins.unknown is not None:
        say(f"{_UNKNOWN}: {pins.unknown}", file=sys.stderr)
    held = pins.of(thing)
    if held is not None:
        say(f"{target_of(thing) if isinstance(thing, ToolRecord) else thing}: held: {held.why}.")
        say(f"  It is refused to every agent until it is approved; look at it with `{held.command}`.")
    elif (newer := pins.waiting(thing)) is not None:
        say(f"Its approved definition is served, and a newer one waits: {newer.why}.")
        refused = ", but those that its server no longer takes are refused" if newer.takes_less else ""
        say(f"  Calls go on{refused}; look at it with `{newer.command}`.")
    return held


def _earlier(
    after: Sequence[str], rulebook: Rulebook, setup: PolicySetup, known: KnownNames
) -> tuple[EarlierRead, ...]:
    """Return the earlier reads of a call, and print the unknown names."""
    for text in after if known.servers else ():
        if "." in text:
            missing = said_of_missing(find_by_full_name(text, setup.servers, ()), known, setup.config, setup.storage)
            if missing is not None:
                say(missing)
    return earlier_reads(after, rulebook, setup.servers, known.tools or (), setup.trusted)


def run_cases(path: Path | None, connect: bool = False) -> int:
    """Run the cases beside the policies; return 1 if one fails or cannot be read.

    Raises:
        OperatorError: the policy files cannot be used, or there are no cases.
    """
    setup = setup_for(path)
    rulebook = usable(setup)
    folder = setup.folder / cases.FOLDER
    found, problems = cases.read_cases(folder)
    for problem in problems:
        say(problem)
    if not found and not problems:
        raise OperatorError(f"There are no cases in {folder}. docs/policies.md shows how they are written.")
    tools = setup.known(connect).tools or ()
    issuers = [one.issuer for one in setup.config.auth.issuers] if setup.config is not None else []
    outcomes = [
        cases.run_case(case, place, rulebook, setup.servers, tools, setup.trusted, check_arguments, issuers)
        for case, place in found
    ]
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        say(outcome)
    say(f"{_many(len(outcomes), 'case')}, {len(failed)} failed.")
    return 1 if failed or problems else 0


def diff(path: Path | None, file: Path, remove: bool = False, connect: bool = False) -> int:
    """Print the effects of `file` in the folder of the policies; return 1 if it has an error.

    Raises:
        OperatorError: the file cannot be read, or its name is not valid for a policy file.
    """
    setup = setup_for(path)
    tools = setup.known(connect).tools or kept_tools(setup.config, setup.storage)
    return print_difference(
        LivePolicies(setup.folder, check_schema, named=setup.named), file, remove, tools, setup.trusted
    )


def init(path: Path | None) -> int:
    """Write a first policy file that allows what open mode allows.

    Without a configuration, use the file of the aggregator that runs at the default address.

    Raises:
        OperatorError: there is no configuration or no server in it, there are policy files already, or the file cannot
            be written.
    """
    try:
        loaded = loaded_config(path)
    except ConfigMissing as error:
        loaded = loaded_config(_running(error))
    setup = setup_of(loaded)
    sources, problems = read_folder(setup.folder)
    if sources or problems:
        raise OperatorError(f"{setup.folder} has policy files already; nothing was written.")
    servers = [server.id for server in loaded.config.servers if server.enabled]
    if not servers:
        said = f"{loaded.path} has no server that is switched on, so the first policy file would allow nothing."
        raise OperatorError(f"{said} Add the servers first; nothing was written.")
    target = setup.folder / FILE
    try:
        setup.folder.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(starter(servers, schema.SCHEMA_FILE.as_uri()))
    except OSError as error:
        raise OperatorError(f"{target} cannot be written: {error.strerror}.") from None
    say(f"Wrote {target}: what works now still works, and nothing else is allowed.")
    return 0


def print_schema(of_cases: bool = False) -> int:
    """Print the JSON Schema of policy files, or of cases."""
    say((schema.CASES_FILE if of_cases else schema.SCHEMA_FILE).read_text(encoding="utf-8"), end="")
    return 0


def _running(missing: ConfigMissing) -> Path:
    """Return the configuration file of the aggregator that runs at the default address.

    Raises:
        ConfigMissing: none runs, or its file belongs to another user, who must not choose a folder to write into.
    """
    base = address(HttpConfig())
    try:
        told = asked(base).get("config")
    except (OSError, HTTPException, ValueError):
        raise missing from None
    file = told.get("file") if isinstance(told, dict) else None
    if not isinstance(file, str) or not os.path.isabs(file):
        raise missing
    if not _is_own(file):
        raise ConfigMissing(f"{missing} The aggregator at {base} has {file!r}, which is not a file of yours.")
    say(f"aggregator: configuration: {file} (of the aggregator that runs at {base})", file=sys.stderr)
    return Path(file)


def _is_own(file: str) -> bool:
    """Return whether a file belongs to this user: on Windows, where no number says so, one in their home folder."""
    if sys.platform == "win32":
        home = os.path.realpath(os.path.expanduser("~"))
        return os.path.exists(file) and Path(os.path.realpath(file)).is_relative_to(home)
    return os.path.exists(file) and os.stat(file).st_uid == os.geteuid()


def _report(setup: PolicySetup, rulebook: Rulebook | None, problems: list[Problem]) -> dict[str, Any]:
    return {
        "folder": str(setup.folder),
        "revision": rulebook.revision if rulebook is not None else None,
        "agents": sorted(rulebook.agents) if rulebook is not None else [],
        "problems": [
            {"severity": p.severity, "file": p.file, "where": p.where, "message": p.message, "fix": p.fix}
            for p in problems
        ],
    }


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def print_difference(
    live: LivePolicies, file: Path, remove: bool, tools: tuple[ToolRecord, ...], trusted: Trusted
) -> int:
    """Print the effects of `file` in place of the policy file of its name; return 1 for errors in it.

    Raises:
        OperatorError: the file cannot be read, or its name is not valid for a policy file.
    """
    edit = PolicyEdit(file.name, None if remove else _text(file))
    tried = live.try_edit(edit, tools, trusted, beside_calls=False)
    for problem in tried.problems:
        say(problem)
    if tried.diff is None:
        say(f"{live.folder}: these files would not come into force.")
        return 1
    for line in lines(tried.diff):
        say(line)
    if not tools:
        say("No tools are known, so no decision could be compared. With --connect the servers are asked.")
    return 0


def lines(diff: PolicyDiff) -> list[str]:
    """Return a comparison as lines for a terminal: what makes a change, for whom, on what."""
    made = [f"agent {name} is new" for name in diff.appeared] + [f"agent {name} is gone" for name in diff.vanished]
    made = made if len(made) <= _GROUPS else [*made[:_GROUPS], f"and {len(made) - _GROUPS} more such agents"]
    for group in diff.groups[:_GROUPS]:
        made.append(f"{group.cause}: {group.before} -> {group.after}")
        made.append(f"  {_some(list(group.agents)[:_NAMES], len(group.agents))}: {_tools(diff, group)}")
    if len(diff.groups) > _GROUPS:
        made.append(f"and {len(diff.groups) - _GROUPS} more groups")
    made += [*map(str, diff.confirmers[:_GROUPS]), *diff.tokens[:_GROUPS]]
    if len(diff.tokens) > _GROUPS:
        made.append(f"and {len(diff.tokens) - _GROUPS} more changes of rules about tokens")
    made += diff.flow[:_GROUPS]
    if len(diff.flow) > _GROUPS:
        made.append(f"and {len(diff.flow) - _GROUPS} more changes of labels and flow rules")
    if diff.uncounted:
        made.append(f"{diff.uncounted} more agents with changed rules were not compared")
    return made or ["No decision changes."]


def _tools(diff: PolicyDiff, group: ChangeGroup) -> str:
    return _some(list(diff.names(group.tools, _NAMES)), group.tools.bit_count())


def _some(names: list[str], count: int) -> str:
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return ", ".join(names) + more


def _text(file: Path) -> str:
    try:
        return read_ordinary(file, LARGEST + 1).decode("utf-8-sig")
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise OperatorError(f"{file} is not UTF-8 text. Save it as UTF-8.") from None
