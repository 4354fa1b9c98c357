"""How samples are dealt to devices: one rule a module, pure functions of labels and random numbers.

A rule gives one ascending array of positions per device. The same random stream gives the same
partition.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fleetledger.simulator.plan.partitions.class_share import partition_by_class_share
from fleetledger.simulator.plan.partitions.dirichlet import partition_by_dirichlet
from fleetledger.simulator.plan.partitions.evenly import partition_evenly
from fleetledger.simulator.plan.partitions.iid import partition_iid
from fleetledger.simulator.plan.partitions.one_class import partition_by_one_class
from fleetledger.simulator.plan.partitions.owner import partition_by_owner
from fleetledger.simulator.scenario.sections import PartitionSettings

Rule = Callable[
    [NDArray[np.int64], int, PartitionSettings, np.random.Generator], list[NDArray[np.int64]]
]
RULES_BY_CLASS: dict[str, Rule] = {
    "iid": partition_iid,
    "dirichlet": partition_by_dirichlet,
    "class-share": partition_by_class_share,
    "one-class": partition_by_one_class,
}
"""The rules that look at labels (N,), the number of devices, settings and random numbers."""

__all__ = [
    "RULES_BY_CLASS",
    "partition_by_class_share",
    "partition_by_dirichlet",
    "partition_by_one_class",
    "partition_by_owner",
    "partition_evenly",
    "partition_iid",
]
