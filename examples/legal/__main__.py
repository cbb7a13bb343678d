"""`python -m examples.legal`: serve the legal example on standard input and output."""

import argparse

from examples.legal.server import build_server


def main() -> None:
    """Serve until standard input closes."""
    argparse.ArgumentParser(prog="python -m examples.legal", description=__doc__).parse_args()
    build_server().run("stdio")


if __name__ == "__main__":
    main()
