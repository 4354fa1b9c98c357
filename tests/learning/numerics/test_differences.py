"""Weights as 16-bit differences against fractions: any order, any steps, never clipped."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fleetledger.learning.errors import NetworkError, RangeError
from fleetledger.learning.numerics.differences import OCTAVES, DifferenceGrid, Differences
from fleetledger.learning.numerics.grids import LARGEST
from fleetledger.learning.numerics.weights import SumLimits, WeightGrid, WeightSum

SHAPES = {"linear.weight": (3, 2), "norm.running_mean": (2,), "norm.running_var": (2,), "scale": ()}
DEVICES = 7
LIMITS = SumLimits(DEVICES, 1000)


def sent_model():
    random = np.random.default_rng(0)
    arrays = {
        name: np.asarray(random.normal(0, 0.3, shape), np.float32) for name, shape in SHAPES.items()
    }
    return arrays | {"norm.running_var": np.abs(arrays["norm.running_var"])}


SENT = sent_model()
GRID = DifferenceGrid.around(SENT)


def moved(seed, by=None):
    """Return what training made of the sent model; tensors move by much or by little."""
    random = np.random.default_rng(seed)
    arrays = {}
    for name, array in SENT.items():
        scale = by if by is not None else 10.0 ** random.integers(-7, 2)
        arrays[name] = np.asarray(array + random.normal(0, scale, array.shape), np.float32)
    return arrays | {"norm.running_var": np.abs(arrays["norm.running_var"])}


def exact(array):
    return [Fraction(float(value)) for value in np.asarray(array).reshape(-1)]


def slowly(weights):
    """Return each tensor's exponent and integers by the definition, in fractions."""
    found = {}
    for name in sorted(SENT):
        pairs = zip(exact(weights[name]), exact(SENT[name]), strict=True)
        apart = [new - old for new, old in pairs]
        finest = GRID.exponents[name]
        for exponent in range(finest, finest + OCTAVES + 1):
            step = Fraction(2) ** exponent
            steps = [round(value / step) for value in apart]
            if max(map(abs, steps)) <= 32767:
                break
        if name.endswith("running_var"):
            olds = exact(SENT[name])
            steps = [s + (old + s * step < 0) for s, old in zip(steps, olds, strict=True)]
        found[name] = exponent, steps
    return found


CONTRIBUTIONS = [(GRID.encode(moved(seed)), 10 * seed) for seed in range(1, DEVICES + 1)]


def add(total, steps, samples):
    total.admit(steps, samples)
    total.add_rows(slice(0, len(steps)), steps[None].astype(np.float64), [samples])


def total_of(contributions, grid=GRID, limits=LIMITS):
    total = WeightSum(grid, limits)
    for differences, samples in contributions:
        add(total, grid.expand(differences), samples)
    return total


def same(one, two):
    return one.keys() == two.keys() and all(one[n].tobytes() == two[n].tobytes() for n in one)


def one_variance(sent):
    return DifferenceGrid.around({"running_var": np.array([sent], np.float32)})


@pytest.mark.parametrize("seed", range(20))
def test_an_answer_holds_each_tensors_moves_in_the_finest_steps_that_hold_them(seed):
    wanted, made = slowly(moved(seed)), GRID.encode(moved(seed))
    assert made.values.dtype == np.int16
    for exponent, name in zip(made.exponents, GRID.places, strict=True):
        assert (exponent, made.values[GRID.places[name]].tolist()) == wanted[name]


def test_the_steps_of_the_examples_reach_from_the_finest_to_coarse_ones():
    shifts = {
        int(exponent) - GRID.exponents[name]
        for differences, _ in CONTRIBUTIONS
        for exponent, name in zip(differences.exponents, GRID.places, strict=True)
    }
    assert min(shifts) == 0
    assert max(shifts) >= 10


def test_the_mean_is_that_of_fractions():
    mean = total_of(CONTRIBUTIONS).mean()
    samples = sum(count for _, count in CONTRIBUTIONS)
    answers = [(slowly(moved(seed)), 10 * seed) for seed in range(1, DEVICES + 1)]
    for name, array in mean.items():
        assert (array.shape, array.dtype) == (SHAPES[name], np.float32)
        for place, old in enumerate(exact(SENT[name])):
            moves = [
                Fraction(2) ** steps[name][0] * steps[name][1][place] * n for steps, n in answers
            ]
            wanted = float(old + sum(moves) / samples)
            assert array.reshape(-1)[place] == np.float32(wanted)


@given(st.permutations(CONTRIBUTIONS))
def test_no_order_changes_a_bit(contributions):
    one, two = total_of(contributions), total_of(CONTRIBUTIONS)
    assert same(one.sums, two.sums)
    assert same(one.mean(), two.mean())


def test_coarser_steps_for_the_same_moves_change_no_bit_of_the_sum():
    differences = GRID.encode(SENT)
    fine, coarse = (
        Differences(differences.exponents + shift, differences.values + (96 >> shift))
        for shift in (0, 5)
    )
    assert same(total_of([(fine, 3)]).sums, total_of([(coarse, 3)]).sums)


def test_subtraction_undoes_a_contribution_for_good():
    total = total_of(CONTRIBUTIONS)
    steps = GRID.expand(CONTRIBUTIONS[2][0])
    tensors = {name: steps[place].reshape(SHAPES[name]) for name, place in GRID.places.items()}
    total.subtract(tensors, CONTRIBUTIONS[2][1])
    without = total_of(CONTRIBUTIONS[:2] + CONTRIBUTIONS[3:])
    assert same(total.sums, without.sums)
    assert same(total.mean(), without.mean())


def test_a_fleet_that_stays_where_it_was_keeps_every_bit():
    assert same(total_of([(GRID.encode(SENT), 5), (GRID.encode(SENT), 7)]).mean(), SENT)


@given(st.integers(0, 1000), st.sampled_from([1e-7, 1e-4, 1e-2, 1.0, 30.0]))
def test_what_is_lost_is_half_a_step_or_a_small_part_of_the_largest_move(seed, by):
    weights = moved(seed, by)
    for name, array in GRID.decode(GRID.encode(weights)).items():
        apart = np.abs(array.astype(np.float64) - weights[name]).max()
        largest = np.abs(weights[name].astype(np.float64) - SENT[name]).max()
        rounding = np.abs(weights[name]).max() * 2.0**-24  # to float32, at the end
        bound = max(2.0 ** GRID.exponents[name] / 2, largest / 32767)
        # A variance may be rounded up by a whole step.
        assert apart <= bound * (2 if name.endswith("running_var") else 1) + rounding


def test_small_moves_lose_nothing_against_32_bits():
    finest = WeightGrid.around(SENT)
    assert finest.exponents == GRID.exponents
    weights = moved(1, by=1e-4)
    whole, short = finest.decode(finest.encode(weights)), GRID.decode(GRID.encode(weights))
    for name, array in short.items():
        assert np.abs(array - weights[name]).max() <= 2.0 ** GRID.exponents[name] / 2
        assert np.abs(array - whole[name]).max() <= 2.0 ** GRID.exponents[name]


def test_a_round_of_a_fleet_is_averaged_to_a_thousandth_of_its_step():
    random = np.random.default_rng(5)
    sent = {"w": random.normal(0, 0.05, 20_000).astype(np.float32)}
    grid = DifferenceGrid.around(sent)
    # Heavy tails: the largest move, which sets the step, is far above the usual one.
    moves = 0.01 * random.standard_t(4, (20, 20_000))
    answers = [{"w": (sent["w"] + move).astype(np.float32)} for move in moves]
    mean = total_of([(grid.encode(answer), 1) for answer in answers], grid, SumLimits(20)).mean()
    wanted = np.mean([answer["w"].astype(np.float64) for answer in answers], axis=0)
    step = np.linalg.norm(wanted - sent["w"])
    assert np.linalg.norm(mean["w"] - wanted) < 1e-3 * step


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2e3])
def test_what_moved_too_far_is_refused_by_name(value):
    weights = moved(1)
    weights["linear.weight"][1, 1] = value
    with pytest.raises(RangeError, match=r"'linear.weight' has moved by (nan|inf|2000)"):
        GRID.encode(weights)


def test_the_furthest_move_that_fits_is_exact_and_one_step_more_is_refused():
    grid = DifferenceGrid.around({"w": np.zeros(2, np.float32)})
    coarsest = 2.0 ** (grid.exponents["w"] + OCTAVES)
    far = np.array([32767 * coarsest, -coarsest], np.float32)
    assert grid.decode(grid.encode({"w": far}))["w"].tolist() == far.tolist()
    assert grid.encode({"w": far}).values.tolist() == [32767, -1]
    with pytest.raises(RangeError, match="train with a lower rate"):
        grid.encode({"w": np.array([32768 * coarsest, 0], np.float32)})


@pytest.mark.parametrize("shift", [-1, OCTAVES + 1, 400, -400])
def test_steps_outside_the_range_are_refused_by_name(shift):
    differences = GRID.encode(moved(1))
    exponents = differences.exponents.copy()
    exponents[0] = GRID.exponents["linear.weight"] + shift
    with pytest.raises(RangeError, match=r"'linear.weight' has steps of 2\^"):
        GRID.expand(Differences(exponents, differences.values))


def test_every_answer_that_passes_fits_the_proven_sum():
    grid = DifferenceGrid.around({"w": np.zeros(2, np.float32)})
    coarsest = np.array([grid.exponents["w"] + OCTAVES], np.int32)
    extreme = Differences(coarsest, np.array([-32768, 32767], np.int16))
    steps = grid.expand(extreme)
    assert steps.tolist() == [-32768 << OCTAVES, 32767 << OCTAVES]
    assert -LARGEST - 1 <= steps.min() <= steps.max() <= LARGEST
    limits = SumLimits(2**20, 2**12 - 1)
    total = WeightSum(grid, limits)
    total.sums["w"][:] = steps.astype(np.int64) * (limits.devices - 1) * limits.samples
    add(total, steps, limits.samples)
    assert total.sums["w"].tolist() == [int(s) * limits.devices * limits.samples for s in steps]
    with pytest.raises(RangeError, match="need 65 bits"):
        WeightSum(grid, SumLimits(2**20, 2**12))


def test_a_variance_near_zero_is_rounded_up():
    grid = one_variance(100.3)
    made = grid.decode(grid.encode({"running_var": np.array([1e-6], np.float32)}))
    own_step = 2.0 ** int(grid.encode({"running_var": np.zeros(1, np.float32)}).exponents[0])
    assert 0 <= made["running_var"][0] < own_step
    assert own_step < 0.01


@given(st.floats(2**-20, 2**20, width=32), st.floats(0, 2**10, width=32))
def test_no_variance_becomes_negative(before, after):
    grid = one_variance(before)
    assume(after - before < 2.0 ** (grid.exponents["running_var"] + 30))
    made = grid.decode(grid.encode({"running_var": np.array([after], np.float32)}))
    assert made["running_var"][0] >= 0


def test_a_mean_of_variances_at_zero_is_not_below_it():
    for before in (0.3, 1.7, 1e-3, 7.0):
        grid = one_variance(before)
        nothing = grid.encode({"running_var": np.zeros(1, np.float32)})
        mean = total_of([(nothing, 997), (nothing, 1), (nothing, 2)], grid).mean()
        assert 0 <= mean["running_var"][0] < 1e-3


def test_negative_variances_are_refused_where_they_are_made_and_where_they_come():
    weights = moved(1)
    weights["norm.running_var"][0] = -1e-3
    with pytest.raises(RangeError, match=r"'norm.running_var' holds a variance"):
        GRID.encode(weights)
    differences = GRID.encode(SENT)
    values = differences.values.copy()
    values[GRID.places["norm.running_var"]] = -32768
    coarse = differences.exponents + OCTAVES
    with pytest.raises(RangeError, match=r"'norm.running_var' holds a variance of -"):
        GRID.expand(Differences(coarse, values))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"scale": None}, "'scale' is missing"),
        ({"scale": np.zeros(1, np.float32)}, r"'scale' is float32 \(1,\); give float32 \(\)"),
        ({"scale": np.zeros((), np.float64)}, "'scale' is float64"),
    ],
)
def test_weights_of_another_form_are_refused_by_name(change, told):
    weights = moved(1) | change
    weights = {name: array for name, array in weights.items() if array is not None}
    with pytest.raises(NetworkError, match=told):
        GRID.encode(weights)


def test_answers_of_another_form_are_refused():
    differences = GRID.encode(SENT)
    for other, told in (
        (Differences(differences.exponents[:-1], differences.values), "exponents are int32"),
        (Differences(differences.exponents, differences.values[1:]), "values are int16"),
        (Differences(differences.exponents, differences.values.astype(np.int32)), "int32"),
    ):
        with pytest.raises(NetworkError, match=told):
            GRID.expand(other)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_broadcast_that_has_diverged_gives_no_grid(value):
    with pytest.raises(RangeError, match="'scale' holds"):
        DifferenceGrid.around(SENT | {"scale": np.float32(value).reshape(())})
