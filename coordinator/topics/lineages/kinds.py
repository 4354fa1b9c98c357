"""Kinds of entry of lineages: how each changes the state, and what devices are told again."""

from __future__ import annotations

from fleetledger.coordinator.core.entry import EntryContext
from fleetledger.coordinator.core.kind import Kind, LedgerTopic, notify_all_of_assignment
from fleetledger.coordinator.topics.lineages import entries
from fleetledger.coordinator.topics.lineages.state import LineagesState, Span


def _take_backbone(
    lineages: LineagesState, body: entries.BackboneImported, at: EntryContext
) -> None:
    lineages.spans.append(Span(at.index, _parent(lineages, body)))
    if body == lineages.beneath:
        lineages.lead_again(at.index)
    else:
        lineages.begin(at.index, backbone=body)


def _parent(lineages: LineagesState, body: entries.BackboneImported) -> int | None:
    """Return the span of the network that a frozen model was made of; None for one from outside."""
    before, successor = lineages.current, lineages.successor
    if before is None or successor is None:
        return None
    if (body.name, body.method) != (before.name, successor.method):
        return None
    return lineages.spans[-1].index


def _take_network(lineages: LineagesState, body: entries.NetworkImported, at: EntryContext) -> None:
    lineages.spans.append(Span(at.index, None))
    lineages.begin(at.index, network=body)
    lineages.had_proxy |= body.proxy


def _make_variants(lineages: LineagesState, body: entries.VariantsMade, at: EntryContext) -> None:
    lineages.variants = body if body.variants else None
    lineages.variants_index = at.index


LINEAGES = LedgerTopic(
    "lineages",
    kinds=(
        Kind(
            entries.BackboneImported,
            _take_backbone,
            notify_all_of_assignment,
            reorders=True,
        ),
        Kind(
            entries.NetworkImported,
            _take_network,
            notify_all_of_assignment,
            reorders=True,
        ),
        Kind(entries.VariantsMade, _make_variants),
    ),
)
