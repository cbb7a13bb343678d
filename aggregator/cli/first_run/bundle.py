"""The start of `aggregator stdio` in a bundle (MCPB), which a desktop program installs with a form for settings.

Rule: a setting that was left blank is no option. Hosts hand on a blank text for it, or the placeholder unchanged.
"""

import os
import re
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from aggregator.cli import drop_blank_home
from aggregator.cli import main as run_program
from aggregator.cli.runtime.writer import say
from aggregator.config.errors import ConfigError, ConfigMissing
from aggregator.config.files.find import find_config
from aggregator.domain.errors import OperatorError

# The fields of the form, with the options that they set.
FIELDS: Final = {"config": "--config", "agent": "--agent", "expose": "--expose"}
_PLACEHOLDER: Final = re.compile(r"\$\{user_config\.[^}]*\}")


def variable(field: str) -> str:
    """Return the environment variable by which the host hands on a field of the form."""
    return f"AGGREGATOR_BUNDLE_{field.upper()}"


def options(environ: MutableMapping[str, str]) -> list[str]:
    """Return the options of `stdio` for the settings in the environment, and remove these from it."""
    taken = {field: _PLACEHOLDER.sub("", environ.pop(variable(field), "")).strip() for field in FIELDS}
    return [word for field, value in taken.items() if value for word in (FIELDS[field], value)]


def main() -> None:
    """Serve the host that started the bundle; the first time with a new configuration without servers."""
    drop_blank_home()
    words = options(os.environ)
    if FIELDS["config"] not in words:
        _begin()
    sys.argv = ["aggregator", "stdio", *words]
    run_program()


def _begin() -> None:
    """Create the user's own configuration without servers, if there is none. Why it cannot be is for the host's log."""
    try:
        find_config(None, Path.cwd(), os.environ)
    except ConfigMissing:
        from aggregator.cli.servers.edit import begin_config

        try:
            begin_config(None)
        except OperatorError as error:
            say(f"aggregator: {error}", file=sys.stderr)
    except ConfigError:
        pass  # `stdio` says it, and ends
