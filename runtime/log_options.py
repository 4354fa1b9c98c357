"""How the verbs that serve say how they log; apart, for an agent has no command line."""

from typing import Annotated

import typer

from fleetledger.runtime.log_lines import LogFormat, LogLevel
from fleetledger.runtime.log_setup import FORMAT_VARIABLE, LEVEL_VARIABLE

FormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", envvar=FORMAT_VARIABLE, help="How lines of the log look."),
]
LevelOption = Annotated[
    LogLevel,
    typer.Option("--log-level", envvar=LEVEL_VARIABLE, help="What is worth a line of the log."),
]
