"""The plan `classes`: every class comes with one stage, and all its samples with it."""

from __future__ import annotations

from collections.abc import Sequence

from fleetledger.simulator.datasets.labels import (
    Labels,
    count_samples,
    samples_of,
    without_samples_of,
)
from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.requests import PlanRequest
from fleetledger.simulator.plan.rows import StageDeal
from fleetledger.simulator.plan.stage_notes import describe_unreached
from fleetledger.simulator.plan.stages import Stages, describe_unequal, divide_classes


def deal_classes(request: PlanRequest, kept: Labels) -> Sequence[StageDeal]:
    """Divide classes into stages, and deal the samples of each.

    `kept` are the labels of all training samples. A sample that shows several classes comes with
    each stage that has one of them; where `stages.scenes` is `disjoint`, those that show a class of
    a later stage wait for it. A stage's draw depends on no other. Raises `PlanError` where a class
    has no sample, `PartitionError` where a stage cannot be dealt.
    """
    names = request.train.class_names
    stages = divide_classes(request.stages, names, request.seed)
    disjoint = request.stages.scenes == "disjoint"
    labels = [_shown_in(kept, stages, number, disjoint) for number in range(1, len(stages) + 1)]
    for number, classes in enumerate(stages, start=1):
        there = count_samples(labels[number - 1], len(names))
        for label in classes:
            if not there[label]:
                alone = " without a class of a later stage" if disjoint else ""
                raise PlanError(
                    f"stages: {names[label]!s} of stage {number} has no training image{alone}; "
                    "give it some, or name the classes of the stages with lists"
                )
    unequal = describe_unequal(stages, request.stages.larger_first)
    deals = []
    for number, classes in enumerate(stages, start=1):
        shown = labels[number - 1]
        shares = request.deal(number, samples_of(shown, classes), classes)
        notes = (
            unequal if number == 1 else None,
            describe_unreached(classes, shares.values(), shown, names),
        )
        deals.append(StageDeal(classes, shares, notes=tuple(note for note in notes if note)))
    return deals


def _shown_in(labels: Labels, stages: Stages, number: int, disjoint: bool) -> Labels:
    """Return the labels of all training samples, as far as a stage may have these."""
    later = [label for classes in stages[number:] for label in classes]
    return without_samples_of(labels, later) if disjoint and later else labels
