"""One folder per method: two pure sides joined by messages.

`Rounds` and the other bases in `__all__` are public: `fleetledger.methods.Rounds` and its like are
what a method of one's own begins with.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleetledger.methods.fed3r.steps import Statistics
    from fleetledger.methods.lga.steps import Lga
    from fleetledger.methods.rounds.steps import Rounds

__all__ = ["Lga", "Rounds", "Statistics"]

_LAZY = {"Lga": "lga.steps", "Rounds": "rounds.steps", "Statistics": "fed3r.steps"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has that name
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return found
