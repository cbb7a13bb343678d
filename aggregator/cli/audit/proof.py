"""`aggregator audit verify|anchor`: proves that the audit log is whole."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aggregator.audit.spill import waiting_beside
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.writer import say
from aggregator.domain.errors import OperatorError
from aggregator.domain.text.error_text import error_text
from aggregator.storage.audit.anchor import Anchor, anchor_line, anchors_in
from aggregator.storage.audit.chain import ChainKey, Head
from aggregator.storage.audit.read import open_reader
from aggregator.storage.audit.verify import ChainVerdict, Verdict
from aggregator.storage.audit.verify import verify as verify_rows
from aggregator.storage.locate import default_url, full_url, sqlite_path


def verify(
    storage: str | None,
    expected: str | None = None,
    anchor: Path | None = None,
    as_json: bool = False,
    *,
    chain_key: str | None = None,
) -> int:
    """Print whether the log is whole and unchanged; return 1 if it is not.

    `expected` is a digest that was copied elsewhere, `anchor` a file of lines that the command `anchor` printed.

    Raises:
        OperatorError: there is no log, or the log or the file cannot be read.
    """
    url = storage or default_url(os.environ)
    anchors = _anchors(anchor) if anchor is not None else []
    key = ChainKey(chain_key) if chain_key is not None else None
    verdict = run_loop(_verify(url, expected, anchors, key))
    path = sqlite_path(full_url(url))
    beside = waiting_beside(path) if path is not None else []
    if as_json:
        say(json.dumps(_report(verdict, beside), indent=2))
    else:
        _print_verdict(verdict, noted=expected is not None or bool(anchors), beside=beside)
    return 1 if verdict.fault_count else 0


def anchor(storage: str | None, output: Path | None = None) -> int:
    """Print the number and the digest of the newest row of each chain as a line, and append them to the file `output`.

    Raises:
        OperatorError: there is no log, or no row in it, or the file cannot be written.
    """
    heads = run_loop(_newest(storage or default_url(os.environ)))
    if not heads:
        raise OperatorError("The audit log has no row yet: there is nothing to note.")
    now = time.time()
    text = "".join(f"{anchor_line(head, now, chain)}\n" for chain, head in sorted(heads.items()))
    if output is not None:
        try:
            with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OperatorError(f"{output} cannot be written: {error.strerror}.") from error
    say(text, end="")
    return 0


def _anchors(file: Path) -> list[Anchor]:
    try:
        return anchors_in(file.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise OperatorError(f"{file} cannot be used: {error_text(error)}.") from error


async def _newest(url: str) -> dict[int, Head]:
    async with open_reader(url) as reader:
        return await reader.heads()


async def _verify(url: str, expected: str | None, anchors: Sequence[Anchor], key: ChainKey | None) -> Verdict:
    async with open_reader(url) as reader:
        return await verify_rows(reader, expected, anchors, key)


def _report(verdict: Verdict, beside: list[Path]) -> dict[str, Any]:
    chains = {"chains": [_chain_report(one) for one in verdict.chains]} if len(verdict.chains) > 1 else {}
    return {
        "whole": not verdict.fault_count,
        "rows": verdict.rows,
        "head": verdict.head._asdict(),
        "removed_up_to": verdict.trimmed._asdict(),
        "proven_by_key_from": verdict.keyed_from,
        "anchors_found": verdict.anchors_found,
        "anchors_of_removed_rows": verdict.anchors_removed,
        "faults": [fault._asdict() for fault in verdict.faults],
        "fault_count": verdict.fault_count,
        "not_yet_in_the_log": [str(file) for file in beside],
        **chains,
    }


def _chain_report(one: ChainVerdict) -> dict[str, Any]:
    return {
        "chain": one.chain,
        "whole": not one.fault_count,
        "rows": one.rows,
        "head": one.head._asdict(),
        "removed_up_to": one.trimmed._asdict(),
        "proven_by_key_from": one.keyed_from,
        "fault_count": one.fault_count,
    }


def _print_verdict(verdict: Verdict, *, noted: bool, beside: list[Path]) -> None:
    several = len(verdict.chains) > 1
    for fault in verdict.faults:
        where = f" of chain {fault.chain}" if several else ""
        say(f"row {fault.seq}{where}: {fault.what}")
    if verdict.fault_count > len(verdict.faults):
        say(f"... and {verdict.fault_count - len(verdict.faults)} more.")
    if verdict.trimmed.seq:
        say(f"Rows up to {verdict.trimmed.seq} were removed for their age or the size of the log.")
    if verdict.anchors_found or verdict.anchors_removed:
        say(f"{verdict.anchors_found} anchors are in the log, {verdict.anchors_removed} of rows that were removed.")
    if verdict.keyed_from is not None:
        say(f"From row {verdict.keyed_from} on the chain is proven by the key.")
    if several:
        for one in verdict.chains:
            say(_chain_line(one))
    for file in beside:
        say(f"{file} holds rows that are not in the log yet.")
    if verdict.fault_count:
        say(f"{verdict.rows} rows; the log is NOT whole.")
        return
    say(f"{verdict.rows} rows, none missing, none changed.")
    if verdict.rows:
        say(f"The newest is {verdict.head.seq}, with the digest {verdict.head.digest}")
    if verdict.rows and not noted:
        say("Note it elsewhere (`aggregator audit anchor`): nothing else shows a log that was cut or made anew.")


def _chain_line(one: ChainVerdict) -> str:
    faults = "1 fault" if one.fault_count == 1 else f"{one.fault_count} faults"
    said = faults if one.fault_count else "none missing, none changed"
    return f"chain {one.chain}: {one.rows} rows, the newest {one.head.seq} with the digest {one.head.digest}; {said}."
