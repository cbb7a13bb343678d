"""Texts of hosts are read with the bounds of hosts, wherever one is read."""

import ast
from typing import Final

from tests.test_layers import OURS, PACKAGE

EDGES: Final = tuple(f"{PACKAGE}.{name}." for name in ("code", "frontends", "gateway"))
# Modules at hosts that read JSON which no host wrote.
READ_OTHERWISE: Final = {
    "aggregator.frontends.web.resumable": "of a header, which is short",
    "aggregator.frontends.web.sessions.session_ids": "sealed here",
    "aggregator.gateway.ask.sealed_state": "sealed here",
    "aggregator.code.programs": "the text of a result",
}


def test_texts_of_hosts_are_read_with_their_bounds() -> None:
    """`decode` bounds neither names of fields nor what the slower reader gets."""
    read = {
        (module.name, module.place(node.lineno))
        for module in OURS
        if module.name.startswith(EDGES)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "decode"
    }
    assert not [place for name, place in sorted(read) if name not in READ_OTHERWISE]
    assert not READ_OTHERWISE.keys() - {name for name, _ in read}, "no longer there"
