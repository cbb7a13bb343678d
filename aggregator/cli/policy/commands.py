"""`aggregator policy`: the options of its commands and their help."""

from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.runtime.run_command import AsJson, Config, run

policy_app = typer.Typer(help="Policy files: check, explain and try them.", no_args_is_help=True)

Connect = Annotated[bool, typer.Option("--connect", help="Use the tools that the servers have now.")]


@policy_app.command("check")
def policy_check(config: Config = None, connect: Connect = False, as_json: AsJson = False) -> None:
    """Say what is wrong with the policy files. Exit 1 if one has an error."""
    from aggregator.cli.policy.policy import check

    run(check, config, connect, as_json)


@policy_app.command("explain")
def policy_explain(
    agent: Annotated[str | None, typer.Argument(show_default=False)] = None,
    tool: Annotated[str | None, typer.Argument(show_default=False)] = None,
    config: Config = None,
    connect: Connect = False,
    token_claims: Annotated[
        Path | None,
        typer.Option("--token-claims", help="A file with the claims of an access token: explain for its agent."),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after", help="A tool, resource:, prompt: or label that was read before, for flow rules; repeatable."
        ),
    ] = None,
) -> None:
    """Show why AGENT may or may not call TOOL; without TOOL, all tools that it may call.

    With --token-claims, give only TOOL.
    """
    from aggregator.cli.policy.policy import explain, explain_token

    if token_claims is not None:
        run(explain_token, config, token_claims, agent, tool, connect, after or ())
    else:
        run(explain, config, agent, tool, connect, after or ())


@policy_app.command("diff")
def policy_diff(
    file: Annotated[Path, typer.Argument(help="A policy file that is not in the folder yet.", show_default=False)],
    config: Config = None,
    remove: Annotated[bool, typer.Option("--remove", help="Compare with the folder without that file.")] = False,
    connect: Connect = False,
) -> None:
    """Say what FILE would change in place of the policy file of its name. Nothing is written."""
    from aggregator.cli.policy.policy import diff

    run(diff, config, file, remove, connect)


@policy_app.command("test")
def policy_test(config: Config = None, connect: Connect = False) -> None:
    """Run the cases in policies/cases."""
    from aggregator.cli.policy.policy import run_cases

    run(run_cases, config, connect)


@policy_app.command("suggest-labels")
def policy_suggest_labels(config: Config = None, connect: Connect = False) -> None:
    """Print labels for flow rules, proposed for the tools there are. Nothing is written."""
    from aggregator.cli.policy.suggested import suggest

    run(suggest, config, connect)


@policy_app.command("init")
def policy_init(config: Config = None) -> None:
    """Write a first policy file that allows what works today."""
    from aggregator.cli.policy.policy import init

    run(init, config)


@policy_app.command("schema")
def policy_schema(
    cases: Annotated[bool, typer.Option("--cases", help="Print the schema of case files instead.")] = False,
) -> None:
    """Print the JSON Schema of policy files, for editors."""
    from aggregator.cli.policy.policy import print_schema

    run(print_schema, cases)
