"""Templates: models become HTML. Every text is escaped, and what cannot be seen is written out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from coordinator.dashboard import addresses, telling, words
from coordinator.dashboard.access.people import Person
from coordinator.dashboard.page import Page, PageModel
from coordinator.dashboard.parts.health_plot import health_plot
from coordinator.dashboard.parts.rollout_plots import (
    evidence_plot,
    evidence_spark,
    exposure_plot,
)
from coordinator.dashboard.parts.stage_plot import stage_plot

STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class PageFrame:
    """What stands around a page."""

    fleet: str
    version: str
    person: Person | None
    pages: tuple[Page, ...]
    now_ns: int
    path: str
    """Of this page, as it was asked for."""
    size: int | None = None
    """Entries of the ledger as the page saw it; None where it could not be read."""
    page: Page | None = None
    """Which page this is; None of a form, an error, or what is asked before somebody entered."""
    json_url: str = ""
    learning: bool = True
    """Whether the fleet learns."""

    @property
    def navigation(self) -> tuple[Page, ...]:
        """The pages that one goes to from everywhere."""
        return tuple(
            page for page in self.pages if page.nav and (self.learning or not page.of_learning)
        )

    @property
    def index(self) -> int | None:
        """The newest entry; None where there is none."""
        return self.size - 1 if self.size else None

    @property
    def current(self) -> str:
        """Name of the page in the navigation that this one is, or belongs to."""
        return "" if self.page is None else self.page.under or self.page.name


def draw(template: str, frame: PageFrame, **values: object) -> str:
    """Return a page as HTML; a name that the template uses and nobody gave is an error."""
    return _environment().get_template(template).render(frame=frame, **values)


def draw_page(page: Page, model: PageModel, frame: PageFrame) -> str:
    """Return a page of the dashboard as HTML."""
    return draw(page.template, frame, page=model, ago=partial(words.ago, now_ns=frame.now_ns))


@cache
def static_url(name: str) -> str:
    """Return the address of a file beside the templates, which changes with its content."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()
    return f"/static/{name}?v={digest[:12]}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("coordinator.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=words.visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    environment.globals.update(_GLOBALS)
    return environment


class _Day(NamedTuple):
    day: str
    lines: list[Any]


def _by_day(lines: Iterable[Any], now_ns: int) -> list[_Day]:
    """Return what has a `time`, in its order, under the days that it was on."""
    days = groupby(lines, lambda line: words.day(line.time, now_ns))
    return [_Day(name, list(found)) for name, found in days]


_FILTERS: Mapping[str, Any] = {
    "number": words.number,
    "percent": words.percent,
    "size": words.size,
    "moment": words.moment,
    "clock": words.clock,
    "short_time": words.short_time,
    "iso": words.iso,
    "long": words.long,
    "visible": words.visible,
    "groupby_day": _by_day,
}
_GLOBALS: Mapping[str, Any] = {
    "static_url": static_url,
    "device_url": addresses.device_url,
    "entry_url": addresses.entry_url,
    "model_url": addresses.model_url,
    "stage_url": addresses.stage_url,
    "rollout_url": addresses.rollout_url,
    "round_url": addresses.round_url,
    "contributions_url": addresses.contributions_url,
    "ledger_url": addresses.ledger_url,
    "class_url": addresses.class_url,
    "fleet_url": addresses.fleet_url,
    "action_url": addresses.action_url,
    "plural": words.plural,
    "stage_plot": stage_plot,
    "health_plot": health_plot,
    "evidence_plot": evidence_plot,
    "evidence_spark": evidence_spark,
    "exposure_plot": exposure_plot,
    "day": words.day,
    "pieces": telling.pieces,
}
