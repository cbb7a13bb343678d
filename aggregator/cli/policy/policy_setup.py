"""The policy files and the configuration that commands about policies work on."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs

from aggregator.app.build import build_app
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.setup import load_config, storage_url
from aggregator.config.errors import ConfigMissing
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.domain.errors import OperatorError
from aggregator.domain.problems import Problem
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.error_text import error_text
from aggregator.policy.files.checking import check as check_files
from aggregator.policy.files.folder import read_folder
from aggregator.policy.files.known_names import KnownNames
from aggregator.policy.rulebook import Rulebook


@dataclass(frozen=True)
class PolicySetup:
    """The folder of the policy files, and the configuration they are for, if there is one. `named`: that names it."""

    folder: Path
    config: Config | None
    storage: str | None = None
    named: bool = False

    @property
    def servers(self) -> Mapping[str, str]:
        """The ids of the servers, by prefix."""
        return (
            {server.prefix or server.id: server.id for server in self.config.servers} if self.config is not None else {}
        )

    @property
    def trusted(self) -> Mapping[str, bool]:
        """The trust of the configuration in each server, by id."""
        return {server.id: server.trusted for server in self.config.servers} if self.config is not None else {}

    def known(self, connect: bool) -> KnownNames:
        """Return the names to compare the rules with; tools only if `connect` allows to query the servers."""
        tools = run_loop(_tools(self.config)) if connect and self.config is not None else None
        return KnownNames(self.servers, tools, self.trusted, self.issuers)

    @property
    def issuers(self) -> tuple[str, ...] | None:
        """The issuers whose tokens are accepted; None without a configuration."""
        return tuple(one.issuer for one in self.config.auth.issuers) if self.config is not None else None


def setup_for(path: Path | None) -> PolicySetup:
    """Return the folder and the configuration of a path; without any configuration, the folder `policies` here.

    Raises:
        ConfigError: there is a configuration, and it cannot be used.
    """
    try:
        return setup_of(loaded_config(path))
    except ConfigMissing:
        return PolicySetup(Path("policies"), None)


def setup_of(loaded: Loaded) -> PolicySetup:
    """Return the folder of the policies of a configuration."""
    return PolicySetup(_shown(loaded.policies), loaded.config, storage_url(loaded), loaded.config.names_policies)


def loaded_config(path: Path | None) -> Loaded:
    """Load the configuration without a report of its problems.

    Raises:
        ConfigError: it is missing, or cannot be used.
    """
    return load_config(path, log_level="error", report=False)


def _shown(folder: Path) -> Path:
    """Return the path of a folder as it would be typed in the working folder."""
    here = Path(os.path.abspath(folder))
    return here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here


async def _tools(config: Config) -> tuple[ToolRecord, ...]:
    app = build_app(config.all_started())
    async with app.running():
        await app.supervisor.wait_all_tried()
        return tuple(app.gateway.catalog.tools)


def rulebook_of(setup: PolicySetup) -> tuple[Rulebook | None, list[Problem]]:
    """Return the rulebook of the files, None if they cannot be used or there are none, and their problems."""
    checked = check_files(*read_folder(setup.folder, named=setup.named), check_schema)
    rulebook = Rulebook(checked.documents) if checked.documents is not None else None
    return rulebook, list(checked.problems)


def usable(setup: PolicySetup) -> Rulebook:
    """Return the rulebook of the files.

    Raises:
        OperatorError: they cannot be used, or there are none.
    """
    rulebook, problems = rulebook_of(setup)
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
        return f"The schema cannot be used: {error_text(error).splitlines()[0]}."
    return None


def check_arguments(schemas: Iterable[Mapping[str, Any]], arguments: Mapping[str, Any]) -> str | None:
    """Return in one sentence why arguments do not fit all of these schemas; None if they fit."""
    for wanted in schemas:
        for error in jsonschema_rs.validator_for(dict(wanted), retriever=_refuse).iter_errors(dict(arguments)):
            where = "/".join(str(step) for step in error.instance_path)
            return f"argument {where}: {error.message}" if where else error.message
    return None


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema, and nothing is fetched")
