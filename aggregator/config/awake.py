"""A configuration for commands that look at every server once."""

from aggregator.config.model import Config


def all_started(config: Config) -> Config:
    """Return the configuration with every server started eagerly and never stopped for being idle."""
    awake = {"start": "eager", "idle_timeout": None}
    return config.model_copy(update={"servers": tuple(server.model_copy(update=awake) for server in config.servers)})
