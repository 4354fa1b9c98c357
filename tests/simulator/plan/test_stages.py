"""Classes of the stages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.orders import ORDERS
from fleetledger.simulator.plan.stages import describe_unequal, divide_classes
from fleetledger.simulator.scenario.sections import StageSettings
from tests.simulator.plan.making import names


def divide(known: int, seed: int = 1, **settings):
    return divide_classes(StageSettings(**settings), names(known), seed)


@given(classes=st.integers(1, 60), data=st.data())
def test_every_class_comes_once_and_equal_stages_differ_by_at_most_one(classes, data):
    count = data.draw(st.integers(1, classes))
    stages = divide(classes, count=count)
    assert sorted(label for stage in stages for label in stage) == list(range(classes))
    sizes = [len(stage) for stage in stages]
    assert len(sizes) == count
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1


def test_a_remainder_is_told():
    assert describe_unequal(divide(10, count=3), first=None) == (
        "10 classes do not divide evenly: the 3 stages have 4, 3, 3"
    )
    assert describe_unequal(divide(10, count=5), first=None) is None
    assert describe_unequal(divide(10, count=3, first=6), first=6) is None
    assert "6, 2, 1, 1" in describe_unequal(divide(10, count=4, first=6), first=6)


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({"count": 10}, [10] * 10),
        ({"count": 20}, [5] * 20),
        ({"count": 6, "first": 50}, [50] + [10] * 5),
        ({"count": 11, "first": 50}, [50] + [5] * 10),
        ({"count": 5, "classes": 20}, [4] * 5),
    ],
)
def test_stages_have_the_sizes_of_the_papers(settings, sizes):
    assert [len(stage) for stage in divide(100, **settings)] == sizes


def test_stages_follow_the_order():
    stages = divide(12, seed=4, count=3)
    assert [label for stage in stages for label in stage] == ORDERS["seeded"].draw(12, 4).tolist()
    assert divide(6, order="as-is", count=3) == ((0, 1), (2, 3), (4, 5))


def test_fewer_classes_are_the_first_of_the_order():
    order = ORDERS["seeded"].draw(12, 4).tolist()
    assert divide(12, seed=4, count=2, classes=4) == (tuple(order[:2]), tuple(order[2:4]))


def test_lists_name_the_classes():
    lists = (("kind 003",), ("kind 000", "kind 002"))
    assert divide(4, lists=lists) == ((3,), (0, 2))


def test_an_unknown_name_is_refused_with_names_like_it():
    with pytest.raises(PlanError, match=r"kind 9 of stage 2 .* like kind 00"):
        divide(4, lists=(("kind 001",), ("kind 9",)))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"count": 11}, "stages.count: 10 classes cannot fill 11 stages"),
        ({"classes": 11}, "stages.classes: 11 are more than the 10"),
        ({"count": 2, "first": 11}, "stages.first: 11 are more than the 10"),
        ({"count": 4, "first": 8}, "stages.count: 2 classes cannot fill 3 stages"),
    ],
)
def test_numbers_that_the_data_set_cannot_fill_are_refused(settings, told: str):
    with pytest.raises(PlanError, match=told):
        divide(10, **settings)
