"""The settings outside `mcpServers`: each faulty one is replaced by its default."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from aggregator.code.config import CodeConfig
from aggregator.config.auth.issuers import AuthConfig
from aggregator.config.files.jsonfile import JsonObject
from aggregator.config.files.report import Report, Where, did_you_mean, dotted
from aggregator.config.files.wording import complaints
from aggregator.config.model import Config
from aggregator.config.servers.complete import complete
from aggregator.config.servers.expand import Expander
from aggregator.config.servers.foreign import is_comment
from aggregator.config.settings import (
    AuditConfig,
    ChecksConfig,
    ConsoleConfig,
    FrontendConfig,
    HttpConfig,
    LogConfig,
    RedactConfig,
    SearchConfig,
    SecretsConfig,
    StdioConfig,
    V1Config,
)
from aggregator.notify.receivers import NOTIFY, read_receivers
from aggregator.replicas.config import ReplicasConfig
from aggregator.results.config import ResultsConfig

SECRETS: Final = "secrets"
SECTIONS: dict[str, type[BaseModel]] = {
    "http": HttpConfig,
    "sse": FrontendConfig,
    "stdio": StdioConfig,
    "v1": V1Config,
    "console": ConsoleConfig,
    "checks": ChecksConfig,
    "results": ResultsConfig,
    "code": CodeConfig,
    "search": SearchConfig,
    "audit": AuditConfig,
    "replicas": ReplicasConfig,
    "auth": AuthConfig,
    SECRETS: SecretsConfig,
    "redact": RedactConfig,
    "log": LogConfig,
}
# Settings of access control, TLS and the audit: if one is faulty no program starts, since the default would be weaker.
NEEDED = frozenset(
    {
        "storage",
        "policies",
        "audit",
        "audit.chain_key",
        "replicas",
        "replicas.key",
        "http.tls",
        "auth",
        "auth.vault_key",
    }
)
SETTINGS = tuple(name for name in Config.model_fields if name != "servers")


def read_sections(root: Mapping[str, object], expander: Expander, report: Report) -> Config:
    """Return the configuration without its servers. Never raises."""
    values: dict[str, object] = {}
    for name in SETTINGS:
        if root.get(name) is None:
            continue
        values[name] = (
            read_receivers(root[name], expander, report)
            if name == NOTIFY
            else _section(name, root[name], expander, report)
        )
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        for fault in complaints(error, root):
            report.error(fault.where, _said(fault.where, fault.message), fault.fix)
        for location in (detail["loc"] for detail in error.errors(include_input=False, include_url=False)):
            _drop(values, str(location[0]), str(location[1]) if len(location) > 1 else None)
    return Config.model_validate(values)


def allowing(expander: Expander, root: Mapping[str, object]) -> Expander:
    """Return the expander with what the section `secrets` allows; a faulty setting counts as its default."""
    raw = root.get(SECRETS)
    value, _ = complete(raw, expander, (SECRETS,), [])
    rules = SecretsConfig()
    for name, item in value.items() if isinstance(value, dict) else ():
        if name in SecretsConfig.model_fields:
            with suppress(ValidationError):
                rules = rules.model_copy(update={name: getattr(SecretsConfig.model_validate({name: item}), name)})
    return replace(expander, commands=rules.commands, limit=rules.timeout)


def _section(name: str, raw: object, expander: Expander, report: Report) -> object:
    """Return a section with its references resolved, without unknown keys and those with a missing variable."""
    value, gaps = complete(raw, expander, (name,))
    for gap in gaps:
        report.error(gap.where, _said(gap.where, gap.error.message), gap.error.fix)
    without = {str(gap.where[1]) for gap in gaps if len(gap.where) > 1}
    if name not in SECTIONS:
        return Config.model_fields[name].default if gaps else value
    if not isinstance(value, dict):
        return {} if gaps else value
    known = SECTIONS[name].model_fields
    for key in value:
        if key not in known and not is_comment(key):
            hint = did_you_mean(key, known)
            report.warning((name, key), "This key is not known and has no effect.", hint or "Remove it.")
    for key in raw.repeated if isinstance(raw, JsonObject) else ():
        report.warning((name, key), "This key is there more than once; the last one counts.", "Remove the others.")
    return {
        key: item
        for key, item in value.items()
        if key in known and key not in without and (item is not None or _takes_null(known[key]))
    }


def is_needed(where: str) -> bool:
    """Return whether no program starts with a fault at this place."""
    return where in NEEDED or where.startswith(("http.tls.", "http.tls[", "auth.issuers", "auth.private_hosts"))


def _said(where: Where, message: str) -> str:
    """Return a message; if the default is used, it ends in a sentence that says so."""
    return message if is_needed(dotted(where)) else f"{message} The default is used."


def _takes_null(field: FieldInfo) -> bool:
    """Return whether null is a value of the field, apart from its default."""
    return type(None) in get_args(field.annotation) and field.default is not None


def _drop(values: dict[str, object], name: str, key: str | None) -> None:
    section = values.get(name)
    if key is not None and isinstance(section, dict):
        section.pop(key, None)
    else:
        values.pop(name, None)
