"""The statistics payload: its law, and what the coordinator refuses, each by name."""

import numpy as np
import pytest

from fleetledger.learning.errors import RangeError
from fleetledger.learning.numerics.compact import CompactFactor
from fleetledger.learning.numerics.exact_sum import ScaledIntegers
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.stsa.coordinator import COORDINATOR
from fleetledger.methods.stsa.device import compute_statistics
from fleetledger.methods.stsa.group_sums import GroupSums
from fleetledger.methods.stsa.messages import LocalStatistics, decode_statistics, encode_statistics
from fleetledger.schemas.bitpacking import PackedIntegers
from fleetledger.schemas.tensors import encode_tensors
from tests.methods.stsa.fleet import (
    ESTIMATED,
    EVERY_KIND,
    GAUSSIAN,
    SMALL,
    assignment,
    make_samples,
    payload_of,
)

EXACT = {**SMALL, "form": "exact"}


def arrays(statistics: LocalStatistics) -> list[np.ndarray]:
    gram = statistics.gram
    if isinstance(gram, GroupSums):
        parts = [gram.per_class, gram.counts, gram.sums.values, np.array(gram.groups)]
    elif isinstance(gram, CompactFactor):
        parts = [gram.values, gram.exponents]
    else:
        parts = [gram.values]
    return [statistics.counts, statistics.correlation.values, *parts]


def tensors(told, count: int = 20) -> tuple[dict, dict]:
    """Return the raw tensors and metadata of an honest payload, to be spoilt."""
    samples = make_samples(told, count)
    made = compute_statistics(told, samples.features, samples.labels)
    raw = {"counts": made.counts, "correlation": made.correlation.values}
    metadata = {"version": 1, "form": made.form, "class_names": list(made.class_names)}
    steps = {"gram_exponent": 0, "correlation_exponent": made.correlation.exponent, "groups": 0}
    if isinstance(made.gram, GroupSums):
        raw = {
            "groups_per_class": made.gram.per_class,
            "group_counts": made.gram.counts,
            "group_sums": made.gram.sums.values,
        }
        steps["groups"] = made.gram.groups
    elif isinstance(made.gram, CompactFactor):
        raw |= {"factor": made.gram.values, "row_exponents": made.gram.exponents}
    else:
        raw |= {"gram": made.gram.values}
        steps["gram_exponent"] = made.gram.exponent
    return raw, metadata | steps


def encoded(raw: dict, metadata: dict) -> bytes:
    packed = ("correlation", "gram", "factor", "group_sums")
    return encode_tensors(
        {k: PackedIntegers.pack(v, 48) if k in packed else v for k, v in raw.items()}, metadata
    )


@pytest.mark.parametrize("settings", EVERY_KIND)
def test_decoding_undoes_encoding(settings):
    told = assignment(settings)
    samples = make_samples(told, 30)
    made = compute_statistics(told, samples.features, samples.labels)
    read = decode_statistics(encode_statistics(made), told)
    assert read.class_names == made.class_names
    assert read.samples == 30
    for one, two in zip(arrays(read), arrays(made), strict=True):
        assert np.array_equal(one, two)
    assert encode_statistics(read) == encode_statistics(made)


@pytest.mark.parametrize("settings", EVERY_KIND)
def test_honest_payloads_pass(settings):
    told = assignment(settings)
    for count in (1, 5, 200):
        samples = make_samples(told, count, seed=count)
        counts = COORDINATOR.check(told, payload_of(told, samples)).samples_per_class
        assert counts == {name: samples.labels.count(name) for name in set(samples.labels)}


@pytest.mark.parametrize("form", ["exact", "compact"])
def test_features_at_the_very_end_of_their_range_pass(form):
    told = assignment({**SMALL, "form": form, "compact_bits": 8, "max_samples_per_part": 100})
    samples = make_samples(told, 100, classes=1)
    samples.features[:] = 127
    assert COORDINATOR.check(told, payload_of(told, samples)).samples == 100


@pytest.mark.parametrize("settings", EVERY_KIND)
def test_spoiling_nothing_changes_nothing(settings):
    told = assignment(settings)
    assert COORDINATOR.check(told, encoded(*tensors(told))).samples == 20


def spoil(raw: dict, name: str, index: object, value: int) -> None:
    raw[name] = raw[name].copy()
    raw[name][index] = value


@pytest.mark.parametrize(
    ("spoiling", "message"),
    [
        (lambda r, m: r.update(gram=r["gram"][1:]), r"gram: packed \(819,\) does not fit; give"),
        (lambda r, m: r.pop("gram"), "gram: is missing"),
        (lambda r, m: r.update(extra=r["counts"]), "extra: unknown tensor"),
        (lambda r, m: r.update(correlation=r["correlation"][:, 1:]), "correlation: packed"),
        (lambda r, m: r.update(correlation=r["correlation"][1:]), "2 rows for 3 classes"),
        (lambda r, m: r.update(counts=r["counts"].astype(float)), "counts: float64"),
        (lambda r, m: spoil(r, "counts", 1, 0), "counts: 0 to"),
        (lambda r, m: spoil(r, "counts", 1, -5), "counts: -5 to"),
        (lambda r, m: spoil(r, "counts", 1, 2**62), "at most 1000 together"),
        (lambda r, m: m.update(class_names=["b", "a", "c"]), "give one per class, sorted"),
        (lambda r, m: m.update(class_names=["a", "a", "c"]), "give one per class, sorted"),
        (lambda r, m: m.update(class_names=["a", "c"]), "2 names for 3 counts"),
        (lambda r, m: m.update(class_names=["a", "b", "../c"]), "class_names.2: '../c'"),
        (lambda r, m: m.update(version=2), "version: 2"),
        (lambda r, m: m.update(file="cat.png"), "file: 'cat.png': unknown here"),
        (lambda r, m: m.update(gram_exponent=3), r"gram: steps of 2\^3"),
        (lambda r, m: m.update(correlation_exponent=-1), r"correlation: steps of 2\^-1"),
        (lambda r, m: spoil(r, "correlation", (1, 7), -1), "-1 for feature 7 of class 'class 1'"),
        (lambda r, m: spoil(r, "correlation", (0, 0), 127 * 20 + 1), "2541 for feature 0"),
        (lambda r, m: spoil(r, "gram", 0, -1), "gram: -1 on the diagonal at 0"),
        (
            lambda r, m: spoil(r, "gram", 0, 20 * 127**2 + 1),
            "diagonal at 0; samples with these class sums",
        ),
        (lambda r, m: spoil(r, "gram", 5, 2**30), "gram: 1073741824 for features 0 and 5"),
        (lambda r, m: spoil(r, "gram", 5, -(2**30)), "gram: -1073741824 for features 0 and 5"),
        (lambda r, m: spoil(r, "gram", 0, r["gram"][0] + 1), "give an (odd|even) number"),
        (lambda r, m: spoil(r, "gram", 5, r["gram"][5] + 40_000), "negative in some direction"),
        (lambda r, m: r.update(gram=r["gram"] * 0), "gram: 0 on the diagonal at 0"),
    ],
)
def test_a_spoilt_exact_payload_is_refused_by_name(spoiling, message):
    told = assignment(EXACT)
    raw, metadata = tensors(told)
    spoiling(raw, metadata)
    with pytest.raises(ContributionError, match=message):
        COORDINATOR.check(told, encoded(raw, metadata))


@pytest.mark.parametrize(
    ("spoiling", "message"),
    [
        (
            lambda r, m: r.update(factor=r["factor"][1:]),
            "factor: 543 values in 17 rows; 20 samples of 3 classes",
        ),
        (lambda r, m: r.update(row_exponents=r["row_exponents"][1:]), "544 values in 16 rows"),
        (lambda r, m: spoil(r, "counts", 0, 1), "samples of 3 classes need"),
        (lambda r, m: spoil(r, "factor", 3, 512), "a value exceeds 511"),
        (lambda r, m: spoil(r, "row_exponents", 3, -5), "row exponents: -5 is outside"),
        (lambda r, m: spoil(r, "row_exponents", 3, 99), "row exponents: 99 is outside"),
        (lambda r, m: r["row_exponents"].__setitem__(slice(0, 20), 3), "factor: column 0 has the"),
        (lambda r, m: r.update(factor=r["factor"] // 8), "which a finer step holds"),
        (lambda r, m: r.update(factor=r["factor"] * 0), "which a finer step holds"),
        (lambda r, m: spoil(r, "correlation", (0, 0), -1), "correlation: -1 for feature 0"),
    ],
)
def test_a_spoilt_compact_payload_is_refused_by_name(spoiling, message):
    told = assignment()
    raw, metadata = tensors(told)
    spoiling(raw, metadata)
    with pytest.raises(ContributionError, match=message):
        COORDINATOR.check(told, encoded(raw, metadata))


@pytest.mark.parametrize(
    ("spoiling", "message"),
    [
        (lambda r, m: r.pop("group_sums"), "group_sums: is missing"),
        (lambda r, m: r.update(group_sums=r["group_sums"][:, 1:]), "group_sums: packed"),
        (lambda r, m: r.update(group_sums=r["group_sums"][1:]), "counts and 9 sums for 10 rows"),
        (lambda r, m: r.update(group_counts=r["group_counts"][1:]), "9 counts and 10 sums"),
        (lambda r, m: spoil(r, "group_counts", 1, 0), "group_counts: 0 to"),
        (lambda r, m: spoil(r, "group_counts", 1, 2**62), "group_counts: 2 to 46116"),
        (lambda r, m: spoil(r, "group_counts", 1, 999), "at most 1000 together"),
        (lambda r, m: spoil(r, "groups_per_class", 0, 0), "groups_per_class: 0 to"),
        (lambda r, m: spoil(r, "groups_per_class", 0, 5), "groups_per_class: 3 to 5; give 1 to 4"),
        (lambda r, m: spoil(r, "groups_per_class", 0, 1), "10 sums for 8 rows"),
        (lambda r, m: m.update(groups=0), "groups: 0; give 1 to 4"),
        (lambda r, m: m.update(groups=5), "groups: 5; give 1 to 4"),
        (lambda r, m: m.update(class_names=["a", "b"]), "groups_per_class: 3 for 2 class names"),
        (lambda r, m: m.update(class_names=["b", "a", "c"]), "give one per class, sorted"),
        (lambda r, m: m.update(correlation_exponent=-1), r"group_sums: steps of 2\^-1"),
        (lambda r, m: m.update(form="exact"), "form: 'exact' is not allowed in this fleet"),
        (lambda r, m: m.update(form="small"), "form: 'small'"),
        (lambda r, m: m.pop("form"), "form: is missing"),
        (lambda r, m: spoil(r, "group_sums", (1, 7), -1), "-1 for feature 7 of class 'class 0'"),
        (lambda r, m: spoil(r, "group_sums", (9, 0), 127 * 3 + 1), "382 for feature 0 of class"),
    ],
)
def test_a_spoilt_estimated_payload_is_refused_by_name(spoiling, message):
    told = assignment(ESTIMATED)
    raw, metadata = tensors(told)
    spoiling(raw, metadata)
    with pytest.raises(ContributionError, match=message):
        COORDINATOR.check(told, encoded(raw, metadata))


def test_group_sums_whose_total_could_wrap_are_refused():
    groups = GroupSums(
        np.array([1000]),
        np.ones(1000, np.int64),
        ScaledIntegers(np.full((1000, 40), 2**62), -20),
        1000,
    )
    with pytest.raises(RangeError, match="1,000 rows of up to 4611686018427387904 may leave int64"):
        LocalStatistics.of_groups(("a",), groups)


def test_gaussian_steps_outside_the_range_are_refused():
    told = assignment(GAUSSIAN)
    raw, metadata = tensors(told)
    for field in ("gram_exponent", "correlation_exponent"):
        with pytest.raises(ContributionError, match=r"steps of 2\^-15; give exponents from -20"):
            COORDINATOR.check(told, encoded(raw, metadata | {field: -15}))


def test_floats_cannot_take_the_place_of_integers():
    told = assignment(GAUSSIAN)
    raw, metadata = tensors(told)
    correlation = PackedIntegers.pack(raw["correlation"], 48)
    floats = {"counts": raw["counts"], "correlation": correlation, "gram": np.ones(820)}
    with pytest.raises(ContributionError, match=r"gram: float64 \(820,\) does not fit"):
        COORDINATOR.check(told, encode_tensors(floats, metadata))


def test_truncated_and_oversize_payloads_are_refused():
    told = assignment(EXACT)
    payload = payload_of(told, make_samples(told, 20))
    with pytest.raises(ContributionError):
        COORDINATOR.check(told, payload[:-1])
    with pytest.raises(ContributionError, match=r"size: \d+ bytes; at most"):
        COORDINATOR.check(told, bytes(200 << 20))


def test_another_lineage_or_form_is_refused():
    told = assignment(EXACT)
    payload = payload_of(told, make_samples(told, 20))
    with pytest.raises(ContributionError, match="does not fit"):
        COORDINATOR.check(COORDINATOR.assign({"map_width": 41, "form": "exact"}, 16), payload)
    with pytest.raises(
        ContributionError, match="form: 'exact' is not allowed in this fleet; give compact"
    ):
        COORDINATOR.check(assignment(), payload)


def test_a_class_that_was_not_assigned_is_refused():
    told = assignment(EXACT)
    payload = payload_of(told, make_samples(told, 20))
    narrow = told.model_copy(update={"class_names": ("class 0", "class 1")})
    with pytest.raises(ContributionError, match="'class 2' was not assigned"):
        COORDINATOR.check(narrow, payload)


def test_compact_payloads_stay_below_four_percent_of_the_published_size():
    told = COORDINATOR.assign({}, 64)
    sizes = []
    for seed in range(3):
        samples = make_samples(told, 130, classes=10, seed=seed)
        sizes.append(len(payload_of(told, samples)))
    assert max(sizes) <= 0.04 * 4 * (1250**2 + 1250 * 10)
