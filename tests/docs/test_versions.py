"""The page about versions names the kinds that have one form, and the fate of unknown fields."""

from __future__ import annotations

import re
from pathlib import Path

from fleetledger.schemas.catalogue import CATALOGUE
from fleetledger.schemas.presence import PresenceMessage
from fleetledger.schemas.wire import OWN, SETTLED, SETTLED_VERSION

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")


def kinds_told(fate: str) -> set[str]:
    """Return the kinds in the row that says so of an unknown field."""
    (row,) = (line for line in PAGE.splitlines() if line.endswith(f"| {fate} |"))
    return set(re.findall(r"`([^`]+)`", row))


def test_kinds_with_one_form_are_those_of_the_page() -> None:
    lasting = {entry.kind for entry in CATALOGUE if issubclass(entry.model, PresenceMessage)}
    assert kinds_told("is ignored") == lasting
    assert kinds_told("is refused") == SETTLED - lasting


def test_the_range_of_this_release_ends_at_the_newest_step() -> None:
    newest = max((step.version for step in OWN.steps), default=SETTLED_VERSION)
    assert OWN.range.highest == newest
    assert [step.version for step in OWN.steps] == list(
        range(newest - len(OWN.steps) + 1, newest + 1)
    )
