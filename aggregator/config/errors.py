"""The errors of this package: a configuration that cannot be read at all, and one that is not there."""

from aggregator.domain.errors import OperatorError


class ConfigError(OperatorError):
    """There is no configuration file, or it cannot be read, must not be used, or is not a JSON object."""


class ConfigMissing(ConfigError):
    """No file was named, and there is none at any place that is looked at."""
