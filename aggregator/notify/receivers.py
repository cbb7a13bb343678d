"""The entries of `notify` in the file: one that cannot be used costs itself, and no other."""

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import ValidationError

from aggregator.config.files.jsonfile import JsonObject, kind
from aggregator.config.files.report import Report, Where, did_you_mean
from aggregator.config.files.wording import complaints
from aggregator.config.servers.complete import complete
from aggregator.config.servers.expand import Expander
from aggregator.config.servers.foreign import is_comment
from aggregator.notify.config import ReceiverConfig

NOTIFY: Final = "notify"
# More are not needed, and each has a task and a queue of its own.
MOST: Final = 50


def read_receivers(raw: object, expander: Expander, report: Report) -> tuple[ReceiverConfig, ...]:
    """Return the receivers that can be used, with the references in them resolved; report the others."""
    if not isinstance(raw, list):
        said = f"Expected a list in [ ], got {kind(raw)}. No receiver is told anything."
        report.error((NOTIFY,), said, 'Write a list, such as [{"name": "on-call", "url": "https://..."}].')
        return ()
    found: dict[str, ReceiverConfig] = {}
    for at, entry in enumerate(raw):
        where: Where = (NOTIFY, at)
        receiver = _receiver(entry, where, expander, report)
        if receiver is None:
            continue
        if receiver.name in found:
            said = f"There is another receiver {receiver.name!r} before this one, which is not used."
            report.error((*where, "name"), said, "Give it another name.")
        elif len(found) >= MOST:
            report.error(where, f"There may be {MOST} receivers; this one is not used.", "Remove some.")
        else:
            found[receiver.name] = receiver
    return tuple(found.values())


def _receiver(entry: object, where: Where, expander: Expander, report: Report) -> ReceiverConfig | None:
    if not isinstance(entry, Mapping):
        said = f"Expected an object in {{ }}, got {kind(entry)}. This receiver is not used."
        report.error(where, said, 'Write an object, such as {"name": "on-call", "url": "https://..."}.')
        return None
    value, gaps = complete(entry, expander, where)
    for gap in gaps:
        report.error(gap.where, f"{gap.error.message} This receiver is not used.", gap.error.fix)
    if gaps:
        return None
    fields = dict(_known(value, where, report))
    for key in entry.repeated if isinstance(entry, JsonObject) else ():
        report.warning((*where, key), "This key is there more than once; the last one counts.", "Remove the others.")
    try:
        return ReceiverConfig.model_validate(fields)
    except ValidationError as error:
        for fault in complaints(error, fields):
            report.error((*where, *fault.where), f"{fault.message} This receiver is not used.", fault.fix)
        return None


def _known(entry: object, where: Where, report: Report) -> Iterator[tuple[str, object]]:
    """Yield the fields of an entry that are known and have a value; report the others."""
    assert isinstance(entry, Mapping)
    known = ReceiverConfig.model_fields
    for key, value in entry.items():
        if key in known:
            if value is not None:
                yield key, value
        elif not is_comment(key):
            hint = did_you_mean(key, known)
            report.warning((*where, key), "This key is not known and has no effect.", hint or "Remove it.")
