"""Which classes the fleet knows, by which names, from which stage, and how well."""

from __future__ import annotations

from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.parts.plot import scale_from
from fleetledger.coordinator.dashboard.sources import Asked, Sources, count_of
from fleetledger.coordinator.reports.contributions import ClassFacts, class_facts
from fleetledger.coordinator.reports.old_and_new_classes import newest_classes
from fleetledger.transport.pages.words import plural

SHOWN = 200


class ClassesPage(PageModel):
    """The classes, in the order of their indices."""

    asked: str
    """The name that was asked for."""
    found: str
    """What that name means now; empty where nobody has it."""
    version: int | None
    """The model that accuracies are of."""
    scale_from: float
    """Share at which the plot's scale begins."""
    classes: tuple[ClassFacts, ...]
    newest: tuple[str, ...]
    """Those of the newest stage that the model knows."""
    more: int | None


def read(sources: Sources, asked: Asked) -> ClassesPage:
    """Return the classes."""
    ledger = sources.ledger
    version = sources.state.models.leading
    newest = frozenset() if version is None else newest_classes(ledger, version)
    classes = class_facts(ledger)
    name = asked.query.get("name", "")
    place = next((i for i, item in enumerate(classes) if _is(item, name)), None)
    start = (place or 0) // SHOWN * SHOWN if name else count_of(asked.query.get("from")) or 0
    end = start + SHOWN
    return ClassesPage(
        title=_title(classes),
        asked=name,
        found="" if place is None else classes[place].name,
        version=version,
        scale_from=scale_from(item.share for item in classes if item.share is not None),
        classes=tuple(classes[start:end]),
        newest=tuple(sorted(newest)),
        more=end if len(classes) > end else None,
    )


def _is(item: ClassFacts, name: str) -> bool:
    return bool(name) and (item.name == name or name in item.other_names)


def _title(classes: list[ClassFacts]) -> str:
    if not classes:
        return "No class is registered yet; the first stage names them."
    known = f"The fleet knows {plural(len(classes), 'class', 'classes')}"
    measured = [(item.share, item) for item in classes if item.share is not None]
    if not measured:
        return f"{known}; no device has measured a model on them yet."
    share, weakest = min(measured, key=lambda found: (found[0], found[1].index))
    if share == 1:
        return f"{known}, and all that devices hold out of them is recognized."
    return f"{known}, and is weakest at {weakest.name}: {100 * share:.1f} % right."
