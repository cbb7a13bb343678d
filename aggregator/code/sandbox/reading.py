"""Turn a program as its author wrote it into the forms that the interpreter runs."""

import ast
import asyncio
import json
import logging
from traceback import format_exception, walk_tb
from typing import Final, NamedTuple

from aggregator.code.sandbox.clashes import apart
from aggregator.code.sandbox.ending import SHOWN, with_end
from aggregator.code.sandbox.forms import Lines, formed
from aggregator.code.sandbox.modules import with_modules
from aggregator.code.sandbox.prelude import awaits, masked, prelude_for, program_of
from aggregator.code.sandbox.quotes import with_other_quotes
from aggregator.code.sandbox.refusal import Refusal
from aggregator.code.sandbox.rewriting import rewritten
from aggregator.code.sandbox.syntax import lines_of
from aggregator.system.own_module import start_module

log = logging.getLogger(__name__)

# To read a longer program in a thread would hold up the event loop for too long: a thread takes the interpreter's lock.
MOST_IN_THREAD: Final = 16 * 1024
# Processor time of the process that reads a long program, and the seconds that it may take on a busy machine.
MOST_WORK: Final = 10
_MOST_SECONDS: Final = 3.0 * MOST_WORK
_READER: Final = "aggregator.code.sandbox.reader"
_SHORTER: Final = "write a shorter program"


class ReadProgram(NamedTuple):
    """A program as the interpreter runs it, with its prelude.

    `awaited` tells whether `await` stands in it. `lines` are its author's.
    """

    code: str
    prelude: str
    awaited: bool
    lines: Lines


class ProgramReader:
    """Reads programs off the event loop: short ones in a thread, long ones in a process, of each kind one at a time."""

    def __init__(self) -> None:
        # The threads of several programs would take the interpreter's lock from the event loop by turns.
        self._short = asyncio.Lock()
        self._long = asyncio.Lock()

    async def read(self, written: str) -> ReadProgram:
        """Return a program in the forms that the interpreter has.

        Raises:
            Refusal: it has a form that programs cannot have, takes too long to read, or cannot be read by our fault.
        """
        if len(written) <= MOST_IN_THREAD:
            async with self._short:
                try:
                    return await asyncio.to_thread(read_program, written)
                except Refusal:
                    raise
                except Exception as error:
                    raise _noted(*_fault(error)) from error
        async with self._long:
            answer = await _answer_of_process(written)
        return await asyncio.to_thread(_decoded, answer)


def read_program(written: str) -> ReadProgram:
    """Return a program in the forms that the interpreter has, and its prelude with the modules that it imports.

    Raises:
        Refusal: it has a form that programs cannot have.
    """
    own = program_of(written)
    program = with_other_quotes(own)
    named = masked(program)
    forms = formed(program, named)
    code, more = rewritten(forms.code, masked(forms.code))
    without_texts = masked(code)
    awaited = awaits(without_texts)
    code, modules = with_modules(code, without_texts)
    prelude = prelude_for(awaited) + more + modules + forms.prelude + SHOWN
    text = lines_of(own)
    lines = Lines.same(text) if forms.lines is None else forms.lines._replace(text=tuple(text))
    return ReadProgram(with_end(code), apart(prelude, named), awaited, lines)


def read_as_json(written: str) -> str:
    """Return what `read_program` returns or raises, as JSON."""
    try:
        return json.dumps(read_program(written))
    except Refusal as refusal:
        return json.dumps({"refused": [refusal.line, refusal.what, refusal.instead]})
    except Exception as error:
        return json.dumps({"fault": _fault(error)})


def _fault(error: Exception) -> tuple[int, str]:
    """Return the line of the program at which our own code failed to rewrite it, and the traceback of our code."""
    line = 1
    for frame, _ in walk_tb(error.__traceback__):
        node = frame.f_locals.get("node")
        if isinstance(node, ast.stmt | ast.expr | ast.ExceptHandler):
            line = getattr(node, "lineno", line)
    return line, "".join(format_exception(error))


def _noted(line: int, traceback: str) -> Refusal:
    """Log a fault of our own code for the operator. Return the refusal of its program."""
    log.error("a program could not be rewritten; line %d of it:\n%s", line, traceback)
    return Refusal(line, "this line in this form, by a fault of the aggregator", "write it more plainly")


async def _answer_of_process(written: str) -> bytes:
    """Return the answer of a process that reads a program.

    Raises:
        Refusal: the process does not start, or is ended before it answers.
    """
    try:
        process = await start_module(_READER)
    except OSError as error:
        log.error("the process that reads a program does not start: %s", error)
        raise Refusal(1, f"more than {MOST_IN_THREAD // 1024} KiB of code now", _SHORTER) from error
    try:
        async with asyncio.timeout(_MOST_SECONDS):
            answer, _ = await process.communicate(written.encode("utf-8", "surrogatepass"))
    except TimeoutError:
        answer = b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        log.warning("the process that reads a program of %d characters ended: %d", len(written), process.returncode)
        raise Refusal(1, f"so much code that reading it takes more than {MOST_WORK} s, or too much memory", _SHORTER)
    return answer


def _decoded(answer: bytes) -> ReadProgram:
    read = json.loads(answer)
    if isinstance(read, dict):
        if "fault" in read:
            raise _noted(*read["fault"])
        raise Refusal(*read["refused"])
    code, prelude, awaited, lines = read
    return ReadProgram(code, prelude, awaited, Lines(*map(tuple, lines)))
