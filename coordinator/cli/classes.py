"""`fleetledger class list | rename | merge`: the names that the fleet learns."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetledger.coordinator import completion
from fleetledger.coordinator.cli.common import command
from fleetledger.coordinator.home_option import HOME, Home
from fleetledger.coordinator.home_reports import classes_of
from fleetledger.coordinator.topics.classes.commands import MergeClasses, RenameClass
from fleetledger.runtime.command_output import AsJson, show
from fleetledger.schemas.values import ClassName

app = typer.Typer(no_args_is_help=True, help="Names of classes: one index each, once.")

Name = Annotated[str, typer.Argument(help="Name of a class.", autocompletion=completion.classes)]


@app.command("list")
def list_classes(home: Home = HOME, as_json: AsJson = False) -> None:
    """Show every class with its index, its other names and its number of images."""
    show(classes_of(home), as_json=as_json)


@app.command()
def rename(old: Name, new: Name, home: Home = HOME, as_json: AsJson = False) -> None:
    """Give a class another name; the old one stays usable on the devices."""
    command(home, RenameClass(old=ClassName(old), new=ClassName(new)), as_json=as_json)


@app.command()
def merge(source: Name, target: Name, home: Home = HOME, as_json: AsJson = False) -> None:
    """Make SOURCE another name of TARGET, because both mean one thing."""
    body = MergeClasses(source=ClassName(source), target=ClassName(target))
    command(home, body, as_json=as_json)
