"""Which classes come with which stage."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.orders import ORDERS
from fleetledger.simulator.scenario.sections import StageSettings

Stages = tuple[tuple[int, ...], ...]
"""The labels of every stage."""


def divide_classes(settings: StageSettings, class_names: Sequence[ClassName], seed: int) -> Stages:
    """Return the labels of every stage; `class_names` are those of the data set.

    With `lists` they are as given. Else the first `classes` of the order are cut into `count`
    stages: of equal size, where the first stages take one class more if they do not divide evenly;
    with `first`, that many in the first stage and the rest equally in the others; `setting` says
    both. Raises
    `PlanError` where names or numbers do not fit the data set; what the settings say by themselves
    they have checked, such as that no class comes twice.
    """
    if settings.lists:
        return _listed(settings.lists, class_names)
    order = ORDERS[settings.order].draw(len(class_names), seed)
    used = len(order) if settings.classes is None else settings.classes
    if used > len(order):
        raise PlanError(
            f"stages.classes: {used} are more than the {count_of(len(order), 'class', 'classes')} "
            f"of the data set; give at most {len(order)}"
        )
    ends = np.cumsum(_sizes(settings, used))
    return tuple(
        tuple(int(label) for label in labels) for labels in np.split(order[:used], ends[:-1])
    )


def describe_unequal(stages: Stages, first: int | None) -> str | None:
    """Say how many classes the stages have where the rest did not divide evenly; else None."""
    sizes = [len(classes) for classes in stages]
    if len(set(sizes if first is None else sizes[1:])) <= 1:
        return None
    return (
        f"{sum(sizes)} classes do not divide evenly: the {len(sizes)} stages have "
        f"{', '.join(map(str, sizes))}"
    )


def _sizes(settings: StageSettings, used: int) -> list[int]:
    """Return the number of classes of every stage."""
    first, count = settings.larger_first, settings.total
    if first is None:
        return _equal(used, count)
    if first > used:
        raise PlanError(
            f"stages.first: {first} are more than the {count_of(used, 'class', 'classes')}; give "
            "fewer"
        )
    return [first, *_equal(used - first, count - 1)]


def _equal(classes: int, stages: int) -> list[int]:
    """Return the sizes of `stages` stages; the first ones take the remainder, one class each."""
    if stages > classes:
        raise PlanError(
            f"stages.count: {classes} classes cannot fill {count_of(stages, 'stage')} with at "
            f"least one each; give fewer stages or more classes"
        )
    return [classes // stages + (stage < classes % stages) for stage in range(stages)]


def _listed(lists: Sequence[Sequence[ClassName]], class_names: Sequence[ClassName]) -> Stages:
    labels = {name: label for label, name in enumerate(class_names)}
    for number, names in enumerate(lists, start=1):
        for name in names:
            _check_name(name, number, list(labels))
    return tuple(tuple(labels[name] for name in names) for names in lists)


def _check_name(name: ClassName, stage: int, known: Sequence[ClassName]) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3) or known[:3]
        raise PlanError(
            f"stages.lists: {name!s} of stage {stage} is no class of the data set; "
            f"it has {len(known)}, like {', '.join(near)}"
        )
