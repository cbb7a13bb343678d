"""What a filled-in form says, what a request of a browser is, and what a page that lags is sent: each by itself."""

from typing import Any, Final, get_args

import pytest
from starlette.requests import Request

from aggregator.domain.errors import AggregatorError
from aggregator.frontends.console import console
from aggregator.frontends.console.calls.live import OpenPage
from aggregator.frontends.console.schema_form import FieldKind, form_fields, read_form
from aggregator.frontends.console.view import BadInput, NotThere
from aggregator.storage.errors import NoSuchRow, StorageBusy, StorageError

# A field of each kind; its arguments when it is empty and required, if it is there at all.
EMPTY: Final[dict[FieldKind, tuple[dict[str, Any], Any]]] = {
    "text": ({"type": "string"}, ""),
    "long text": ({"type": "string", "maxLength": 500}, ""),
    "number": ({"type": "number"}, None),
    "integer": ({"type": "integer"}, None),
    "yes or no": ({"type": "boolean"}, None),
    "choice": ({"enum": ["a", "b"]}, None),
    "list": ({"type": "array", "items": {"type": "string"}}, []),
    "object": ({"type": "object", "properties": {"b": {"type": "string"}}}, {}),
    "json": ({}, None),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_an_empty_field_is_left_out_unless_it_is_required_and_can_be_empty(kind: FieldKind) -> None:
    """What cannot be empty is left out, so that the check of the call names it."""
    assert EMPTY.keys() == {*get_args(FieldKind)}
    schema, empty = EMPTY[kind]
    for required in (True, False):
        fields = form_fields({"properties": {"a": schema}, "required": ["a"] if required else []})
        assert [one.kind for one in fields] == [kind]
        assert read_form(fields, {}) == ({"a": empty} if required and empty is not None else {})


def test_an_object_is_there_once_a_field_in_it_is_filled_in() -> None:
    inner = {"type": "object", "properties": {"c": {"type": "string"}, "d": {"type": "string"}}}
    (field,) = form_fields({"properties": {"a": {"type": "object", "properties": {"b": inner}}}})
    deepest = field.inner[0].inner[1].key
    assert read_form((field,), {deepest: "x"}) == {"a": {"b": {"d": "x"}}}
    assert read_form((field,), {deepest: ""}) == {}


def request(method: str = "GET", **headers: str) -> Request:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "headers": named})


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("mode", ["navigate", "cors", "no-cors", ""])
@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "none", ""])
def test_another_page_may_send_a_browser_here_and_read_nothing(method: str, mode: str, site: str) -> None:
    """A POST is refused by its origin, with a reason of its own."""
    asked = request(method, sec_fetch_site=site, sec_fetch_mode=mode)
    elsewhere = site in ("cross-site", "same-site")
    assert console._is_elsewhere(asked) is elsewhere
    assert console._is_read_elsewhere(asked) is (elsewhere and method == "GET" and mode != "navigate")


def test_of_a_field_that_comes_twice_the_first_counts() -> None:
    assert console._fields("a=1&b=2&a=3") == {"a": "1", "b": "2"}
    assert console._fields("a=&a=3") == {"a": ""}
    most = "&".join(f"f{number}=" for number in range(console._MOST_FIELDS))
    assert len(console._fields(most)) == console._MOST_FIELDS
    with pytest.raises(BadInput):
        console._fields(f"{most}&one=more")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AggregatorError, 400),
        (BadInput, 400),
        (NotThere, 404),
        (NoSuchRow, 409),
        (StorageBusy, 503),
        (StorageError, 503),
        (ValueError, 500),
        *((kind, status) for kind, (status, _) in console._FAILURES.items()),
    ],
)
def test_each_error_has_the_status_of_its_nearest_class(error: type[BaseException], status: int) -> None:
    assert next(console._FAILURES[kind][0] for kind in error.__mro__ if kind in console._FAILURES) == status


@pytest.mark.parametrize("before", [[], ["<tr>1</tr>"]])
def test_a_page_that_reads_its_list_again_is_sent_nothing_of_before(before: list[str]) -> None:
    page = OpenPage("/console", approves=False, lists=True)
    page.add_rows(before, 3)
    page.set_latest("pulse", b"event: pulse\ndata: x\n\n")
    page.add_gap()
    events = page.take()
    assert b"event: gap" in events
    assert b"event: pulse" in events
    assert b"event: rows" not in events
    assert b"event: rest" not in events
    assert not page.ready.is_set()
    # It has read its list by then: what comes next is told as ever.
    page.add_rows(["<tr>2</tr>"], 2)
    assert page.ready.is_set()
    events = page.take()
    assert b"event: rows" in events
    assert b"event: rest" in events
    assert b"event: gap" not in events
    assert page.take() == b""
