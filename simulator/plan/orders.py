"""Orders in which the classes of a data set come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetledger.runtime.errors import shorten
from fleetledger.runtime.registry import Registry, RegistryError
from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.streams import random_stream

ICARL_SEED = 1993
CIFAR_CLASSES, CIFAR_IMAGES_PER_CLASS = 100, 500


@dataclass(frozen=True)
class ClassOrder:
    """An order by the name that `[stages]` gives it."""

    draw: Callable[[int, int], NDArray[np.int64]]
    """Returns the labels, from 0, of so many classes in the order of coming; the second number is
    the seed. Raises `PlanError` for a number of classes that it is not made for."""
    of_cifar_100: bool = False
    """Whether it is an order of CIFAR-100's classes alone."""


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


def _taken(name: str, value: object) -> ClassOrder:
    """Return the order by a function of the number of classes and random numbers."""
    if isinstance(value, ClassOrder):
        return value
    if not callable(value):
        raise RegistryError(f"order: {name!r} is {shorten(value)}; give a function")

    def draw(classes: int, seed: int) -> NDArray[np.int64]:
        order = np.asarray(value(classes, random_stream(seed, "class order")))
        if order.shape != (classes,) or sorted(order.tolist()) != list(range(classes)):
            raise PlanError(
                f"stages.order: {name!r} gives {shorten(order.tolist())}; each of 0 to "
                f"{classes - 1} is needed once"
            )
        return order.astype(np.int64)

    return ClassOrder(draw)


_OWN: dict[str, ClassOrder] = {
    "seeded": ClassOrder(_seeded_order),
    "as-is": ClassOrder(lambda classes, _seed: np.arange(classes, dtype=np.int64)),
    "icarl": ClassOrder(_icarl_order, of_cifar_100=True),
    "random-2": ClassOrder(lambda classes, _seed: _seeded_order(classes, 2)),
    "random-3": ClassOrder(lambda classes, _seed: _seeded_order(classes, 3)),
}
ORDERS = Registry[ClassOrder]("order", "fleetledger.orders", _taken).own(_OWN)
"""By name; `[stages]` takes a name once it is here."""
