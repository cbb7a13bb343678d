"""Our own entry in a host's file: made for stdio or HTTP, and recognised."""

import os
from collections.abc import Collection, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

from aggregator.cli.hosts.install.program import OwnCommand
from aggregator.config.files.find import own_file
from aggregator.domain.errors import OperatorError
from aggregator.domain.patient_files import same_path
from aggregator.hosts.model import HostProgram, OwnLaunch, UnusableEntry
from aggregator.hosts.own import is_own

# The variable that a host takes the key from.
KEY_VARIABLE: Final = "AGGREGATOR_KEY"

Pointing = Literal["here", "other aggregator"]


def stdio_launch(own: OwnCommand, config: Path, agent: str | None, env: Mapping[str, str]) -> OwnLaunch:
    """Return the launch over stdio: nothing in it depends on the working folder."""
    for_agent = ("--agent", agent) if agent is not None else ()
    args = (*own.args, "stdio", "--config", str(config), *for_agent)
    return OwnLaunch(own.command, args, {**own.env, **env})


def http_entry(host: HostProgram, url: str, agent: str | None, key: str | None) -> dict[str, Any]:
    """Return the entry by which a host reaches `aggregator serve`, with a key, or a reference to one for an agent.

    Raises:
        OperatorError: the host takes no address, or no reference for the key of the agent.
    """
    if "http" not in host.speaks:
        raise OperatorError(f"{host.title} starts programs alone: leave --http out.")
    if key is None and agent is None:
        return host.write(OwnLaunch(url=url))
    if key is not None:
        return host.write(OwnLaunch(url=url, headers={"Authorization": f"Bearer {key}"}))
    if host.key_field is not None:
        return {**host.write(OwnLaunch(url=url)), host.key_field: KEY_VARIABLE}
    if host.header_variable is None:
        raise OperatorError(
            f"{host.title} takes no variables in headers, so the key of {agent} would have to be in its file. Add "
            "--new-key to make one and write it there, or leave --http out."
        )
    reference = host.header_variable.replace("NAME", KEY_VARIABLE)
    return host.write(OwnLaunch(url=url, headers={"Authorization": f"Bearer {reference}"}))


def named(entry: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an entry under a name, which some hosts repeat in it."""
    return {key: name if key == "name" else value for key, value in entry.items()}


def pointing(host: HostProgram, entry: object, config: Path, ports: Collection[int]) -> Pointing | None:
    """Return the target of an entry: this configuration, another one of an aggregator, or neither (None).

    `ports` are the ports on which `aggregator serve` listens with this configuration.
    """
    try:
        fields = host.read(entry) if isinstance(entry, Mapping) else {}
    except UnusableEntry:
        return None
    if not is_own(fields, ports):
        return None
    if "url" in fields:
        return "here"
    given = _configuration([str(word) for word in fields.get("args") or ()])
    return "here" if _same_file(str(own_file(os.environ)) if given is None else given, config) else "other aggregator"


def _configuration(words: list[str]) -> str | None:
    for flag, value in pairwise([*words, ""]):
        if flag in ("--config", "-c"):
            return value
        if flag.startswith("--config="):
            return flag.partition("=")[2]
    return None


def _same_file(given: str, config: Path) -> bool:
    return same_path(given, config)
