"""The operator's commands about stages."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.runtime.strict import Strict
from fleetledger.schemas.values import ClassName


class OpenStage(Strict):
    """Ask the fleet to learn these classes; closes an open stage first."""

    verb: Literal["open-stage"] = "open-stage"
    class_names: tuple[ClassName, ...] = Field(min_length=1, max_length=1000)
    asks: bool = False
    """Whether somebody can be asked about strange names, and about devices that are missing."""


class CloseStage(Strict):
    """Close the open stage without waiting any longer."""

    verb: Literal["close-stage"] = "close-stage"


StageCommand = OpenStage | CloseStage
