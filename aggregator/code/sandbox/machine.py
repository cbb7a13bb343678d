"""The body of one generator as a function that runs from one `yield` to the next.

The body becomes blocks; `_x_at` is the block that runs, and a jump sets it and begins the loop around them anew. Names
of the body belong to the function around, so that they last from one call to the next. An error goes to the block that
catches it, if its own has one.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, cast

from aggregator.code.sandbox.refusal import Refusal
from aggregator.code.sandbox.syntax import assign, call, name
from aggregator.code.sandbox.yields import yields

_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS: Final = (ast.For, ast.While, ast.AsyncFor)
# The block after the last one, and the value of what to do after a `finally` that an error led to.
_END: Final = -1
_RAISE: Final = -2
_AT: Final = "_x_at"


def machine(node: ast.FunctionDef | ast.AsyncFunctionDef, number: Callable[[], int]) -> list[ast.stmt]:
    """Return the body of a function that returns the generator which `node` is written as.

    Raises:
        Refusal: `yield` stands at a place that cannot be rewritten.
    """
    return _Machine(number).body(node)


class _Loop(NamedTuple):
    """A loop with `yield`: the blocks that `break` and `continue` lead to, and how many `finally` are around it."""

    end: int
    again: int
    finals: int


class _Final(NamedTuple):
    """A `finally` around a `yield`: its block, the name of what follows it, and the blocks that may."""

    block: int
    after: str
    targets: set[int]


class _Machine:
    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number
        self._blocks: list[list[ast.stmt]] = []
        # By block: the block that an error leads to.
        self._catching: dict[int, int] = {}
        self._handler: int | None = None
        self._now = self._new()
        self._loops: list[_Loop] = []
        self._finals: list[_Final] = []
        # The error that a bare `raise` raises, within a handler.
        self._caught: list[str] = []
        self._names: set[str] = set()

    def body(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
        """Return the new body of a generator; that of an asynchronous one is for a function without `async`."""
        later = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        scoped = {id(one): one for one in _own_nodes(node.body) if isinstance(one, ast.Global | ast.Nonlocal)}
        outer = {said for one in scoped.values() for said in one.names}
        statements = [one for one in node.body if id(one) not in scoped]
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        given += [one for one in (node.args.vararg, node.args.kwarg) if one is not None]
        arguments = {one.arg for one in given}
        self._block(statements)
        self._add(_returned(name("_x_END")))
        made = (self._names | set(_stored(statements))) - outer - arguments
        lines: list[ast.stmt] = [assign(one, ast.Constant(None)) for one in sorted(made)]
        lines.append(assign(_AT, ast.Constant(0)))
        if self._catching:
            lines.append(assign("_x_error", ast.Constant(None)))
            made.add("_x_error")
        step = ast.parse(f"{later}def _x_step(_x_sent, _x_thrown): pass").body[0]
        assert isinstance(step, ast.FunctionDef | ast.AsyncFunctionDef)
        step.body = [ast.Nonlocal(sorted(made | arguments | {_AT})), *scoped.values(), self._loop()]
        kind = "_x_AsyncGenerator" if later else "_x_Generator"
        return [*lines, step, ast.Return(call(kind, name("_x_step")))]

    def _loop(self) -> ast.stmt:
        """Return the loop around the blocks."""
        ladder: list[ast.stmt] = [_returned(name("_x_END"))]
        for block, statements in reversed(list(enumerate(self._blocks))):
            ladder = [ast.If(_is(_AT, block), statements or [ast.Pass()], ladder)]
        if self._catching:
            table = ast.Dict(
                [ast.Constant(block) for block in self._catching], [ast.Constant(to) for to in self._catching.values()]
            )
            found = ast.Call(ast.Attribute(table, "get", ast.Load()), [name(_AT)], [])
            catching: list[ast.stmt] = [
                assign("_x_error", name("_x_raised_here")),
                assign(_AT, found),
                ast.If(
                    ast.Compare(name(_AT), [ast.Is()], [ast.Constant(None)]),
                    [assign(_AT, ast.Constant(_END)), ast.Raise()],
                    [],
                ),
            ]
            ladder = [ast.Try(ladder, [ast.ExceptHandler(name("BaseException"), "_x_raised_here", catching)], [], [])]
        return ast.While(ast.Constant(True), ladder, [])

    # Blocks

    def _new(self) -> int:
        self._blocks.append([])
        block = len(self._blocks) - 1
        if self._handler is not None:
            self._catching[block] = self._handler
        return block

    def _add(self, *statements: ast.stmt) -> None:
        self._blocks[self._now] += statements

    def _jump(self, block: int) -> list[ast.stmt]:
        return [assign(_AT, ast.Constant(block)), ast.Continue()]

    def _go(self, block: int) -> None:
        self._add(*self._jump(block))

    def _leave(self, block: int, finals: int) -> list[ast.stmt]:
        """Return the statements that lead to a block, by each `finally` that is within `finals` others."""
        if len(self._finals) <= finals:
            return [_returned(call("_x_Returned", name("_x_result")))] if block == _END else self._jump(block)
        final = self._finals[-1]
        final.targets.add(block)
        return [assign(final.after, ast.Constant(block)), *self._jump(final.block)]

    def _kept(self, said: str) -> str:
        """Return a new name that lasts from one call to the next."""
        new = f"_x_{said}{self._number()}"
        self._names.add(new)
        return new

    def _return(self, value: ast.expr | None) -> list[ast.stmt]:
        self._names.add("_x_result")
        return [assign("_x_result", value or ast.Constant(None)), *self._leave(_END, 0)]

    # Statements

    def _block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        before = len(self._blocks[self._now])
        here = self._now
        if isinstance(node, ast.Return):
            self._returning(node)
        elif not yields(node) and not (self._finals and _returns_in_loop(node)):
            self._add(*_Jumps(self).plain(node))
        else:
            self._yielding(node)
        for one in self._blocks[here][before:]:
            ast.copy_location(one, node)

    def _returning(self, node: ast.Return) -> None:
        if node.value is not None and yields(node.value):
            result = self._kept("result")
            self._value(assign(result, node.value), node.value)
            self._add(*self._return(name(result)))
        else:
            self._add(*self._return(node.value))

    def _yielding(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr):
            self._value(None, node.value)
        elif isinstance(node, ast.Assign):
            self._value(node, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._value(ast.Assign([node.target], node.value), node.value)
        elif isinstance(node, ast.If) and not yields(node.test):
            self._if(node)
        elif isinstance(node, ast.While) and not yields(node.test):
            self._while(node)
        elif isinstance(node, ast.For | ast.AsyncFor) and not yields(node.iter):
            self._for(node)
        elif isinstance(node, ast.Try):
            self._try(node)
        elif isinstance(node, ast.With) and not any(yields(item) for item in node.items):
            self._with(node)
        elif isinstance(node, ast.Match) and not yields(node.subject):
            self._match(node)
        else:
            raise Refusal(node.lineno, "`yield` at such a place", "write `value = yield x` on a line of its own")

    def _value(self, kept: ast.Assign | None, node: ast.expr) -> None:
        """Add `yield` or `yield from`; its value is assigned by `kept`."""
        following = self._new()
        out = "_x_out"
        if isinstance(node, ast.Yield) and (node.value is None or not yields(node.value)):
            value = node.value or ast.Constant(None)
            self._add(assign(out, value), assign(_AT, ast.Constant(following)), _returned(name(out)))
            self._now = following
            result: ast.expr = name("_x_sent")
        elif isinstance(node, ast.YieldFrom) and not yields(node.value):
            iterator = self._kept("iterator")
            self._add(assign(iterator, call("_x_iter", node.value)), assign("_x_sent", ast.Constant(None)))
            self._go(following)
            self._now = following
            # A generator that is closed closes the one whose values it passes on.
            self._thrown(ast.Expr(call("_x_leave", name(iterator), name("_x_thrown"))))
            done = self._new()
            self._add(
                assign(out, call("_x_next", name(iterator), name("_x_sent"))),
                ast.If(ast.Compare(name(out), [ast.Is()], [name("_x_END")]), self._jump(done), []),
                _returned(name(out)),
            )
            self._now = done
            result = call("_x_result_of", name(iterator))
        else:
            raise Refusal(node.lineno, "`yield` within an expression", "write `value = yield x` on a line of its own")
        if isinstance(node, ast.Yield):
            self._thrown()
        if kept is not None:
            self._add(ast.Assign(kept.targets, result))

    def _thrown(self, *first: ast.stmt) -> None:
        """Add the raising of an error that was thrown into the generator, after other statements."""
        waiting = ast.Compare(name("_x_thrown"), [ast.IsNot()], [ast.Constant(None)])
        self._add(
            ast.If(
                waiting,
                [
                    *first,
                    assign("_x_out", name("_x_thrown")),
                    assign("_x_thrown", ast.Constant(None)),
                    ast.Raise(name("_x_out")),
                ],
                [],
            )
        )

    def _if(self, node: ast.If) -> None:
        then, other, after = self._new(), self._new(), self._new()
        self._add(ast.If(node.test, self._jump(then), self._jump(other)))
        for block, statements in ((then, node.body), (other, node.orelse)):
            self._now = block
            self._block(statements)
            self._go(after)
        self._now = after

    def _while(self, node: ast.While) -> None:
        again, body, other, after = self._new(), self._new(), self._new(), self._new()
        self._go(again)
        self._now = again
        self._add(ast.If(node.test, self._jump(body), self._jump(other)))
        self._repeat(node, again, body, other, after)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        iterator, value = self._kept("iterator"), self._kept("value")
        later = isinstance(node, ast.AsyncFor)
        self._add(assign(iterator, call("_x_aiter" if later else "_x_iter", node.iter)))
        again, body, other, after = self._new(), self._new(), self._new(), self._new()
        self._go(again)
        self._now = again
        ended = ast.Compare(name(value), [ast.Is()], [name("_x_END")])
        self._add(
            assign(value, ast.Await(call("_x_anext", name(iterator))) if later else call("_x_next", name(iterator))),
            ast.If(ended, self._jump(other), []),
            ast.Assign([node.target], name(value)),
        )
        self._go(body)
        self._repeat(node, again, body, other, after)

    def _repeat(self, node: ast.While | ast.For | ast.AsyncFor, again: int, body: int, other: int, after: int) -> None:
        self._loops.append(_Loop(after, again, len(self._finals)))
        self._now = body
        self._block(node.body)
        self._go(again)
        self._loops.pop()
        self._now = other
        self._block(node.orelse)
        self._go(after)
        self._now = after

    def _try(self, node: ast.Try) -> None:
        outer = self._handler
        after = self._new()
        final: _Final | None = None
        if node.finalbody:
            final = _Final(self._new(), self._kept("after"), {after})
            entry, error = self._new(), self._kept("error")
            self._handler = entry
            self._finals.append(final)
        within = self._handler
        if node.handlers:
            catching = self._new()
            self._handler = catching
        start = self._new()
        self._go(start)
        self._now = start
        self._block(node.body)
        self._handler = within
        if node.orelse:
            other = self._new()
            self._go(other)
            self._now = other
            self._block(node.orelse)
        self._add(*self._leave(after, len(self._finals) - 1 if final else len(self._finals)))
        if node.handlers:
            self._now = catching
            self._handlers(node, after, final)
        self._handler = outer
        if final is not None:
            self._finals.pop()
            self._now = entry
            self._add(assign(error, name("_x_error")), assign(final.after, ast.Constant(_RAISE)))
            self._go(final.block)
            self._now = final.block
            self._block(node.finalbody)
            self._add(ast.If(_is(final.after, _RAISE), [ast.Raise(name(error))], []))
            for target in sorted(final.targets - {after}):
                self._add(ast.If(_is(final.after, target), self._leave(target, self._outside(target)), []))
            self._go(after)
        self._now = after

    def _outside(self, target: int) -> int:
        """Return how many `finally` are around the loop that a block belongs to."""
        return next((loop.finals for loop in reversed(self._loops) if target in loop), 0)

    def _handlers(self, node: ast.Try, after: int, final: _Final | None) -> None:
        error = self._kept("error")
        self._add(assign(error, name("_x_error")))
        bodies = []
        for handler in node.handlers:
            block = self._new()
            bodies.append((block, handler))
            of = handler.type
            test = ast.Constant(True) if of is None else call("_x_is_error", name(error), of)
            self._add(ast.If(test, self._jump(block), []))
        self._add(ast.Raise(name(error)))
        self._caught.append(error)
        for block, handler in bodies:
            self._now = block
            if handler.name:
                self._names.add(handler.name)
                self._add(assign(handler.name, name(error)))
            self._block(handler.body)
            self._add(*self._leave(after, len(self._finals) - 1 if final else len(self._finals)))
        self._caught.pop()

    def _with(self, node: ast.With) -> None:
        if len(node.items) > 1:
            inner = ast.With(node.items[1:], node.body, lineno=node.lineno)
            node = ast.With(node.items[:1], [inner], lineno=node.lineno)
        manager, value, well, error = (self._kept(said) for said in ("manager", "value", "well", "error"))
        item = node.items[0]
        leave = f"{manager}.__exit__"
        caught = f"{well} = False\nif not {leave}(type({error}), {error}, None): raise {error}"
        self._add(
            assign(manager, item.context_expr),
            assign(value, ast.Call(ast.Attribute(name(manager), "__enter__", ast.Load()), [], [])),
            assign(well, ast.Constant(True)),
        )
        if item.optional_vars is not None:
            self._add(ast.Assign([item.optional_vars], name(value)))
        handler = ast.ExceptHandler(name("BaseException"), error, ast.parse(caught).body)
        tried = ast.Try(node.body, [handler], [], [])
        ending = ast.parse(f"if {well}: {leave}(None, None, None)").body
        self._try(ast.Try([tried], [], [], ending))

    def _match(self, node: ast.Match) -> None:
        after = self._new()
        bodies = []
        cases = []
        for case in node.cases:
            block = self._new()
            bodies.append((block, case.body))
            cases.append(ast.match_case(case.pattern, case.guard, self._jump(block)))
        self._add(ast.Match(node.subject, cases))
        self._go(after)
        for block, statements in bodies:
            self._now = block
            self._block(statements)
            self._go(after)
        self._now = after


class _Jumps(ast.NodeTransformer):
    """Rewrites what leaves a statement without `yield`: `return`, `break` and `continue` of loops around, `raise`."""

    def __init__(self, machine: _Machine) -> None:
        self._machine = machine
        self._loops = 0
        self._handlers = 0

    def plain(self, node: ast.stmt) -> list[ast.stmt]:
        """Return the statements for one without `yield`."""
        made = self.visit(node)
        return made if isinstance(made, list) else [cast(ast.stmt, made)]

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        return self._machine._return(node.value)

    def visit_Break(self, node: ast.Break) -> ast.AST | list[ast.stmt]:
        if self._loops or not self._machine._loops:
            return node
        loop = self._machine._loops[-1]
        return self._machine._leave(loop.end, loop.finals)

    def visit_Continue(self, node: ast.Continue) -> ast.AST | list[ast.stmt]:
        if self._loops or not self._machine._loops:
            return node
        loop = self._machine._loops[-1]
        return self._machine._leave(loop.again, loop.finals)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if node.exc is None and self._machine._caught and not self._handlers:
            node.exc = name(self._machine._caught[-1])
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self._handlers += 1
        self.generic_visit(node)
        self._handlers -= 1
        return node

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        if isinstance(node, _SCOPES):
            return node
        if not isinstance(node, _LOOPS):
            made: ast.AST | list[ast.stmt] = super().visit(node)
            return made
        # `else` of a loop is outside of it.
        self._loops += 1
        node.body = [one for statement in node.body for one in self.plain(statement)]
        self._loops -= 1
        node.orelse = [one for statement in node.orelse for one in self.plain(statement)]
        return node


def _returns_in_loop(node: ast.stmt) -> bool:
    """Return whether `return` stands in a statement that a jump could not leave."""
    return any(isinstance(one, ast.Return) for one in _own_nodes([node]))


def _own_nodes(statements: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the parts of statements that are not in a function or class within them, these included."""
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


def _stored(statements: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements assign; those of comprehensions are among them, which does no harm."""
    for node in _own_nodes(statements):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest


def _returned(value: ast.expr) -> ast.Return:
    return ast.Return(value)


def _is(said: str, value: int) -> ast.Compare:
    return ast.Compare(name(said), [ast.Eq()], [ast.Constant(value)])
