"""`fleetledger demo`: the one command of the simulator so far."""

from __future__ import annotations

import signal
import time
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer


class FormOption(str, Enum):
    """How a device writes its statistics."""

    exact = "exact"
    compact = "compact"


class BrokerOption(str, Enum):
    """Which MQTT broker is started."""

    auto = "auto"
    mosquitto = "mosquitto"
    amqtt = "amqtt"


def demo(
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; empty or new.  [default: runs/demo-<time>]"),
    ] = None,
    form: Annotated[
        FormOption, typer.Option(help="Statistics as an exact Gram triangle or a compact factor.")
    ] = FormOption.compact,
    broker: Annotated[
        BrokerOption, typer.Option(help="auto takes mosquitto where it is installed, else amqtt.")
    ] = BrokerOption.auto,
    seed: Annotated[int, typer.Option(help="Decides split, partition and random map.", min=0)] = 0,
    agents: Annotated[int, typer.Option(help="Number of devices.", min=1, max=50)] = 5,
) -> None:
    """Let a fleet of real processes on this machine learn handwritten digits, two at a time.

    Starts a broker, a coordinator and the agents, shows the accuracy of the model that runs on the
    agents after each stage, and stops everything again.
    """
    from rich.console import Console  # noqa: PLC0415 - the help page needs none of this

    from simulator.demo.run import run_demo  # noqa: PLC0415
    from simulator.demo.settings import DemoSettings  # noqa: PLC0415

    # So that the programs are stopped in order; a shell's background jobs even ignore SIGINT.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    settings = DemoSettings(
        out=out or Path("runs", time.strftime("demo-%Y%m%d-%H%M%S")),
        form=form.value,
        broker=broker.value,
        seed=seed,
        agents=agents,
    )
    run_demo(settings, Console())


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
