"""The one error of this package: a configuration that cannot be read at all."""

from aggregator.domain.errors import OperatorError


class ConfigError(OperatorError):
    """There is no configuration file, or it cannot be read, or it is not a JSON object."""
