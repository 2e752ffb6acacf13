"""`meantime apps`: who does which work, and how far it is."""

import typer


def add_to(root: typer.Typer) -> None:
    pass
