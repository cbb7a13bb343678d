"""Errors of the configuration."""

from aggregator.domain.errors import OperatorError


class ConfigError(OperatorError):
    """A configuration file that is missing, cannot be read, must not be used, or is not a JSON object."""


class ConfigMissing(ConfigError):
    """A configuration file that was not named, and is at none of the default places."""
