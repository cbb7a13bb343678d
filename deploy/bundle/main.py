"""The program that a host starts in the bundle `aggregator.mcpb`."""

from aggregator.cli.first_run.bundle import main

main()
