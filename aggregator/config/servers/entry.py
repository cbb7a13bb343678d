"""One entry of `mcpServers` before it is validated: references resolved, keys of other hosts translated, named."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aggregator.accounts.config import ServerAuthConfig
from aggregator.config.client_tls import ServerTlsConfig
from aggregator.config.files.jsonfile import JsonObject
from aggregator.config.files.report import Report, Where, did_you_mean
from aggregator.config.files.wording import ConfigComplaint
from aggregator.config.health import HealthConfig
from aggregator.config.server_parts import LaunchConfig, ToolsConfig
from aggregator.config.servers.complete import Gap
from aggregator.config.servers.expand import Expander
from aggregator.config.servers.foreign import ENV_FILE, OWN_KEYS, TOOL_LISTS, Translated, is_comment, translate
from aggregator.config.servers.late import sort_out, under_our_names
from aggregator.config.servers.names import usable
from aggregator.config.servers.own_env import complete_entry
from aggregator.secret_sources.reference import LateText

_NESTED_KEYS = {
    "auth": tuple(ServerAuthConfig.model_fields),
    "tls": tuple(ServerTlsConfig.model_fields),
    "launch": tuple(LaunchConfig.model_fields),
    "tools": tuple(ToolsConfig.model_fields),
    "health": tuple(HealthConfig.model_fields),
}
_NOT_ONCE = "This key is not known. Each replica would start the server, which must run once, so it is not used."
_RUN_ONCE = (
    'Remove "replicas", and give the server an aggregator of its own (docs/scaling.md, "A server that must run once").'
)
_MAY_BE_BLANK = ("command", "url", "target", "proxy", "cwd", "description")


@dataclass
class ServerEntry:
    """One entry of the file, and the report that its problems go to.

    `raw` is the entry as written, `where` its path in the file, `translated` its fields under our names, `gaps` the
    texts whose references cannot be resolved, `late` those that are completed for each connection, `changed` the fields
    that the environment replaced.
    """

    key: str
    raw: Mapping[str, object]
    where: Where
    report: Report
    translated: Translated
    gaps: list[Gap]
    late: tuple[LateText, ...] = ()
    changed: set[str] = field(default_factory=set)
    id: str = ""

    @property
    def fields(self) -> dict[str, object]:
        """The fields of the entry under our names."""
        return self.translated.fields

    def field_of(self, gap: Gap) -> str:
        """Return our name of the field that a gap is in."""
        key = str(gap.where[0])
        if key == ENV_FILE:
            return "env"
        return next((name for name, written in self.translated.written.items() if written == key), key)

    def place(self, path: Where) -> Where:
        """Return the path in the entry as written for a path under our names."""
        if not path:
            return ()
        name = self.translated.written.get(str(path[0]), str(path[0]))
        is_list = name in TOOL_LISTS or (name == "tools" and isinstance(self.raw.get(name), list))
        return (name, *path[2 if is_list else 1 :])

    def error(self, found: ConfigComplaint) -> None:
        """Report a complaint for which the entry is left out; its path is one under our names."""
        self.report.error((*self.where, *self.place(found.where)), found.message, found.fix, self._name)

    def warn(self, found: ConfigComplaint) -> None:
        """Report a complaint that leaves the entry in use; its path is one under our names."""
        self.report.warning((*self.where, *self.place(found.where)), found.message, found.fix, self._name)

    @property
    def _name(self) -> str:
        return self.id or usable(self.key) or self.key


def fill(key: str, raw: Mapping[str, object], where: Where, report: Report, expander: Expander) -> ServerEntry:
    """Return an entry with its references resolved but for secrets; those that cannot be are in `gaps`."""
    filled, found_late, gaps = complete_entry(raw, expander)
    late, misplaced = sort_out(found_late)
    gaps += misplaced
    translated = translate(filled)
    entry = ServerEntry(key, raw, where, report, translated, gaps, under_our_names(late, translated.written))
    for name in _MAY_BE_BLANK:
        if entry.fields.get(name) == "":
            del entry.fields[name]
    return entry


def name(entry: ServerEntry) -> bool:
    """Set the id and the prefix of an entry; report an error and return False where its key allows none."""
    own = entry.fields.get("prefix")
    made = usable(entry.key)
    if own is not None and not isinstance(own, str):
        entry.id = made or entry.key  # the validation of the fields reports the prefix
        return True
    prefix = made if own is None else usable(own) if own else ""
    entry.id = made or prefix or ""
    if prefix is None or not entry.id:
        place, what = (("prefix",), "prefix") if own is not None else ((), "key")
        message = f"The {what} has no letter or digit of A-Z, a-z, 0-9 to name tools by."
        entry.error(ConfigComplaint(place, message, 'Write a "prefix" that has, such as "maps".'))
        return False
    if own is not None and prefix != own:
        message = f"Tool names cannot hold this prefix; it is `{prefix}` here."
        entry.warn(ConfigComplaint(("prefix",), message, f'Write "{prefix}", or choose another.'))
    if own is None and prefix != entry.key:
        message = f"Tool names cannot hold this key; the server is called `{prefix}` here."
        entry.warn(ConfigComplaint((), message, 'Rename the key, or choose a "prefix".'))
    entry.fields["prefix"] = prefix
    return True


def note_keys(entry: ServerEntry) -> bool:
    """Report keys that are unknown or repeated, and remove unknown ones from nested objects.

    Return False if the entry must not be used without what an unknown key says.
    """
    runs_once = entry.raw.get("replicas") == "one"
    for key in entry.translated.unknown:
        if key == "replicas" and runs_once:
            entry.error(ConfigComplaint((key,), _NOT_ONCE, _RUN_ONCE))
        else:
            _unknown(entry, (key,), OWN_KEYS)
    for key in entry.raw.repeated if isinstance(entry.raw, JsonObject) else ():
        entry.warn(
            ConfigComplaint((key,), "This key is there more than once; the last one counts.", "Remove the others.")
        )
    for part, known in _NESTED_KEYS.items():
        value = entry.fields.get(part)
        if isinstance(value, Mapping):
            for key in value:
                if key not in known:
                    _unknown(entry, (part, key), known)
            entry.fields[part] = {key: item for key, item in value.items() if key in known and item is not None}
    return not runs_once


def _unknown(entry: ServerEntry, where: tuple[str, ...], known: tuple[str, ...]) -> None:
    if not is_comment(where[-1]):
        hint = did_you_mean(where[-1], known)
        entry.warn(ConfigComplaint(where, "This key is not known and has no effect.", hint or "Remove it."))
