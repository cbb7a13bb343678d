"""What an upstream said, without the secrets it was given: reasons are shown to hosts and on the health page."""

from aggregator.config.model import ServerConfig
from aggregator.config.secrets import secrets_in
from aggregator.domain.redact import Redactor

# A server's own few secrets are looked for even when they are short.
_SHORTEST = 4


def discretion(config: ServerConfig) -> Redactor:
    """Takes the secrets of one server's config out of what is told of it."""
    launch = {"env": config.launch.env} if config.launch is not None else None
    fields = {"headers": config.headers, "env": config.env, "launch": launch, "url": config.url, "proxy": config.proxy}
    return Redactor(secrets_in(fields), _SHORTEST)
