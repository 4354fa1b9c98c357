"""Exact sums of weights against fractions: any order, streamed, undone, never clipped."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetledger.learning.errors import NetworkError, RangeError
from fleetledger.learning.numerics.differences import DifferenceGrid
from fleetledger.learning.numerics.weights import LARGEST, SumLimits, WeightGrid, WeightSum

SHAPES = {"linear.weight": (3, 2), "norm.running_mean": (2,), "norm.running_var": (2,), "scale": ()}
DEVICES = 7


def model(seed, spread=0.3):
    generator = np.random.default_rng(seed)
    arrays = {
        name: np.asarray(generator.normal(0, spread, shape), np.float32)
        for name, shape in SHAPES.items()
    }
    return arrays | {"norm.running_var": np.abs(arrays["norm.running_var"])}


BROADCAST = model(0)
GRID = WeightGrid.around(BROADCAST)
CONTRIBUTIONS = [(GRID.encode(model(seed)), 10 * seed) for seed in range(1, DEVICES + 1)]


LIMITS = SumLimits(DEVICES, 1000)


def total_of(contributions, limits=LIMITS):
    total = WeightSum(GRID, limits)
    for integers, samples in contributions:
        total.add(integers, samples)
    return total


def same(one, two):
    return one.keys() == two.keys() and all(one[n].tobytes() == two[n].tobytes() for n in one)


def test_a_step_holds_four_times_the_range_in_the_bits():
    for bits in (24, 28, 32):
        grid = WeightGrid.around({"w": np.array([-3.0, 1.0], np.float32)}, bits)
        largest = 2 ** (bits - 1) - 1
        assert 12 <= largest * 2.0 ** grid.exponents["w"] < 24


def test_small_tensors_have_room_to_grow():
    grid = WeightGrid.around({"bias": np.zeros(3, np.float32)})
    grid.encode({"bias": np.array([250.0, -250.0, 1e-6], np.float32)})


def test_a_bound_that_is_known_gives_all_bits_to_what_lies_within():
    grid = WeightGrid.covering({"fisher": (2,)}, largest=1e-4)
    assert 1e-4 <= (2**31 - 1) * 2.0 ** grid.exponents["fisher"] < 2e-4
    fine = grid.decode(grid.encode({"fisher": np.array([1e-4, 1e-12], np.float32)}))["fisher"]
    assert fine.tolist() == pytest.approx([1e-4, 1e-12], rel=0.1)
    with pytest.raises(RangeError, match="'fisher' holds"):
        grid.encode({"fisher": np.array([2e-4, 0], np.float32)})


@pytest.mark.parametrize("largest", [0, -1, np.nan, np.inf])
def test_what_bounds_nothing_is_refused(largest):
    with pytest.raises(RangeError, match="give a positive number"):
        WeightGrid.covering({"fisher": (2,)}, largest)


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=6), st.integers(24, 32))
def test_encoding_is_rounding_to_the_nearest_step(values, bits):
    array = np.array(values, np.float32)
    grid = WeightGrid.around({"w": array}, bits)
    step = Fraction(2) ** grid.exponents["w"]
    encoded = grid.encode({"w": array})["w"]
    assert encoded.tolist() == [round(Fraction(float(value)) / step) for value in array]


def test_decoding_what_was_encoded_is_at_most_half_a_step_away():
    for name, array in GRID.decode(GRID.encode(model(1))).items():
        assert array.dtype == np.float32
        assert np.abs(array - model(1)[name]).max() <= 2.0 ** GRID.exponents[name] / 2


def test_encoding_what_was_decoded_gives_the_same_integers():
    integers = GRID.encode(model(1))
    assert same(GRID.encode(GRID.decode(integers)), integers)


def test_the_mean_is_that_of_fractions_rounded_once():
    mean = total_of(CONTRIBUTIONS).mean()
    samples = sum(count for _, count in CONTRIBUTIONS)
    for name, array in mean.items():
        step = Fraction(2) ** GRID.exponents[name]
        for place in np.ndindex(array.shape):
            exact = sum(int(q[name][place]) * n for q, n in CONTRIBUTIONS) * step / samples
            assert array[place] == np.float32(float(exact))


def test_equal_counts_give_the_plain_mean():
    plain = total_of([(integers, 1) for integers, _ in CONTRIBUTIONS], SumLimits(DEVICES)).mean()
    wanted = np.mean([model(seed)["scale"] for seed in range(1, DEVICES + 1)])
    assert float(plain["scale"]) == pytest.approx(wanted, abs=1e-6)


@given(st.permutations(CONTRIBUTIONS))
def test_no_order_changes_a_bit(contributions):
    assert same(total_of(contributions).mean(), total_of(CONTRIBUTIONS).mean())


def test_subtraction_undoes_a_contribution_for_good():
    total = total_of(CONTRIBUTIONS)
    total.subtract(*CONTRIBUTIONS[2])
    without = total_of(CONTRIBUTIONS[:2] + CONTRIBUTIONS[3:])
    assert same(total.sums, without.sums)
    assert same(total.mean(), without.mean())
    assert (total.devices, total.samples) == (without.devices, without.samples)


def test_large_tensors_are_added_block_by_block():
    values = np.random.default_rng(1).integers(-LARGEST, LARGEST, 100_001).astype(np.int32)
    total = WeightSum(WeightGrid({"w": (100_001,)}, {"w": -20}), SumLimits(2, 2**30))
    total.add({"w": values}, 2**30)
    total.add({"w": values}, 3)
    assert np.array_equal(total.sums["w"], values.astype(np.int64) * (2**30 + 3))


def test_the_mean_of_large_tensors_is_divided_block_by_block_to_the_same_bits():
    values = np.random.default_rng(1).integers(-LARGEST, LARGEST, (3, 33_337)).astype(np.int32)
    sent = {"w": np.random.default_rng(2).normal(size=values.shape).astype(np.float32)}
    for grid in (WeightGrid.around(sent), DifferenceGrid.around(sent)):
        total = WeightSum(grid, SumLimits(2, 5))
        total.add({"w": values}, 5)
        total.add({"w": values[::-1].copy()}, 2)
        whole = grid.weights_of("w", total.sums["w"].astype(np.float64) / 7.0)
        assert np.array_equal(total.mean()["w"], whole)


def test_the_largest_sum_within_the_limits_is_exact():
    limits = SumLimits(2**20, 2**12 - 1)
    total = WeightSum(WeightGrid({"w": (1,)}, {"w": 0}), limits)
    total.sums["w"][:] = LARGEST * (limits.devices - 1) * limits.samples
    total.add({"w": np.array([LARGEST], np.int32)}, limits.samples)
    assert total.sums["w"].tolist() == [LARGEST * limits.devices * limits.samples]


def test_a_fleet_whose_sum_might_not_fit_is_refused_beforehand():
    with pytest.raises(RangeError, match=r"weights: \d+ parts .* need 65 bits"):
        WeightSum(GRID, SumLimits(2**20, 2**12))


def test_counters_are_not_averaged():
    grid = WeightGrid.around(BROADCAST | {"batches": np.array(3)})
    assert "batches" not in grid.shapes
    assert "batches" not in grid.encode(model(1) | {"batches": np.array(4)})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2e3])
def test_values_off_the_grid_are_refused_by_name(value):
    weights = model(1)
    weights["linear.weight"][1, 1] = value
    with pytest.raises(RangeError, match=r"'linear.weight' holds .*(nan|inf|2000)"):
        GRID.encode(weights)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_broadcast_that_has_diverged_gives_no_grid(value):
    with pytest.raises(RangeError, match="'scale' holds"):
        WeightGrid.around(BROADCAST | {"scale": np.float32(value).reshape(())})


def test_variances_are_never_negative():
    weights = model(1)
    weights["norm.running_var"][0] = -1e-3
    with pytest.raises(RangeError, match=r"'norm.running_var' holds a variance"):
        GRID.encode(weights)
    integers = GRID.encode(model(1))
    integers["norm.running_var"][0] = -1
    with pytest.raises(RangeError, match="variance of -1"):
        total_of([(integers, 1)])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"scale": None}, "'scale' is missing"),
        ({"other": np.zeros(1, np.int32)}, "'other' is not on the grid"),
        ({"scale": np.zeros(1, np.int32)}, r"'scale' is int32 \(1,\); give int32 \(\)"),
        ({"scale": np.zeros((), np.float32)}, "'scale' is float32"),
    ],
)
def test_a_contribution_that_is_not_on_the_grid_is_refused_and_changes_nothing(change, told):
    total = total_of(CONTRIBUTIONS[:1])
    before = total.mean()
    integers = CONTRIBUTIONS[1][0] | change
    integers = {name: array for name, array in integers.items() if array is not None}
    with pytest.raises(NetworkError, match=told):
        total.add(integers, 5)
    assert same(total.mean(), before)


@pytest.mark.parametrize("bits", [23, 33])
def test_other_bits_are_refused(bits):
    with pytest.raises(RangeError, match="give 24 to 32"):
        WeightGrid.around(BROADCAST, bits)


def test_more_than_was_proven_is_refused():
    integers, _ = CONTRIBUTIONS[0]
    total = WeightSum(GRID, SumLimits(1, 10))
    for samples in (0, 11):
        with pytest.raises(RangeError, match="give 1 to 10"):
            total.add(integers, samples)
    total.add(integers, 10)
    with pytest.raises(RangeError, match="holds 1 already"):
        total.add(integers, 1)
    with pytest.raises(RangeError, match="subtract only what was added"):
        total.subtract(integers, 11)


def test_nothing_has_no_mean():
    with pytest.raises(RangeError, match="holds none"):
        WeightSum(GRID, SumLimits(1)).mean()


@given(st.integers(0, 2**32 - 1), st.integers(1, 1000))
def test_the_flat_form_is_the_same_numbers_and_the_same_sum(seed, samples):
    weights = model(seed, 3.0)
    integers, values = GRID.encode(weights), GRID.flat(weights)
    for name, place in GRID.places.items():
        assert values[place].tobytes() == integers[name].tobytes()
    one, two = WeightSum(GRID, LIMITS), WeightSum(GRID, LIMITS)
    for count in (samples, 1):
        one.add(integers, count)
        two.admit(values, count)
    for start in range(0, GRID.size, 7):
        place = slice(start, min(start + 7, GRID.size))
        rows = np.stack([values[place], values[place]]).astype(np.float64)
        two.add_rows(place, rows, [samples, 1])
    assert (one.devices, one.samples) == (two.devices, two.samples) == (2, samples + 1)
    assert same(one.sums, two.sums)


@pytest.mark.parametrize("samples", [1, 1000, (1 << 20) - 3, 1 << 20, 1 << 30])
def test_rows_are_added_exactly_however_much_they_weigh(samples):
    grid = WeightGrid({"w": (4,)}, {"w": 0})
    extreme = np.array([-(2**31), 2**31 - 1, 2**31 - 2, -1], np.int32)
    total = WeightSum(grid, SumLimits(2, 1 << 30))
    total.admit(extreme, samples)
    total.admit(extreme[::-1].copy(), 3)
    rows = np.stack([extreme, extreme[::-1]]).astype(np.float64)
    total.add_rows(slice(0, 4), rows, [samples, 3])
    numbers = extreme.tolist()
    expected = [samples * a + 3 * b for a, b in zip(numbers, numbers[::-1], strict=True)]
    assert total.flat.tolist() == expected


def test_the_flat_form_refuses_what_the_other_does_by_the_same_names():
    for name, value in (("linear.weight", np.nan), ("scale", 1e30), ("norm.running_var", -1e-30)):
        weights = model(1)
        weights[name] = np.full_like(weights[name], value)
        with pytest.raises(RangeError, match=name):
            GRID.flat(weights)
    with pytest.raises(NetworkError, match="scale"):
        GRID.flat({name: array for name, array in model(1).items() if name != "scale"})
    values = GRID.flat(model(1))
    values[GRID.places["norm.running_var"]] = -1
    total = WeightSum(GRID, LIMITS)
    for wrong, error in ((values, RangeError), (values[1:], NetworkError)):
        with pytest.raises(error):
            total.admit(wrong)
    assert total.devices == 0


@pytest.mark.parametrize("split", range(DEVICES + 1))
def test_partial_sums_join_to_the_whole(split):
    one, other = total_of(CONTRIBUTIONS[:split]), total_of(CONTRIBUTIONS[split:])
    one.join(other.flat, other.devices, other.samples)
    whole = total_of(CONTRIBUTIONS)
    assert same(one.sums, whole.sums)
    assert (one.devices, one.samples) == (whole.devices, whole.samples)


def test_what_cannot_be_a_partial_sum_is_refused_and_changes_nothing():
    total = total_of(CONTRIBUTIONS[:2], SumLimits(3, 1000))
    before = total.flat.copy()
    with pytest.raises(NetworkError, match="give int64"):
        total.join(total.flat.astype(np.int32), 1, 1)
    with pytest.raises(NetworkError, match=r"\(3,\); give int64"):
        total.join(total.flat[:3], 1, 1)
    with pytest.raises(RangeError, match="2 beside 2; 3 are proven to fit"):
        total.join(total.flat, 2, 20)
    for samples in (0, 1001):
        with pytest.raises(RangeError, match=f"{samples}, devices: 1; each has 1 to 1000"):
            total.join(total.flat, 1, samples)
    assert total.flat.tobytes() == before.tobytes()


def test_a_model_of_several_blocks_is_rounded_into_the_place_that_is_given():
    rng = np.random.default_rng(1)
    weights = {"w": rng.normal(size=(3, 30_000)).astype(np.float32), "b": np.ones(5, np.float32)}
    grid = WeightGrid.around(weights)
    place = np.full(grid.size, -1, np.int32)
    assert grid.flat(weights, place) is place
    integers = grid.encode(weights)
    assert {name: place[part].tobytes() for name, part in grid.places.items()} == {
        name: array.tobytes() for name, array in integers.items()
    }
    weights["w"][2, 29_999] = np.inf
    with pytest.raises(RangeError, match="'w'"):
        grid.flat(weights, place)
