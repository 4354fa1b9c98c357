"""In which order the classes of a data set come."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.streams import random_stream

OrderRule = Literal["seeded", "as-is", "icarl"]
ICARL_SEED = 1993
CIFAR_CLASSES, CIFAR_IMAGES_PER_CLASS = 100, 500


def order_classes(rule: OrderRule, classes: int, seed: int) -> NDArray[np.int64]:
    """Return the labels 0 to `classes` - 1 in the order of coming.

    Raises `PlanError` when `icarl` is asked of another number of classes than 100.
    """
    if rule == "icarl":
        return _icarl_order(classes)
    if rule == "seeded":
        return random_stream(seed, "class order").permutation(classes).astype(np.int64)
    return np.arange(classes, dtype=np.int64)


def _icarl_order(classes: int) -> NDArray[np.int64]:
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
