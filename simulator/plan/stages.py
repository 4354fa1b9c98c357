"""Which classes come with which stage."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.streams import random_stream
from fleetledger.simulator.scenario.sections import StageSettings

OrderRule = Literal["seeded", "as-is", "icarl"]
ICARL_SEED = 1993
CIFAR_CLASSES, CIFAR_IMAGES_PER_CLASS = 100, 500

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
    order = order_classes(settings.order, len(class_names), seed)
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


def order_classes(rule: OrderRule, classes: int, seed: int) -> NDArray[np.int64]:
    """Return the labels 0 to `classes` - 1 in the order of coming.

    Raises `PlanError` when `icarl` is asked of another number of classes than 100.
    """
    return ORDERS[rule](classes, seed)


def _seeded_order(classes: int, seed: int) -> NDArray[np.int64]:
    return random_stream(seed, "class order").permutation(classes).astype(np.int64)


def _icarl_order(classes: int, _seed: int) -> NDArray[np.int64]:
    """Return the class order of iCaRL's first run on CIFAR-100: 87, 0, 52, 58, 44, 91, ...

    As the authors' program makes it (github.com/srebuffi/iCaRL, folder iCaRL-TheanoLasagne): it
    sets NumPy's seed to 1993, shuffles the 500 training images of each class in turn while it
    loads the data (`utils_cifar100.py`), and only then the classes (`main_cifar_100_theano.py`).
    Programs that shuffle the classes straight after that seed get 68, 56, 78, ... instead.
    NumPy guarantees the numbers of `RandomState` for ever.
    """
    if classes != CIFAR_CLASSES:
        raise PlanError(
            f"stages.order: icarl is an order of the {CIFAR_CLASSES} classes of CIFAR-100, and "
            f"this data set has {classes}; give seeded or as-is"
        )
    random = np.random.RandomState(ICARL_SEED)
    for _ in range(classes):
        random.shuffle(np.arange(CIFAR_IMAGES_PER_CLASS))
    order = np.arange(classes, dtype=np.int64)
    random.shuffle(order)
    return order


ORDERS: Mapping[OrderRule, Callable[[int, int], NDArray[np.int64]]] = {
    "seeded": _seeded_order,
    "as-is": lambda classes, _seed: np.arange(classes, dtype=np.int64),
    "icarl": _icarl_order,
}
"""Orders by name: from the number of classes and the seed to labels."""
