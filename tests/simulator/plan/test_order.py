"""The order of classes."""

import numpy as np
import pytest

from fleetledger.simulator.errors import PlanError
from fleetledger.simulator.plan.orders import ORDERS


def test_as_is_keeps_the_data_sets_order():
    assert ORDERS["as-is"].draw(5, 3).tolist() == [0, 1, 2, 3, 4]


def test_a_seeded_order_is_a_permutation_that_the_seed_decides():
    first, again, other = (ORDERS["seeded"].draw(50, seed) for seed in (1, 1, 2))
    assert sorted(first.tolist()) == list(range(50))
    assert first.tolist() == again.tolist() != other.tolist()


def test_two_random_orders_are_the_same_whatever_the_seed():
    orders = [
        ORDERS[name].draw(50, seed).tolist() for name in ("random-2", "random-3") for seed in (1, 9)
    ]
    assert orders[0] == orders[1] != orders[2] == orders[3]
    assert all(sorted(order) == list(range(50)) for order in orders)


def test_icarls_order_is_that_of_its_program():
    """The whole order, as later work that compares with iCaRL lists it."""
    expected = """
        87 0 52 58 44 91 68 97 51 15 94 92 10 72 49 78 61 14 8 86 84 96 18 24 32 45 88 11 4 67 69 66
        77 47 79 93 29 50 57 83 17 81 41 12 37 59 25 20 80 73 1 28 6 46 62 82 53 9 31 75 38 63 33 74
        27 22 36 3 16 21 60 19 70 90 89 43 5 42 65 76 40 30 23 85 2 95 56 48 71 64 98 13 99 7 34 55
        54 26 35 39
    """
    assert ORDERS["icarl"].draw(100, 7).tolist() == [int(c) for c in expected.split()]


def test_icarls_order_does_not_touch_numpys_global_random_numbers():
    np.random.seed(5)
    expected = np.random.RandomState(5).random_sample()
    ORDERS["icarl"].draw(100, 0)
    assert np.random.random_sample() == expected


def test_icarls_order_is_refused_for_another_number_of_classes():
    with pytest.raises(PlanError, match="this data set has 10"):
        ORDERS["icarl"].draw(10, 0)
