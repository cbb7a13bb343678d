"""`aggregator stdio`: serves the one host that started it, over stdin and stdout.

Rule: the first request is answered after the configuration is read, and other modules are imported later: hosts give up
on servers that are slow to answer.
"""

import gc
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.cli.runtime.setup import FileReader, environment, load_to_serve, storage_url, with_log
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.domain.errors import OperatorError
from aggregator.domain.usual_folders import with_usual_folders
from aggregator.frontends.first_request import FirstInput, answer_first_request
from aggregator.frontends.standard_streams import standard_streams
from aggregator.gateway.views.instructions import instructions_at_start
from aggregator.identity.launch import launch_agent
from aggregator.storage.locate import full_url, sqlite_path

if TYPE_CHECKING:
    from aggregator.policy.live import LivePolicies


def run(
    path: Path | None,
    agent: str | None,
    names: str | None,
    expose: str | None,
    log_level: str | None,
    log_json: bool,
) -> int:
    """Serve until the host closes stdin or a signal comes.

    Raises:
        OperatorError: `stdio` is disabled in the configuration, or its database or the agent cannot be.
    """
    # The desktop starts hosts without the folders that a shell adds, and hosts hand their PATH on.
    os.environ["PATH"] = with_usual_folders(os.environ.get("PATH", os.defpath), Path.home(), os.environ)
    loaded = load_to_serve(path, log_level, log_json)

    def with_options(config: Config, /) -> Config:
        chosen = {name: value for name, value in (("names", names), ("expose", expose)) if value is not None}
        if chosen:
            config = config.model_copy(update={"stdio": config.stdio.model_copy(update=chosen)})
        return with_log(config, log_level, log_json)

    given = replace(loaded, config=with_options(loaded.config))
    if not given.config.stdio.enabled:
        raise OperatorError("`stdio` is disabled in the configuration.")
    started_for = launch_agent(agent, os.environ)
    # Report an unusable address before the host has an answer.
    sqlite_path(full_url(storage_url(given)))
    live = _read_policies(given)
    with standard_streams() as (stdin, stdout):
        first = FirstInput()
        if not given.config.search.semantic:
            said = partial(_instructions, given.config, live, started_for)
            first = answer_first_request(stdin, stdout, given.config.stdio.max_message_bytes, said)
        from aggregator.cli.stdio_session import run_session

        # The collector finds nothing while modules are imported, and they stay.
        gc.freeze()
        gc.enable()
        read = FileReader(given, with_options, environment())
        run_session(given, loaded.redactor, read, started_for, live, stdin, stdout, first)
    return 0


def _read_policies(loaded: Loaded) -> "LivePolicies | None":
    """Return the policies; None without a folder for them, if the configuration names none."""
    try:
        os.lstat(loaded.policies)
    except FileNotFoundError:
        if not loaded.config.names_policies:
            return None
    except OSError:
        pass  # such a folder allows no agent anything
    from aggregator.app.policies import read_policies

    return read_policies(loaded.policies, named=loaded.config.names_policies)


def _instructions(config: Config, live: "LivePolicies | None", agent: str | None) -> str:
    if live is None:
        return instructions_at_start(config, None)
    from aggregator.app.policies import view_at_start

    return instructions_at_start(config, view_at_start(live, config, agent))
