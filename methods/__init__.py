"""One folder per method: two pure sides joined by messages.

`Rounds` and the other bases in `__all__` are public: `fleetledger.methods.Rounds` and its like are
what a method of one's own begins with. `Step` is what a loss is given.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleetledger.learning.losses.composition import Step
    from fleetledger.methods.fed3r.steps import Statistics
    from fleetledger.methods.lga.steps import Lga
    from fleetledger.methods.rounds.steps import Rounds

__all__ = ["Lga", "Rounds", "Statistics", "Step"]

_LAZY = {
    "Lga": "fleetledger.methods.lga.steps",
    "Rounds": "fleetledger.methods.rounds.steps",
    "Statistics": "fleetledger.methods.fed3r.steps",
    "Step": "fleetledger.learning.losses.composition",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has that name
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return found
