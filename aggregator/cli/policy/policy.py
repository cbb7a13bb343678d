"""`aggregator policy check|explain|diff|test|init|schema`: works on the policy files without serving hosts."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

import jsonschema_rs

from aggregator.app.build import build_app
from aggregator.app.health_page import address, asked
from aggregator.cli.policy.differ import print_difference
from aggregator.cli.policy.kept_tools import kept_tools
from aggregator.cli.policy.token_claims import facts_in, read_claims
from aggregator.cli.policy.token_claims import lines as token_lines
from aggregator.cli.policy.unknown_names import said_of_missing
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.setup import load_config, storage_url
from aggregator.config.errors import ConfigMissing
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.config.settings import HttpConfig
from aggregator.domain.errors import OperatorError
from aggregator.domain.problems import Problem
from aggregator.domain.records import ToolRecord
from aggregator.policy.explain import agents_allowed, tools_allowed
from aggregator.policy.explain import explain as explain_one
from aggregator.policy.files import cases, schema
from aggregator.policy.files.checking import check as check_files
from aggregator.policy.files.folder import read_folder
from aggregator.policy.files.lint import KnownNames, lint
from aggregator.policy.files.starter import FILE, starter
from aggregator.policy.full_names import find_by_full_name
from aggregator.policy.live import LivePolicies
from aggregator.policy.rulebook import Rulebook, target_of
from aggregator.policy.scopes import lacking


def check(path: Path | None, connect: bool = False, as_json: bool = False) -> int:
    """Print the problems of the policy files; return 1 if one is an error.

    With `connect` the servers are connected, and the patterns compared with their tools.
    """
    setup = _setup(path)
    rulebook, problems = _read(setup)
    if rulebook is not None:
        problems = [*problems, *lint(rulebook, setup.known(connect))]
    errors = [problem for problem in problems if problem.severity == "error"]
    if as_json:
        print(json.dumps(_report(setup, rulebook, problems), ensure_ascii=False, indent=2))
        return 1 if errors else 0
    for problem in problems:
        print(problem)
    if rulebook is not None:
        files, agents = _many(len(rulebook.documents.files), "file"), _many(len(rulebook.agents), "agent")
        print(f"{setup.folder}: {files}, {agents}, revision {rulebook.revision}.")
    elif not problems:
        print(
            f"{setup.folder}: no policy files, so the local agent may do everything. `aggregator policy init` begins."
        )
    else:
        print(f"{setup.folder}: {_many(len(errors), 'error')}; these files would not come into force.")
    return 1 if errors else 0


def explain(path: Path | None, agent: str | None, tool: str | None, connect: bool = False) -> int:
    """Print why an agent may or may not call a tool; return 1 for a denial.

    Without `tool` print all that the agent may call, without `agent` all agents that may call the tool.

    Raises:
        OperatorError: the policy files cannot be used, or the tool is not named as `server.tool`.
    """
    if agent is None and tool is None:
        raise OperatorError("Name an agent, a tool, or both.")
    setup = _setup(path)
    rulebook = _usable(setup)
    known = setup.known(connect or tool is None)
    if tool is None:
        assert agent is not None
        allowed = tools_allowed(rulebook, agent, known.tools or (), setup.trusted)
        for record, decision in allowed:
            print(f"{decision.verdict:<7} {target_of(record)}")
        return 0 if allowed else 1
    thing = find_by_full_name(tool, setup.servers, known.tools or ())
    missing = said_of_missing(thing, known, setup.config, setup.storage)
    if missing is not None:
        print(missing)
        if agent is None:
            return 1
    trusted = setup.trusted.get(thing.server, False)
    if agent is None:
        for name, decision in agents_allowed(rulebook, thing, trusted=trusted):
            print(f"{decision.verdict:<7} {name}")
        return 0
    explanation = explain_one(rulebook, agent, thing, trusted=trusted)
    # Advice to change rules would mislead where the tool does not exist.
    print(explanation if missing is None else replace(explanation, changes=()))
    if missing is None and known.tools is None and isinstance(thing, ToolRecord):
        print("Judged by its name alone. With --connect the tool's annotations count, if its server is trusted.")
    return 0 if explanation.decision.visible else 1


def explain_token(
    path: Path | None, claims: Path, tool: str | None, more: str | None = None, connect: bool = False
) -> int:
    """Print which agent a token with the claims in a file stands for, and why it may or may not call a tool; return 1
    for a denial. Without `tool` print all that it may call.

    Raises:
        OperatorError: the policy files or the claims cannot be used, or an agent is named besides.
    """
    if more is not None:
        raise OperatorError("With --token-claims the token says which agent is meant: name the tool alone.")
    setup = _setup(path)
    rulebook = _usable(setup)
    if setup.config is None:
        raise OperatorError("The configuration names the issuers of tokens, and it cannot be read.")
    facts, refused = facts_in(read_claims(claims), setup.config.auth)
    found = rulebook.who(facts, one_issuer=len(setup.config.auth.issuers) == 1)
    print("\n".join(token_lines(facts, refused, found)))
    if found.agent_id is None:
        return 1
    known = setup.known(connect or tool is None)
    if tool is None:
        allowed = tools_allowed(rulebook, found.agent_id, known.tools or (), setup.trusted, found)
        for record, decision in allowed:
            print(f"{decision.verdict:<7} {target_of(record)}")
        return 1 if refused is not None or not allowed else 0
    thing = find_by_full_name(tool, setup.servers, known.tools or ())
    missing = said_of_missing(thing, known, setup.config, setup.storage)
    if missing is not None:
        print(missing)
    trusted = setup.trusted.get(thing.server, False)
    explanation = explain_one(rulebook, found.agent_id, thing, trusted=trusted, found=found)
    print(explanation if missing is None else replace(explanation, changes=()))
    rules = rulebook.for_token(found)
    target = target_of(thing) if isinstance(thing, ToolRecord) else thing
    wanted = rules.scopes_of(target) if rules is not None else ()
    lacks = lacking(wanted, facts.scopes)
    if lacks:
        print(f"  refused with 403 until a token has the scope {' '.join(lacks)}")
    return 0 if explanation.decision.visible and refused is None and not lacks else 1


def run_cases(path: Path | None, connect: bool = False) -> int:
    """Run the cases beside the policies; return 1 if one fails or cannot be read.

    Raises:
        OperatorError: the policy files cannot be used, or there are no cases.
    """
    setup = _setup(path)
    rulebook = _usable(setup)
    folder = setup.folder / cases.FOLDER
    found, problems = cases.read_cases(folder)
    for problem in problems:
        print(problem)
    if not found and not problems:
        raise OperatorError(f"There are no cases in {folder}. docs/policies.md shows how they are written.")
    tools = setup.known(connect).tools or ()
    issuers = [one.issuer for one in setup.config.auth.issuers] if setup.config is not None else []
    outcomes = [
        cases.run_case(case, place, rulebook, setup.servers, tools, setup.trusted, _check_arguments, issuers)
        for case, place in found
    ]
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        print(outcome)
    print(f"{_many(len(outcomes), 'case')}, {len(failed)} failed.")
    return 1 if failed or problems else 0


def diff(path: Path | None, file: Path, remove: bool = False, connect: bool = False) -> int:
    """Print what would change if `file` were in the folder of the policies; return 1 if it has an error.

    Raises:
        OperatorError: the file cannot be read, or its name is not that of a policy file.
    """
    setup = _setup(path)
    tools = setup.known(connect).tools or kept_tools(setup.config, setup.storage)
    return print_difference(LivePolicies(setup.folder, check_schema), file, remove, tools, setup.trusted)


def init(path: Path | None) -> int:
    """Write a first policy file that allows what open mode allows.

    Without a configuration, use the file of the aggregator that runs at the default address.

    Raises:
        OperatorError: there is no configuration or no server in it, there are policy files already, or the file cannot
            be written.
    """
    try:
        loaded = _loaded(path)
    except ConfigMissing as error:
        loaded = _loaded(_running(error))
    setup = _setup_of(loaded)
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
    print(f"Wrote {target}: what works now still works, and nothing else is allowed.")
    return 0


def print_schema(of_cases: bool = False) -> int:
    """Print the JSON Schema of policy files, or of cases."""
    print((schema.CASES_FILE if of_cases else schema.SCHEMA_FILE).read_text(encoding="utf-8"), end="")
    return 0


@dataclass(frozen=True)
class _Setup:
    """The folder of the policy files, and the configuration they are for, if there is one."""

    folder: Path
    config: Config | None
    storage: str | None = None

    @property
    def servers(self) -> Mapping[str, str]:
        """The ids of the servers, by prefix."""
        return (
            {server.prefix or server.id: server.id for server in self.config.servers} if self.config is not None else {}
        )

    @property
    def trusted(self) -> Mapping[str, bool]:
        return {server.id: server.trusted for server in self.config.servers} if self.config is not None else {}

    def known(self, connect: bool) -> KnownNames:
        """Return what the rules can be compared with; the tools only if `connect` allows to ask the servers."""
        tools = run_loop(_tools(self.config)) if connect and self.config is not None else None
        return KnownNames(self.servers, tools, self.trusted, self.issuers)

    @property
    def issuers(self) -> tuple[str, ...] | None:
        """The issuers whose tokens are accepted; None without a configuration."""
        return tuple(one.issuer for one in self.config.auth.issuers) if self.config is not None else None


def _setup(path: Path | None) -> _Setup:
    try:
        return _setup_of(_loaded(path))
    except ConfigMissing:
        return _Setup(Path("policies"), None)


def _setup_of(loaded: Loaded) -> _Setup:
    return _Setup(_shown(loaded.policies), loaded.config, storage_url(loaded))


def _loaded(path: Path | None) -> Loaded:
    return load_config(path, log_level="error", report=False)


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
    if os.name == "posix" and (not os.path.exists(file) or os.stat(file).st_uid != os.geteuid()):
        raise ConfigMissing(f"{missing} The aggregator at {base} has {file!r}, which is not a file of yours.")
    print(f"aggregator: configuration: {file} (of the aggregator that runs at {base})", file=sys.stderr)
    return Path(file)


def _shown(folder: Path) -> Path:
    """Return the path of a folder as it would be typed in the working folder."""
    here = Path(os.path.abspath(folder))
    return here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here


async def _tools(config: Config) -> tuple[ToolRecord, ...]:
    app = build_app(config.all_started())
    async with app.running():
        await app.supervisor.wait_all_tried()
        return tuple(app.gateway.catalog.tools)


def _read(setup: _Setup) -> tuple[Rulebook | None, list[Problem]]:
    checked = check_files(*read_folder(setup.folder), check_schema)
    rulebook = Rulebook(checked.documents) if checked.documents is not None else None
    return rulebook, list(checked.problems)


def _usable(setup: _Setup) -> Rulebook:
    rulebook, problems = _read(setup)
    if rulebook is not None:
        return rulebook
    if not problems:
        raise OperatorError(f"{setup.folder} has no policy files: the local agent may do everything.")
    raise OperatorError("\n".join(str(problem) for problem in problems))


def check_schema(wanted: Mapping[str, Any]) -> str | None:
    """Return why a JSON Schema cannot be compiled; None if it can."""
    try:
        jsonschema_rs.validator_for(dict(wanted), retriever=_refuse)
    except ValueError as error:
        return f"The schema cannot be used: {str(error).splitlines()[0]}."
    return None


def _check_arguments(schemas: Iterable[Mapping[str, Any]], arguments: Mapping[str, Any]) -> str | None:
    for wanted in schemas:
        for error in jsonschema_rs.validator_for(dict(wanted), retriever=_refuse).iter_errors(dict(arguments)):
            where = "/".join(str(step) for step in error.instance_path)
            return f"argument {where}: {error.message}" if where else error.message
    return None


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema, and nothing is fetched")


def _report(setup: _Setup, rulebook: Rulebook | None, problems: list[Problem]) -> dict[str, Any]:
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
