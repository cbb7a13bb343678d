"""The group of all commands: its help by kinds of work, and hints for words that other programs use for commands."""

from typing import Any, Final

import typer
from typer.core import TyperGroup

from aggregator.cli.runtime.writer import say

# The sections of `aggregator --help`.
SECTIONS: Final = (
    ("Set up", ("init", "import", "add", "remove", "enable", "disable", "rename", "install", "trust", "completion")),
    ("Serve and call", ("serve", "stop", "stdio", "status", "console", "tools", "call")),
    ("Find faults", ("check", "doctor", "audit", "reports", "version")),
    (
        "Decide who may do what",
        ("keys", "policy", "approvals", "pins", "flow", "secrets", "connect", "connections", "notify"),
    ),
    ("Keep the database", ("backup", "restore", "migrate-store", "prune")),
)
# Characters of a command's line, which is its first sentence and may go on in the next line.
_SHORT_HELP: Final = 200
_STATE: Final = (
    "`aggregator status` shows the servers of a running `aggregator serve`, `aggregator check` connects to each, and "
    "`aggregator tools` lists their tools"
)
_SERVE: Final = "`aggregator serve` serves hosts over HTTP, and `aggregator stdio` one host"
_AGAIN: Final = (
    "a running `aggregator serve` takes changes of its files by itself; to start it anew, use `aggregator stop` and "
    "`aggregator serve`"
)
_SET_UP: Final = "`aggregator init` sets up, and `aggregator add` and `aggregator remove` change the configuration"
_STOP: Final = "`aggregator stop` ends a running `aggregator serve`"
_CALLS: Final = "`aggregator audit tail` prints the newest calls and events"
_TOOLS: Final = "`aggregator tools` lists the tools of every server, or searches them"
_REMOVE: Final = "`aggregator remove NAME` removes a server from the configuration"
_UPDATE: Final = (
    "`aggregator pins status` shows what servers have changed, and `aggregator pins approve SERVER` approves it"
)
_LOGIN: Final = "`aggregator connect` signs in to a server, and `aggregator console` to the console"
_FAULTS: Final = "`aggregator doctor` finds problems, and says how to mend them"
# By words that other programs use for commands: our commands.
MEANT: Final = {
    **dict.fromkeys(("list", "ls", "ps", "servers", "server", "info", "show", "get"), _STATE),
    **dict.fromkeys(("start", "run", "up", "launch", "dev", "mcp", "proxy", "gateway", "http", "sse"), _SERVE),
    **dict.fromkeys(("restart", "reload"), _AGAIN),
    **dict.fromkeys(("config", "configure", "setup", "set", "edit", "settings", "new", "create"), _SET_UP),
    **dict.fromkeys(("down", "kill", "quit", "shutdown"), _STOP),
    **dict.fromkeys(("log", "logs", "history", "calls", "trace", "traces"), _CALLS),
    **dict.fromkeys(("inspect", "describe", "search", "find", "tool"), _TOOLS),
    **dict.fromkeys(("rm", "del", "delete"), _REMOVE),
    "uninstall": "`aggregator install HOST --undo` takes our entry out of a host's file; " + _REMOVE,
    **dict.fromkeys(("update", "upgrade", "approve", "diff"), _UPDATE),
    **dict.fromkeys(("login", "signin", "sign-in", "auth", "oauth", "authorize"), _LOGIN),
    **dict.fromkeys(("logout", "disconnect"), "`aggregator connections revoke` ends the use of an account"),
    **dict.fromkeys(("test", "debug", "diagnose", "health", "fix", "ping", "verify"), _FAULTS),
    **dict.fromkeys(
        ("lint", "validate"), "`aggregator check` reads the configuration, and `aggregator policy check` the policies"
    ),
    **dict.fromkeys(("ui", "web", "dashboard", "open", "admin"), "`aggregator console` signs in at the console"),
    **dict.fromkeys(("exec", "invoke"), "`aggregator call TOOL` calls one tool"),
    **dict.fromkeys(("token", "tokens", "key", "apikey"), "`aggregator keys new AGENT` makes an API key"),
    **dict.fromkeys(("export", "dump"), "`aggregator backup FILE` writes the database into a file"),
}


class CommandGroup(TyperGroup):
    """The group of `aggregator`'s own commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names; `help COMMAND` is `COMMAND --help`."""
        word = args[0].lower()
        if self.get_command(ctx, args[0]) is None:
            if word == "help" and len(args) == 1:
                say(ctx.get_help())
                raise typer.Exit
            if word == "help":
                return self.resolve_command(ctx, [*args[1:], "--help"])
            if word in MEANT:
                ctx.fail(f"There is no command {args[0]!r}: {MEANT[word]}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by sections."""
        width = max(map(len, self.commands))
        for title, names in SECTIONS:
            rows = [
                (name.ljust(width), command.get_short_help_str(_SHORT_HELP))
                for name in names
                if (command := self.get_command(ctx, name)) is not None
            ]
            with formatter.section(title):
                formatter.write_dl(rows)
