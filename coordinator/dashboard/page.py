"""What a page is: a pure function from sources to a model, which a template draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleetledger.coordinator.dashboard.sources import Asked, Sources
from fleetledger.runtime.strict import Strict


class PageModel(Strict):
    """What a page says; `PATH.json` is this."""

    title: str
    """The answer to what one comes for, in a sentence."""


@dataclass(frozen=True)
class Page:
    """A page of the dashboard."""

    name: str
    """Of its template (`NAME.html`), and of its route."""
    path: str
    read: Callable[[Sources, Asked], PageModel]
    nav: str = ""
    """Its word in the navigation; empty where it is reached from another page."""
    under: str = ""
    """The page in the navigation that it belongs to, where it is not there itself."""
    of_learning: bool = False
    """Whether it says nothing of a fleet that does not learn."""

    @property
    def template(self) -> str:
        """The file that draws it."""
        return f"{self.name}.html"

    @property
    def json_path(self) -> str:
        """Where the same is as JSON."""
        return f"{self.path if self.path != '/' else '/fleet'}.json"
