"""The options of `aggregator install`, and which of them go together."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.domain.errors import OperatorError
from aggregator.domain.principal import check_agent_id
from aggregator.domain.text.error_text import error_text

ENTRY: Final = "aggregator"
# What every host takes, and puts before the names of our tools.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """The options of the command line."""

    host: str | None = None
    config: Path | None = None
    agent: str | None = None
    scope: str | None = None
    file: Path | None = None
    name: str | None = None
    http: bool = False
    new_key: bool = False
    take_over: bool = False
    replace: bool = False
    undo: bool = False
    only_entry: bool = False
    while_running: bool = False
    write: bool = False
    as_json: bool = False

    def check(self) -> None:
        """Refuse options that do not go together. Raises OperatorError."""
        if self.only_entry and not self.undo:
            raise OperatorError("--only-entry goes with --undo.")
        if self.undo and (self.http or self.new_key or self.take_over or self.replace or self.agent):
            raise OperatorError("--undo takes --file, --name, --only-entry and --write, and nothing else.")
        if self.new_key and not (self.http and self.agent):
            raise OperatorError("--new-key makes a key for the agent of an address: add --http and --agent NAME.")
        if self.agent is not None:
            try:
                check_agent_id(self.agent)
            except ValueError as error:
                raise OperatorError(error_text(error)) from None
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise OperatorError("The name of an entry is made of letters, digits, `_` and `-`, at most 60 of them.")
