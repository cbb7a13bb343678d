"""The command line `aggregator`.

A command has two halves: its options and help texts in `commands.py` or `audit/commands.py`, and its implementation in
a module of its own, which is imported when the command runs. So `--help` does not pay for the gateway.

Terms:
  command: a function that typer calls with the options, such as `aggregator keys new`
  implementation: a function that does the work and returns the exit code
  database settings: the part of the configuration for commands that work on the database alone
  drain: the grace period of running requests when a signal ends the program

Entry point: `main()` here; `aggregator serve` goes on in `serve.py` (with `--workers` in `workers.py`), `aggregator
stdio` in `stdio.py` and, after its host has the first answer, in `stdio_session.py`.

Must not import: `aggregator.adapters`, which is in the same layer; and at the top of `commands.py` nothing slow, such
as mcp, uvicorn or aiohttp. Held by tests/test_layers.py.
"""

import codecs
import gc
import io
import os
import sys


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        os.getcwd()
    except OSError:
        _refuse("The working folder does not exist any more. Go to another one, such as with `cd ~`, and try again.")
    try:
        _main()
    except ImportError as error:
        folder = _hiding(error)
        if folder is None:
            raise
        hidden = f"PYTHONPATH has {folder}, which comes before what the aggregator needs: unset PYTHONPATH."
        _refuse(f"{error.msg}. {hidden}")


def _refuse(sentence: str) -> None:
    sys.stderr.write(f"aggregator: {sentence}\n")
    sys.exit(2)


def _hiding(error: ImportError) -> str | None:
    """Return the folder of PYTHONPATH with the module that failed; None if it was none of there, or is our own."""
    path, own = error.path or "", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = [os.path.abspath(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    return next((one for one in folders if one != own and path.startswith(os.path.join(one, ""))), None)


def _main() -> None:
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_closed_streams()
    _take_any_text()
    drop_blank_home()
    # The collector finds nothing while modules are imported. They are permanent, so it starts with later objects.
    gc.disable()
    if sys.argv[1:2] == ["complete"]:
        # A shell asks at each Tab: typer's own reading of options would take as long again.
        from aggregator.cli.commands import app
        from aggregator.cli.first_run.complete import run as run_complete

        sys.exit(run_complete(app, sys.argv[2:]))
    from aggregator.cli.plain_options import plain_options

    plain = plain_options(sys.argv[1:])
    if plain is None:
        from aggregator.cli.commands import cli

        sys.exit(cli())
    command, options = plain
    try:
        if command == "stdio":
            from aggregator.cli import stdio

            sys.exit(stdio.run(**options))
        if options["workers"] not in (None, "1"):
            from aggregator.cli import workers

            gc.enable()
            sys.exit(workers.run(**options))
        from aggregator.cli import serve

        gc.freeze()
        gc.enable()
        sys.exit(serve.run(**options))
    except KeyboardInterrupt:
        sys.exit(130)  # as typer does
    except Exception as error:
        from aggregator.cli.commands import report

        sys.exit(report(error))


def drop_blank_home() -> None:
    """Take an empty HOME, as some services and hosts set it, for none: `~` would be the root of the file system."""
    if os.environ.get("HOME") == "":
        del os.environ["HOME"]


def _take_any_text() -> None:
    """Let standard output take characters that its code page lacks, as escapes of JSON.

    On Windows, what a command writes to a pipe or a file is in the code page of the user.
    """
    codecs.register_error("json-escape", _json_escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="json-escape")


def _json_escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end


def _open_closed_streams() -> None:
    """Open the null device for standard streams that were closed: the next file or connection would take their place.

    Python leaves those as None, which no command expects.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for good
