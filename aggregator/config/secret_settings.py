"""The section `secrets`: which programs may give secrets, and how long a source may take."""

import os

from pydantic import Field, field_validator

from aggregator.config.fields import ConfigModel, Seconds


class SecretsConfig(ConfigModel):
    """Sources of secrets: `${keyring:name}` and `${command:program argument ...}` in the entries of servers."""

    commands: tuple[str, ...] = Field(
        default=(),
        description="The programs that `${command:...}` may run, as the reference writes them: names to look up "
        "on `PATH`, or full paths. Without it, no program runs for a secret.",
        examples=[["op", "/usr/local/bin/vault"]],
    )
    timeout: Seconds = Field(
        default=10.0,
        description="How long the keyring, or one such program, may take to give one secret.",
        examples=["1m"],
    )

    @field_validator("commands")
    @classmethod
    def _programs(cls, commands: tuple[str, ...]) -> tuple[str, ...]:
        for command in commands:
            named = bool(command) and os.path.basename(command) == command and command not in (".", "..")
            if not command.isprintable() or not (named or os.path.isabs(command)):
                raise ValueError("expected the names of programs, such as op, or full paths")
        return commands
