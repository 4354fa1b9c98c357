"""Models of pages become HTML, by templates that know the dashboard's addresses and plots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from html import escape, unescape
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from fleetledger.coordinator.dashboard import addresses
from fleetledger.coordinator.dashboard.page import Page, PageModel
from fleetledger.coordinator.dashboard.parts import rollout_plots, time_plots
from fleetledger.coordinator.dashboard.parts.accuracy_plots import stage_plot, version_plot
from fleetledger.coordinator.dashboard.parts.presence_plot import (
    fleet_presence_plot,
    presence_strip,
)
from fleetledger.runtime.shown_commands import command_at
from fleetledger.transport.pages import words
from fleetledger.transport.pages.people import Person
from fleetledger.transport.pages.renderer import PageTemplates


class Piece(NamedTuple):
    """A part of a sentence; with an address it is a link."""

    text: str
    url: str = ""
    mono: bool = False


_URLS = {
    "entry": addresses.entry_url,
    "model": addresses.model_url,
    "stage": addresses.stage_url,
    "round": addresses.round_url,
    "rollout": addresses.rollout_url,
}
_NUMBERED = r"\b(?P<what>[Ee]ntry|[Mm]odel|[Ss]tage|[Rr]ound|[Rr]ollout) (?P<number>[0-9]{1,12})\b"


def pieces(sentence: str, device: str | None = None) -> list[Piece]:
    """Return a sentence in pieces: what it names is a link."""
    named = rf"|(?<![\w.-])(?P<device>{re.escape(device)})(?![\w-])" if device else ""
    found, end = [], 0
    for match in re.finditer(_NUMBERED + named, sentence):
        if match.start() > end:
            found.append(Piece(sentence[end : match.start()]))
        found.append(_link(match))
        end = match.end()
    if end < len(sentence):
        found.append(Piece(sentence[end:]))
    return found


def _link(match: re.Match[str]) -> Piece:
    what = match["what"]
    if what is None:
        return Piece(match[0], addresses.device_url(match[0]), mono=True)
    return Piece(match[0], _URLS[what.lower()](int(match["number"])))


_COMMAND = re.compile(
    r'(`|<code class="command" tabindex="0">|<code class="said">)(fleetledger [^`<]+)'
)
"""A command in HTML, whether in a text or by itself."""


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
    trial: bool = False
    """Whether the fleet is for trying, and needs no keys."""
    home: Path = Path()
    """The coordinator's, absolute, for the commands on a page."""

    @property
    def place(self) -> str:
        """What the pages are about."""
        return self.fleet

    @property
    def first_page(self) -> str:
        """What one sees at the address without a path."""
        return "the fleet"

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
    html = TEMPLATES.draw(template, frame=frame, **values)
    if frame.person is None:  # who has not come in is told no folder
        return html
    return _COMMAND.sub(lambda found: _here(found, frame.home), html)


def _here(found: re.Match[str], home: Path) -> str:
    """Return a command, or several in lines, that finds the home of this coordinator."""
    lines = (escape(command_at(unescape(line), home)) for line in found[2].split("\n"))
    return found[1] + "\n".join(lines)


def draw_page(page: Page, model: PageModel, frame: PageFrame) -> str:
    """Return a page of the dashboard as HTML."""
    return draw(page.template, frame, page=model, ago=partial(words.ago, now_ns=frame.now_ns))


class _Day(NamedTuple):
    day: str
    lines: list[Any]


def _by_day(lines: Iterable[Any], now_ns: int) -> list[_Day]:
    """Return what has a `time`, in its order, under the days that it was on."""
    days = groupby(lines, lambda line: words.day(line.time, now_ns))
    return [_Day(name, list(found)) for name, found in days]


_NAMES: Mapping[str, Any] = {
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
    "map_url": addresses.map_url,
    "action_url": addresses.action_url,
    "stage_plot": stage_plot,
    "version_plot": version_plot,
    "contributions_plot": time_plots.contributions_plot,
    "traffic_plot": time_plots.traffic_plot,
    "heat_plot": time_plots.heat_plot,
    "health_plot": time_plots.health_plot,
    "presence_strip": presence_strip,
    "fleet_presence_plot": fleet_presence_plot,
    "evidence_plot": rollout_plots.evidence_plot,
    "evidence_spark": rollout_plots.evidence_spark,
    "exposure_plot": rollout_plots.exposure_plot,
    "pieces": pieces,
}
TEMPLATES = PageTemplates("fleetledger.coordinator.dashboard", {"groupby_day": _by_day}, _NAMES)
