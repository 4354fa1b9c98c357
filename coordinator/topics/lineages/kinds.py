"""Kinds of entry of lineages: how each changes the state, and what is said of it."""

from __future__ import annotations

from fleetledger.coordinator.core.kind import (
    EntryContext,
    Kind,
    LedgerTopic,
    notify_all_of_assignment,
)
from fleetledger.coordinator.core.phrases import files, names_of
from fleetledger.coordinator.topics.lineages import entries
from fleetledger.coordinator.topics.lineages.state import LineagesState, Span
from fleetledger.schemas.count_words import count_of


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


def _say_backbone(body: entries.BackboneImported, _: EntryContext) -> str:
    return (
        f"Frozen model {body.frozen.digest.short} ({body.name}) leads: {body.backbone_width} "
        f"backbone features become {body.feature_width}, learned with {body.method}."
        + "".join(f" Note: {remark}." for remark in body.remarks)
    )


def _take_network(lineages: LineagesState, body: entries.NetworkImported, at: EntryContext) -> None:
    lineages.spans.append(Span(at.index, None))
    lineages.begin(at.index, network=body)
    lineages.had_proxy |= body.proxy


def _say_network(body: entries.NetworkImported, _: EntryContext) -> str:
    after = ""
    if body.successor is not None:
        after = f" After its first stage it freezes, and {body.successor.method} goes on with it."
    pixels = " It gives every pixel a class, or the background." if body.segments else ""
    proxy = " A proxy scores what comes of it and chooses old models." if body.proxy else ""
    what = "it whole"
    if body.base is not None:
        what = f"it, all but the tensors in {body.base.digest.short}"
    elif (seen := body.backbone) is not None:
        what = (
            f"it on the {count_of(seen.feature_width, 'feature')} of frozen model "
            f"{seen.frozen.digest.short} ({seen.name})"
        )
    if body.adapts is not None:
        after = (
            f" It begins as model {body.adapts.version}, and devices in "
            f"{body.adapts.judges.percent} of all places have no part in it."
        )
    return (
        f"Network {body.digest.short} ({body.name}) leads: devices train {what}, in "
        f"rounds, with {body.method}.{pixels}{_phases(body)}{_begins(body)}{after}{proxy}"
        + "".join(f" Note: {remark}." for remark in body.remarks)
    )


def _phases(body: entries.NetworkImported) -> str:
    """Say what devices are asked to do, where that is more than to train."""
    several = ", then ".join(body.round_phases)
    said = f" A round has the phases {several}." if len(body.round_phases) > 1 else ""
    if body.opening_phases:
        said += f" Before a stage's rounds: {names_of(body.opening_phases)}."
    if body.closing_phases:
        said += f" After them: {names_of(body.closing_phases)}."
    return said


def _begins(body: entries.NetworkImported) -> str:
    """Say what the operator gave to begin with."""
    said = ""
    if body.class_names:
        rounds = ", which need no rounds" if body.first_weights_suffice else ""
        said = f" Its first weights know {names_of(body.class_names)}{rounds}."
    return said + (f" Every device gets {files(body.extras)}." if body.extras else "")


def _make_variants(lineages: LineagesState, body: entries.VariantsMade, at: EntryContext) -> None:
    lineages.variants = body if body.variants else None
    lineages.variants_index = at.index


def _say_variants(body: entries.VariantsMade, _: EntryContext) -> str:
    if not body.variants:
        return f"Frozen model {body.lineage.short} has no variants any more."
    made = ", ".join(
        f"{item.name} {item.frozen.digest.short} ({item.frozen.size:,} bytes, features stray by "
        f"{item.strays:.1%})"
        for item in body.variants
    )
    return (
        f"Frozen model {body.lineage.short} has variants: {made}; calibrated on "
        f"{count_of(body.calibrated, 'image')}, measured on {count_of(body.held_out, 'other')}."
    )


LINEAGES = LedgerTopic(
    "lineages",
    kinds=(
        Kind(
            entries.BackboneImported,
            _take_backbone,
            _say_backbone,
            notify_all_of_assignment,
            reorders=True,
        ),
        Kind(
            entries.NetworkImported,
            _take_network,
            _say_network,
            notify_all_of_assignment,
            reorders=True,
        ),
        Kind(entries.VariantsMade, _make_variants, _say_variants),
    ),
)
