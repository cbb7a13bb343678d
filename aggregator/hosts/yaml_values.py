"""The values of a text in YAML, as the hosts that use YAML read it."""

import re

import yaml


class NotYaml(Exception):
    """A text that is no YAML. `line` and `column` count from 1, and are 0 if the place is not known.

    The message says what is wrong and how to correct it, to follow the name of the file and the place.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class _Loader(yaml.SafeLoader):
    """YAML 1.1 in which `off`, `yes` and dates are texts."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in forms if tag.rpartition(":")[2] in ("null", "int", "float", "merge")]
    for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|True|TRUE|false|False|FALSE"), list("tTfF"))


def load_yaml(text: str) -> object:
    """Return the value of a text. Raises NotYaml; RecursionError if it is nested too deeply."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        message = ": this is not YAML. Correct it there."
        raise NotYaml(message, mark.line + 1, mark.column + 1) if mark else NotYaml(message) from None
    # Its constructors of numbers, dates and tags fail in many ways on texts that are none.
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        raise NotYaml(" is not YAML that can be read. Quote texts that look like dates or tags.") from None
