"""What an upstream said, without the secrets it was given: reasons are shown to hosts and on the health page."""

import re
from collections.abc import Callable
from typing import Final

from aggregator.config.model import LaunchConfig, ServerConfig
from aggregator.config.secrets import secrets_in
from aggregator.domain.redact import Redactor

# A server's own few secrets are looked for even when they are short.
_SHORTEST: Final = 4
# What no name calls secret may be so all the same: values that are no word, path or address, arguments that are random.
_HARD_TO_GUESS: Final = re.compile(r"(?![.~]{0,2}/|[A-Za-z][\w+.-]*://)(?=.*[^A-Za-z._ -]).{8,}", re.DOTALL)
_RANDOM: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+=-]{16,}", re.ASCII)


def discretion(config: ServerConfig, redact: Callable[[str], str] | None = None) -> Callable[[str], str]:
    """Takes the secrets of one server's config out of what is told of it; and by `redact`, all others."""
    secrets = set(secrets_in({"headers": config.headers, "url": config.url, "proxy": config.proxy}))
    programs: list[ServerConfig | LaunchConfig] = [config] if config.launch is None else [config, config.launch]
    for program in programs:
        secrets.update(secrets_in({"env": program.env, "args": program.args}))
        secrets.update(value for value in program.env.values() if _HARD_TO_GUESS.fullmatch(value))
        secrets.update(arg for arg in program.args if _RANDOM.fullmatch(arg))
    own = Redactor(secrets, _SHORTEST)
    return own if redact is None else lambda text: redact(own(text))
