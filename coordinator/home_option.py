"""The option `--home` of the operator's commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleetledger.coordinator.paths import DEFAULT_HOME, HOME_VARIABLE
from fleetledger.runtime.shown_commands import OF_OPERATORS, remember_home


def _given(home: Path) -> Path:
    return remember_home(OF_OPERATORS, home)


Home = Annotated[
    Path,
    typer.Option(
        "--home",
        envvar=HOME_VARIABLE,
        help="Home folder of the coordinator.",
        file_okay=False,
        callback=_given,
    ),
]
HOME = Path(DEFAULT_HOME)
