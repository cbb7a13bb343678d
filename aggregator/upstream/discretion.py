"""What an upstream said, without the secrets it was given: reasons are shown to hosts and on the health page."""

import re

from aggregator.config.model import ServerConfig
from aggregator.config.secrets import secrets_in

# Shorter ones would black out ordinary words.
_SHORTEST = 4


class Discretion:
    """Knows the secrets of one server's config."""

    def __init__(self, config: ServerConfig) -> None:
        launch = {"env": config.launch.env} if config.launch is not None else None
        fields = {"headers": config.headers, "env": config.env, "launch": launch}
        secrets = {*secrets_in({**fields, "url": config.url, "proxy": config.proxy})}
        longest_first = sorted((text for text in secrets if len(text) >= _SHORTEST), key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def told(self, text: str) -> str:
        """The text as anybody may read it."""
        return self._secrets.sub("[redacted]", text) if self._secrets is not None else text
