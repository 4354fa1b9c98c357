"""What `import fleetledger` promises."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import fleetledger as fl
from fleetledger.runtime.registry import RegistryError
from fleetledger.simulator.errors import PartitionError, PlanError
from fleetledger.simulator.plan.orders import ORDERS
from fleetledger.simulator.plan.partitions import PARTITIONS, PartitionSettings
from tests.outside import added, nothing_stays


def test_the_list_is_complete_and_each_name_is_documented() -> None:
    defined = {
        name
        for name, value in vars(fl).items()
        if not name.startswith("_") and inspect.isfunction(value)
    }
    assert {*fl.__all__} == defined | {*fl._LAZY}
    for name in fl.__all__:
        assert inspect.getdoc(getattr(fl, name)), f"{name} has no docstring"
        assert f"`{name}`" in (fl.__doc__ or ""), f"{name} is missing in the table of the face"


def test_to_import_it_costs_nothing() -> None:
    code = (
        "import sys, fleetledger; print([m for m in sys.modules if m.startswith('fleetledger.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_another_name_is_none() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        fl.nothing  # noqa: B018


def test_decorators_give_back_what_they_decorate() -> None:
    def backwards(classes: int, _random: object) -> range:
        return range(classes - 1, -1, -1)

    with nothing_stays(ORDERS):
        assert fl.order("backwards")(backwards) is backwards
        assert ORDERS["backwards"].draw(3, 1).tolist() == [2, 1, 0]


def test_what_is_no_value_of_the_kind_is_refused() -> None:
    with pytest.raises(RegistryError, match="partition: 'seven' is 7; give a function"):
        fl.partition("seven")(7)  # type: ignore[type-var]


@pytest.mark.parametrize("wrong", [[0, 1, 1], [0, 1], ["a", "b", "c"]])
def test_an_order_that_is_none_is_refused_when_it_is_drawn(wrong: list[object]) -> None:
    with (
        added(ORDERS, "wrong", lambda _classes, _random: wrong),
        pytest.raises(PlanError, match=r"order: 'wrong' gives .*each of 0 to 2 is needed"),
    ):
        ORDERS["wrong"].draw(3, 1)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([[0, 1]], "gives 1 part; one is needed for each of 2 devices"),
        ([[0, 1], [9]], "a part is positions from 0 to 3"),
        ([[0, 1], [0.5]], "a part is positions from 0 to 3"),
        ([[0, 0], [1]], "gives one device a sample twice"),
    ],
)
def test_a_partition_that_is_none_is_refused_when_it_is_dealt(
    parts: list[list[float]], said: str
) -> None:
    settings, random = PartitionSettings(), np.random.default_rng(1)
    with added(PARTITIONS, "wrong", lambda _labels, _devices, _random: parts):
        deal = PARTITIONS["wrong"].deal
    assert deal is not None
    with pytest.raises(PartitionError, match=said):
        deal(np.zeros(4, int), 2, settings, random)
