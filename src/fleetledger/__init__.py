"""The public face: what applications import; everything else is private.

The rooms lie at the top of the repository and are imported as `fleetledger.<room>`: the links
beside this file lead to them. To import this costs nothing; a room is imported when it is used.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleetledger.device_agent.models.inference.running_model import RunningModel

__all__ = ["active_model"]


def active_model(home: str | os.PathLike[str] | None = None) -> RunningModel:
    """Return the model that runs on this device; it answers with whichever that is by now.

    `home` is the agent's folder; left out, `$FLEETLEDGER_AGENT`, else `agent-home`. Raises
    `fleetledger.device_agent.errors.NoModelError` where none is active, and what
    `RunningModel.open` raises.
    """
    from fleetledger.device_agent.models.inference.running_model import RunningModel  # noqa: PLC0415 - lazy

    return RunningModel.open(home)
