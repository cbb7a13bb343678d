"""The entry of a request: of its own words, or of a plan whose questions are answered."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aggregator.cli.servers.adding.draft import EntryDraft
from aggregator.cli.servers.adding.request import AccountOwner, AddRequest
from aggregator.domain.errors import OperatorError
from aggregator.packages.plan import AskedValue, EntryPlan

# Returns the user's answer, empty for no answer.
AskPerson = Callable[[AskedValue], list[str]]


@dataclass(frozen=True, slots=True)
class BuiltEntry:
    """The entry to write. `asked` are the missing values, for which it names variables.

    `secrets` are its plain-text values that the source declares as secret, by their questions. `left_out` names the
    arguments omitted for lack of a value.
    """

    entry: dict[str, Any]
    asked: tuple[AskedValue, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def plain_entry(request: AddRequest) -> BuiltEntry:
    """Return the entry of a command or an address. Raises OperatorError for options that do not fit it."""
    entry: dict[str, Any] = {}
    if request.url is not None:
        _refuse(request.env, "--env", "a server at an address")
        _refuse(request.cwd, "--cwd", "a server at an address")
        if request.type not in (None, "auto"):
            entry["type"] = request.type
        entry["url"] = request.url
        if request.headers:
            entry["headers"] = dict(request.headers)
        if request.per is not None:
            entry["auth"] = auth_per(request.per)
    else:
        _refuse(request.per, "--per", "a program")
        _refuse(request.headers, "--header", "a program")
        _refuse(request.type, "--type", "a program")
        entry["command"] = request.command[0]
        if len(request.command) > 1:
            entry["args"] = list(request.command[1:])
        if request.env:
            entry["env"] = dict(request.env)
        if request.cwd is not None:
            entry["cwd"] = _absolute(request.cwd)
    _refuse(request.answers, "--set", "what is not --from a source")
    _refuse(request.use, "--use", "what is not --from a source")
    return BuiltEntry(_switched(entry, request))


def planned_entry(request: AddRequest, draft: EntryDraft, ask: AskPerson | None) -> BuiltEntry:
    """Return the entry of a draft with the answers in the request, and the user's answers to `ask`.

    Raises:
        OperatorError: an answer or an option does not fit the source.
    """
    plan = draft.plan
    answers, env, headers = _given(plan, request)
    for question in plan.questions:
        if ask is not None and question.key not in answers and question.required and question.default is None:
            told = ask(question)
            if told:
                answers[question.key] = told
    entry: dict[str, Any] = plan.entry(answers)
    holder = entry.get("launch", entry)
    if request.more:
        holder["args"] = [*holder.get("args", []), *request.more]
    if plan.program is not None:
        if env:
            holder["env"] = {**holder.get("env", {}), **env}
        if request.cwd is not None:
            holder["cwd"] = _absolute(request.cwd)
    else:
        _refuse(env, "--env", "a server at an address")
        _refuse(request.cwd, "--cwd", "a server at an address")
    if plan.url:
        if headers:
            entry["headers"] = {**entry.get("headers", {}), **headers}
        if request.type is not None:
            entry["type"] = request.type
        if request.per is not None:
            entry["auth"] = auth_per(request.per)
    else:
        _refuse(request.per, "--per", "a program")
        _refuse(headers, "--header", "a program")
        _refuse(request.type, "--type", "a program")
    secrets = {
        question.key: value
        for question in plan.questions
        if question.secret
        for value in answers.get(question.key, ())
        if "${" not in value and value
    }
    return BuiltEntry(_switched(entry, request), plan.unanswered(answers), secrets, plan.left_out(answers))


def auth_per(owner: AccountOwner) -> dict[str, str]:
    """Return the field `auth` of a server that asks for a login."""
    return {"type": "oauth", "per": owner}


def _given(plan: EntryPlan, request: AddRequest) -> tuple[dict[str, list[str]], dict[str, str], dict[str, str]]:
    """Return the answers in the options, and the variables and headers that nothing asks for."""
    by_name = {question.key.lower(): question.key for question in plan.questions}
    answers: dict[str, list[str]] = {}
    env: dict[str, str] = {}
    headers: dict[str, str] = {}
    asked_env = plan.program.env if plan.program is not None else {}
    for name, value in request.env:
        if name in asked_env and name in by_name.values():
            answers.setdefault(name, []).append(value)
        else:
            env[name] = value
    for name, value in request.headers:
        key = by_name.get(name.lower())
        if key is not None and name.lower() in map(str.lower, plan.headers):
            answers.setdefault(key, []).append(value)
        else:
            headers[name] = value
    for name, value in request.answers:
        answers.setdefault(by_name.get(name.lower(), name), []).append(value)
    return answers, env, headers


def _switched(entry: dict[str, Any], request: AddRequest) -> dict[str, Any]:
    return {**entry, "enabled": False} if request.disabled else entry


def _absolute(folder: str) -> str:
    """Return a folder as the configuration file needs it: relative ones are from the working folder of this command."""
    return folder if "${" in folder else os.path.abspath(os.path.expanduser(folder))


def _refuse(given: object, option: str, what: str) -> None:
    if given:
        raise OperatorError(f"{option} has no effect on {what}. Leave it out.")
