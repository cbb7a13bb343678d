"""Which requests of a connection are taken for one before, each condition by itself: the bytes of the head, and what is
looked at each time.
"""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.domain.principal import Principal, TokenFacts
from aggregator.frontends.web.repeated_fields import MEMORY, FieldMemory
from aggregator.frontends.web.request_cache import (
    BODY_READ,
    HEADS_KEPT,
    AnsweredPost,
    CachedMcpRequest,
    CallHeads,
    KnownHead,
    PostFailed,
    RequestCache,
)
from aggregator.gateway.admission import Admission
from aggregator.gateway.calls.known_host import constant_part
from aggregator.gateway.revocation import RevocableTasks
from aggregator.identity.source import ClientSource
from tests.peers.toolbox import Json

KEY: Final = Principal("ada", key_id="k1")
TOKEN: Final = Principal("ada", token=TokenFacts("https://idp", "ada"))
HEAD: Final = (
    b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nMcp-Name: old.any\r\nAuthorization: Bearer k\r\n\r\n"
)
BODY: Final = b'{"jsonrpc":"2.0"}'


def post(**more: Any) -> CachedMcpRequest:
    given: Json = {"name": None, "session": None, "headers": {}, "may_repeat": False, **more}
    host = SimpleNamespace(host=SimpleNamespace(principal=KEY, log_level=None), modern=True)
    return CachedMcpRequest(SimpleNamespace(principal=KEY), given.pop("host", host), given.pop("headers"), **given)  # type: ignore[arg-type]


# -- the bytes of a head


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (HEAD % len(BODY) + BODY, BODY),
        (HEAD % 3 + b"abc", b"abc"),
        # The head has come alone, and its body comes next.
        (HEAD % len(BODY), b""),
        (HEAD % len(BODY) + BODY[:-1], None),
        (HEAD % len(BODY) + BODY + b"P", None),
        (HEAD % 0, None),
        ((HEAD % 17).replace(b"17", b"") + BODY, None),
        ((HEAD % 17).replace(b"17", b"-7") + BODY, None),
        ((HEAD % 17).replace(b"17", b"17a") + BODY, None),
        ((HEAD % 17).replace(b"17", b" 17") + BODY, None),
        ((HEAD % 17).replace(b"17", b"0" * 9 + b"17") + BODY, None),
        ((HEAD % 17).replace(b"17\r\n", b"17\n") + BODY, None),
        (HEAD.replace(b"old.any", b"old.num") % len(BODY) + BODY, None),
        (HEAD.replace(b"Bearer k", b"Bearer l") % len(BODY) + BODY, None),
        (HEAD.replace(b"/mcp", b"/mcq") % len(BODY) + BODY, None),
        (HEAD.replace(b"Host: a", b"host: a") % len(BODY) + BODY, None),
        ((HEAD % len(BODY))[:-2], None),
        (b"", None),
    ],
)
def test_which_bytes_have_a_known_head(message: bytes, found: bytes | None) -> None:
    known = KnownHead.of(HEAD % 100, post())
    assert known is not None
    assert known.body(message) == found


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        (HEAD % 5, True),
        (HEAD.replace(b"Content-Length: %d", b"content-length:%d") % 5, True),
        (HEAD.replace(b"Content-Length: %d", b"Content-Length:   %d") % 5, True),
        (HEAD.replace(b"Content-Length: %d\r\n", b""), False),
        (HEAD.replace(b"Content-Length: %d", b"Content-Length: ") % (), False),
        (HEAD.replace(b"Content-Length: %d", b"Content-Length: 5;x"), False),
        (HEAD.replace(b"Content-Length: %d", b"Content-Length: 5\r\nContent-Length: 5"), False),
        (HEAD.replace(b"Host: a", b"Expect: 100-continue") % 5, False),
        (HEAD.replace(b"Host: a", b"transfer-encoding: chunked") % 5, False),
        (HEAD.replace(b"Host: a", b"UPGRADE: h2c") % 5, False),
    ],
)
def test_which_heads_are_kept(head: bytes, kept: bool) -> None:
    assert (KnownHead.of(head, post()) is not None) is kept


def test_a_connection_keeps_a_few_heads_the_latest_first() -> None:
    heads = CallHeads()
    assert not heads.known
    made = [HEAD.replace(b"old.any", b"old.%d" % number) for number in range(HEADS_KEPT + 1)]
    posts = [post(name=str(number)) for number in range(HEADS_KEPT + 1)]
    for head, one in zip(made, posts, strict=True):
        heads.remember(head % 5, one)
    heads.remember(None, posts[0])
    heads.remember(made[0] % 5, None)
    found = [heads.find(head % 3 + b"abc") for head in made]
    assert found == [None, *((one, b"abc") for one in posts[1:])]
    # The same head again, with what follows from it now.
    again = post(name="again")
    heads.remember(made[1] % 7, again)
    assert heads.find(made[1] % 3 + b"abc") == (again, b"abc")
    heads.remember(made[0] % 5, posts[0])
    assert heads.find(made[1] % 3 + b"abc") is not None
    assert heads.find(made[2] % 3 + b"abc") is None, "it was used longest ago"


@pytest.mark.parametrize(
    ("pieces", "size", "known"),
    [
        ([(HEAD % 17 + BODY, True)], 17, True),
        ([(HEAD % 17, True), (BODY, False)], 17, True),
        ([(HEAD % 17, True), (BODY[:5], False), (BODY[5:], False)], 17, True),
        # Something else has come with it, or before it.
        ([(HEAD % 17 + BODY + b"POST", True)], 17, False),
        ([(HEAD % 17 + BODY, False)], 17, False),
        ([((HEAD % 17)[:20], True), ((HEAD % 17)[20:] + BODY, False)], 17, False),
        ([(HEAD.replace(b"Host: a", b"Host: " + b"a" * 5_000) % 17 + BODY, True)], 17, False),
    ],
)
def test_when_the_head_of_a_message_is_known(pieces: list[tuple[bytes, bool]], size: int, known: bool) -> None:
    heads = CallHeads()
    for data, whole in pieces:
        heads.begin(data, whole=whole)
    assert heads.end(size) == (HEAD % 17 if known else None)
    assert heads.end(size) is None, "once"


# -- what is looked at each time


class Session:
    """A session of a host of the handshake eras."""

    def __init__(self, log_level: str | None = None) -> None:
        self.id = "one"
        self.host = SimpleNamespace(log_level=log_level)
        self.running: dict[object, object] = {}
        self.entered = 0

    def __enter__(self) -> None:
        self.entered += 1

    def __exit__(self, *_: object) -> None:
        self.entered -= 1


class Here:
    """The known calls of a process, whose gateway begins each, and notes what with."""

    def __init__(self) -> None:
        self.principal: Principal | None = KEY
        self.admission = Admission({"sessions": 9, "streams": 9, "pending": 2}, 1.0)
        self.sessions: dict[str, Session] = {}
        self.begun: list[Json] = []
        self.plain = True
        self.error: Exception | None = None
        self.call = SimpleNamespace(take_over=lambda: None, known=SimpleNamespace(modern=True))
        self.revocation = RevocableTasks()
        gateway = SimpleNamespace(
            direct=SimpleNamespace(send_at_once=self._begin, answered_again=frozenset()), revocation=self.revocation
        )
        access = SimpleNamespace(repeated=lambda before: self.principal)
        self.limits = SimpleNamespace(admission=self.admission, max_body=4 * 2**20, unread=None)
        self.posts = RequestCache(gateway, access, self.limits, self.sessions, None)  # type: ignore[arg-type]
        self.answers: list[tuple[int, bytes]] = []

    def _begin(self, known: object, params: Json, answer: object) -> object:
        if self.error is not None:
            raise self.error
        self.begun.append(params)
        return self.call if self.plain else None

    def write_answer(self, status: int, body: bytes) -> None:
        self.answers.append((status, body))

    def resume(self) -> None:
        self.answers.append((0, b"resumed"))

    def begin(self, known: CachedMcpRequest, message: object = None) -> Any:
        body = message if isinstance(message, bytes) else json.dumps(message or call()).encode()
        return self.posts.try_direct(known, body, self)


def call(name: str = "old.any", request_id: object = 7, **more: Any) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": {"name": name}, **more}


def _no_place(here: Here) -> None:
    for _ in range(2):
        here.admission.acquire("pending", KEY)


def _another_token(here: Here) -> None:
    here.principal = TOKEN


SESSION: Final = Session()
BEGUN: Final[dict[str, tuple[Callable[[Here], object], CachedMcpRequest, Any, bool]]] = {
    "the same": (lambda here: None, post(), None, True),
    "the credentials count no more": (lambda here: setattr(here, "principal", None), post(), None, False),
    "no place": (_no_place, post(), None, False),
    "a long body": (lambda here: None, post(), call(more="x" * BODY_READ), False),
    "a body as long as may be": (lambda here: None, post(), json.dumps(call()).encode().ljust(BODY_READ), True),
    "a body longer than is allowed": (lambda here: setattr(here.limits, "max_body", 10), post(), None, False),
    "no JSON": (lambda here: None, post(), b"{", False),
    "a batch": (lambda here: None, post(), [call()], False),
    "another method": (lambda here: None, post(), call(method="tools/list"), False),
    "no params": (lambda here: None, post(), call(params=[1]), False),
    "a notification": (lambda here: None, post(), {"jsonrpc": "2.0", "method": "tools/call", "params": {}}, False),
    "an id that is none": (lambda here: None, post(), call(request_id=[1]), False),
    "an id of zero": (lambda here: None, post(), call(request_id=0), True),
    "the name in the head": (lambda here: None, post(name="old.any"), None, True),
    "another name than in the head": (lambda here: None, post(name="old.any"), call("old.number"), False),
    "no name in the head": (lambda here: None, post(), call("old.number"), True),
    "not plain": (lambda here: setattr(here, "plain", False), post(), None, False),
    "another token": (_another_token, post(), None, False),
    "its session": (lambda here: here.sessions.update(one=SESSION), post(session=SESSION), None, True),
    "its session is gone": (lambda here: None, post(session=SESSION), None, False),
    "another session of that name": (
        lambda here: here.sessions.update(one=Session()),
        post(session=SESSION),
        None,
        False,
    ),
}


@pytest.mark.parametrize("case", BEGUN)
def test_which_messages_are_begun_at_once(case: str) -> None:
    change, known, message, begun = BEGUN[case]
    here = Here()
    change(here)
    taken = here.admission.in_use["pending"]
    made = here.begin(known, message)
    assert (made is not None) is begun
    assert bool(here.begun) is (begun or case == "not plain")
    assert here.admission.in_use["pending"] == taken + begun
    assert len(here.revocation) == begun
    if made is not None:
        assert (made.principal, made.call) == (KEY, here.call)
        made.answered({"content": []})
        assert [status for status, _ in here.answers] == [200]
        assert json.loads(here.answers[0][1])["id"] == made.request_id
        assert (here.admission.in_use["pending"], len(here.revocation)) == (taken, 0)
    assert (SESSION.entered, SESSION.running) == (0, {})


def test_an_id_that_runs_in_its_session_is_not_begun_again() -> None:
    here, session = Here(), Session()
    here.sessions["one"] = session
    known = post(session=session)
    first = here.begin(known)
    assert (session.entered, list(session.running)) == (1, [7])
    assert here.begin(known) is None
    assert here.begin(known, call(request_id=8)) is not None
    assert list(session.running) == [7, 8]
    first.answered({})
    assert (session.entered, list(session.running)) == (1, [8])
    assert here.begin(known) is not None


def test_an_answer_that_is_given_again_is_a_use_of_its_session() -> None:
    """C8: a host that asks nothing else keeps its session."""
    here, session, used = Here(), Session(), list[int]()
    results: list[Json | None] = [None, {"content": []}]
    session.note_use = lambda: used.append(len(results))  # type: ignore[attr-defined]
    here.sessions["one"] = session
    direct: Any = here.posts.gateway.direct
    direct.answered_again, direct.answer_again = frozenset({"old.any"}), lambda *_: results.pop(0)
    for given in (False, True):
        assert isinstance(here.begin(post(session=session, may_repeat=True)), AnsweredPost) is given
    assert (used, session.entered, session.running, here.begun) == ([0], 0, {}, [])


def test_a_call_has_the_context_of_its_head() -> None:
    """D8: as an ordinary request has."""
    here = Here()
    here.begin(post(headers={"traceparent": ["00-1"], "mcp-name": ["old.any"]}))
    here.begin(post(headers={"mcp-name": ["old.any"]}))
    assert [params.get("_meta") for params in here.begun] == [{"traceparent": "00-1"}, None]


def test_a_call_whose_key_is_revoked_is_taken_over() -> None:
    """D4: a task then ends it."""
    here, taken = Here(), list[int]()
    here.call.take_over = lambda: taken.append(1)
    here.begin(post())
    here.revocation.review(lambda principal: principal is KEY)
    assert not taken
    here.revocation.review(lambda principal: False)
    assert taken == [1]


def test_what_the_host_of_a_session_wants_to_read_of_logs_is_that_of_now() -> None:
    here = Here()
    for level, of_session, begun in ((None, None, True), (None, "debug", False), ("debug", "debug", True)):
        session = Session(of_session)
        here.sessions["one"] = session
        host = SimpleNamespace(host=SimpleNamespace(principal=KEY, log_level=level), modern=False)
        made = here.begin(post(session=session, host=host))
        assert (made is not None) is begun
        if made is not None:
            made.answered({})


@pytest.mark.parametrize(
    ("missing", "session", "name"),
    [
        ("", None, "old.any"),
        ("", SESSION, None),
        ("memory", None, ...),
        ("authentication", None, ...),
        ("headers", None, ...),
        ("a plain host", None, ...),
        ("a tool that needs no task", None, ...),
        ("a tool that needs no task", SESSION, None),
    ],
)
def test_what_is_remembered_of_a_call_that_is_answered(missing: str, session: Session | None, name: Any) -> None:
    """In the handshake eras no head names the tool."""
    here = Here()
    host = post().host if missing != "a plain host" else None
    here.posts.gateway.direct.known = lambda host_, params: host  # type: ignore[method-assign, assignment]
    here.posts.gateway.direct.may_take = lambda name: missing != "a tool that needs no task"  # type: ignore[method-assign]
    memory, scope = remembering()
    memory.authentication = None if missing == "authentication" else memory.authentication
    memory.headers = None if missing == "headers" else memory.headers
    if missing == "memory":
        del scope[MEMORY]
    here.posts.remember(scope, host, {"name": "old.any"}, session)  # type: ignore[arg-type]
    found: Any = memory.take_post(scope)
    if name is ...:
        assert found is None
    else:
        assert (found.name, found.session, found.host) == (name, session, host)
        assert memory.take_post(scope) is None, "once"


def remembering() -> tuple[FieldMemory, Json]:
    """A memory that knows the fields of a request and its principal, and the scope of that request."""
    memory = FieldMemory()
    scope: Json = {"headers": [(b"mcp-name", b"old.any")], "http_version": "1.1", MEMORY: memory}
    memory.keep(scope, dict(scope["headers"]), ClientSource())
    memory.authentication = SimpleNamespace(principal=KEY)  # type: ignore[assignment]
    memory.headers = {"mcp-name": ["old.any"]}
    return memory, scope


@pytest.mark.parametrize("same_fields", [True, False])
@pytest.mark.parametrize("noted", ["before the next request", "while the next request runs"])
def test_a_call_is_remembered_for_its_own_request_alone(noted: str, same_fields: bool) -> None:
    """D4: a response can end before its call, and the next request of the connection is perhaps another host's."""
    here = Here()
    here.posts.gateway.direct.known = lambda host_, params: host_  # type: ignore[method-assign, assignment, return-value]
    here.posts.gateway.direct.may_take = lambda name: True  # type: ignore[method-assign]
    memory, scope = remembering()
    fields = [(b"mcp-name", b"old.any")] if same_fields else [(b"authorization", b"Bearer other")]
    following: Json = {**scope, "headers": fields}
    if noted == "before the next request":
        here.posts.remember(scope, post().host.host, {"name": "old.any"})
    if not memory.is_repeated(following):
        memory.keep(following, dict(fields), ClientSource())
        memory.authentication, memory.headers = SimpleNamespace(principal=TOKEN), {}  # type: ignore[assignment]
    if noted == "while the next request runs":
        here.posts.remember(scope, post().host.host, {"name": "old.any"})
    assert memory.take_post(following) is None


def test_an_error_of_ours_leaves_no_place_taken_and_is_answered() -> None:
    """It may be sent already, so nothing sends it again."""
    here = Here()
    here.error = RuntimeError("a fault of ours")
    with pytest.raises(PostFailed) as failed:
        here.begin(post())
    answer = json.loads(failed.value.body)
    assert (answer["id"], "error" in answer) == (7, True)
    assert "a fault of ours" not in str(answer)
    assert (here.admission.in_use["pending"], len(here.revocation)) == (0, 0)


def test_a_call_that_a_task_takes_over_keeps_its_place() -> None:
    here = Here()
    for end in ("take_over", "cancel"):
        taken: list[int] = []
        here.call.take_over = lambda taken=taken: taken.append(1)
        made = here.begin(post())
        if end == "cancel":
            assert made.cancel()
            assert (made.cancelled, taken) == (True, [1])
        made.take_over(here.call)
        assert here.answers.pop() == (0, b"resumed")
        assert (here.admission.in_use["pending"], len(here.revocation)) == (1, 0)
        made.release()
        assert here.admission.in_use["pending"] == 0


def test_an_answer_that_cannot_be_written_is_an_error_and_gives_its_place_back() -> None:
    here = Here()
    made = here.begin(post())
    made.answered({"a": object()})
    assert "error" in json.loads(here.answers[0][1])
    assert here.admission.in_use["pending"] == 0
    made.failed(RuntimeError("late"))
    assert len(here.answers) == 1, "one answer"


@pytest.mark.parametrize(
    ("meta", "constant"),
    [
        (None, None),
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        ({"a": 1, "progressToken": 7}, {"a": 1}),
        ({"traceparent": "x", "tracestate": "y", "b": {"progressToken": 1}}, {"b": {"progressToken": 1}}),
    ],
)
def test_what_of_meta_is_the_same_for_each_call(meta: Json | None, constant: Json | None) -> None:
    assert constant_part(meta) == constant
