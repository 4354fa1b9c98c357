"""The estimated form: groups on the device, rows kept at the coordinator, forms side by side."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetledger.learning.numerics.estimated_gram import ClassGroups, EstimatorRule, estimated_gram
from fleetledger.learning.numerics.triangles import symmetric
from fleetledger.methods.errors import MethodError
from fleetledger.methods.statistics.part import PartContext
from fleetledger.methods.stsa.aggregate import StsaAggregate
from fleetledger.methods.stsa.coordinator import COORDINATOR
from fleetledger.methods.stsa.device import DEVICE
from fleetledger.methods.stsa.messages import StsaAssignment
from fleetledger.schemas.values import ClassName
from tests.methods.stsa.fleet import (
    ESTIMATED,
    GAUSSIAN,
    SMALL,
    Samples,
    assignment,
    exactly,
    make_samples,
    payload_of,
    summed,
)

MIXED: dict[str, Any] = {
    **SMALL,
    "form": "estimated",
    "forms": ("exact", "compact"),
    "groups": 3,
    "compact_bits": 15,
}
NAMES = tuple(ClassName(f"class {i}") for i in range(3))


def part_of(
    told: StsaAssignment, samples: Samples, form: str | None = None, seed: bytes = b"a"
) -> bytes:
    context = PartContext(seed=seed, form=form)
    return DEVICE.finish(told, samples.features, samples.labels, context).payload


def aggregate_of(told: StsaAssignment, payload: bytes, stage: int = 1) -> StsaAggregate:
    return StsaAggregate.of(told, COORDINATOR.check(told, payload), stage)


def total_of(told: StsaAssignment, parts: list[StsaAggregate]) -> StsaAggregate:
    total = StsaAggregate.empty(told)
    for part in parts:
        total = total + part
    return total


def estimate_by_hand(
    told: StsaAssignment, payloads: list[bytes], rule: EstimatorRule
) -> np.ndarray:
    """The estimate of one stage from the payloads' rows, class by class in any order."""
    rows: dict[str, list[tuple[np.ndarray, int]]] = {}
    for payload in payloads:
        statistics = COORDINATOR.check(told, payload)
        groups = statistics.gram
        names = np.repeat(statistics.class_names, groups.per_class)
        for name, sums, count in zip(names, groups.sums.to_float(), groups.counts, strict=True):
            rows.setdefault(name, []).append((sums, count))
    classes = [
        ClassGroups(np.array([s for s, _ in held]), np.array([n for _, n in held]))
        for held in rows.values()
    ]
    return estimated_gram(classes, told.columns, rule)


def test_rows_are_sums_and_counts_of_whole_groups():
    told = assignment({**ESTIMATED, "hold_back": True})
    samples = make_samples(told, 70)
    statistics = COORDINATOR.check(told, part_of(told, samples))
    groups = statistics.gram
    assert groups.groups == 4
    assert groups.counts.min() >= 2
    H = samples.features.astype(np.int64)
    for index, name in enumerate(statistics.class_names):
        members = np.array([label == name for label in samples.labels])
        assert groups.per_class[index] == 4
        assert np.array_equal(statistics.correlation.values[index], H[members].sum(axis=0))
        assert statistics.counts[index] == members.sum()


def test_a_group_for_every_sample_gives_the_exact_gram_matrix():
    told = assignment({**ESTIMATED, "groups": 1000, "group_minimum": 1})
    samples = make_samples(told, 60)
    gram = aggregate_of(told, part_of(told, samples)).gram_matrix(told.settings)
    H = samples.features.astype(np.float64)
    assert np.allclose(gram, H.T @ H, rtol=1e-12, atol=1e-6)


def test_the_same_part_gives_the_same_bytes_and_another_seed_other_groups():
    told = assignment(ESTIMATED)
    samples = make_samples(told, 70)
    assert part_of(told, samples) == part_of(told, samples)
    assert part_of(told, samples) != part_of(told, samples, seed=b"b")


def test_a_class_with_a_single_sample_is_held_back_where_groups_travel():
    told = assignment({**ESTIMATED, "hold_back": None})
    samples = make_samples(told, 9)
    samples.labels[0] = "alone"
    with pytest.raises(MethodError, match="1 of class 'alone', whose sum would tell its features"):
        part_of(told, samples)
    sent = part_of(assignment(ESTIMATED), samples)
    assert COORDINATOR.check(assignment(ESTIMATED), sent).samples_per_class["alone"] == 1
    kept = assignment({**SMALL, "hold_back": True})
    with pytest.raises(MethodError, match="hold them back until there are 2"):
        part_of(kept, samples)
    with pytest.raises(MethodError, match="give at least 2 of each"):
        COORDINATOR.check(kept, part_of(assignment(), samples))


def test_a_device_may_choose_among_the_forms_that_are_allowed():
    told = assignment(MIXED)
    samples = make_samples(told, 40)
    forms = {
        form: COORDINATOR.check(told, part_of(told, samples, form)).form
        for form in told.settings.allowed_forms
    }
    assert forms == {"compact": "compact", "exact": "exact", "estimated": "estimated"}
    assert COORDINATOR.check(told, part_of(told, samples)).form == "estimated"
    with pytest.raises(
        MethodError, match="form: 'exact' is not allowed in this fleet; choose compact"
    ):
        part_of(assignment(), samples, "exact")


def test_forms_side_by_side_are_the_sum_of_the_exact_and_the_estimate():
    told = assignment(MIXED)
    samples = [make_samples(told, 60, seed=seed) for seed in range(4)]
    exact = part_of(told, samples[0], "exact")
    estimated = [part_of(told, part, seed=b"%d" % i) for i, part in enumerate(samples[1:3])]
    compact = part_of(told, samples[3], "compact")
    total = total_of(told, [aggregate_of(told, p) for p in (exact, *estimated, compact)])
    H = samples[0].features.astype(np.float64)
    R = aggregate_of(told, compact).gram
    expected = H.T @ H + symmetric(R.to_float(), told.columns)
    expected += estimate_by_hand(told, estimated, EstimatorRule())
    made = total.gram_matrix(told.settings)
    assert np.abs(made - expected).max() < 1e-12 * np.abs(expected).max()
    everything = np.concatenate([part.features for part in samples])
    for name in NAMES:
        members = np.array([label == name for part in samples for label in part.labels])
        sums = total.classes[name].correlation.to_float()
        assert np.array_equal(sums, everything[members].sum(axis=0, dtype=np.float64))
        assert total.samples[name] == members.sum()


def test_stages_are_estimated_each_for_itself():
    told = assignment(ESTIMATED)
    parts = [part_of(told, make_samples(told, 40, seed=seed)) for seed in range(2)]
    apart = summed(told, parts[:1], 1) + summed(told, parts[1:], 2)
    by_hand = sum(estimate_by_hand(told, [part], EstimatorRule()) for part in parts)
    assert np.allclose(apart.gram_matrix(told.settings), by_hand, rtol=1e-12)
    together = summed(told, parts, 1)
    assert not np.allclose(together.gram_matrix(told.settings), by_hand, rtol=1e-3)
    assert apart.digest != together.digest


def test_counting_all_clients_counts_the_groups_of_the_stage():
    told = assignment({**ESTIMATED, "count_all_clients": True})
    parts = []
    for seed in range(3):
        samples = make_samples(told, 40, seed=seed)
        samples.labels[:] = [
            f"class {seed}" if label == "class 0" else label for label in samples.labels
        ]
        parts.append(part_of(told, samples, seed=b"device-%d" % seed))
    expected = estimate_by_hand(told, parts, EstimatorRule(all_groups=12))
    assert np.allclose(summed(told, parts).gram_matrix(told.settings), expected, rtol=1e-12)


PARTS_TOLD = assignment(MIXED)
PARTS = [
    aggregate_of(
        PARTS_TOLD,
        part_of(PARTS_TOLD, make_samples(PARTS_TOLD, 30, seed=seed), form),
        stage=1 + seed % 2,
    )
    for seed, form in enumerate(["estimated", "exact", "estimated", "compact", "estimated"])
]


@settings(max_examples=25)
@given(st.permutations(range(5)), st.sets(st.integers(0, 4)))
def test_neither_order_nor_parts_taken_out_again_show_in_digest_or_head(order, extra):
    once = total_of(PARTS_TOLD, PARTS)
    total = total_of(PARTS_TOLD, [PARTS[i] for i in order] + [PARTS[i] for i in extra])
    for index in extra:
        total = total - PARTS[index]
    assert total.digest == once.digest
    heads = [COORDINATOR.solve(PARTS_TOLD, found, NAMES) for found in (total, once)]
    assert exactly(heads[0]) == exactly(heads[1])


def test_two_devices_with_equal_data_count_twice():
    told = assignment(ESTIMATED)
    part = aggregate_of(told, part_of(told, make_samples(told, 40)))
    twice = part + part
    assert twice.digest != part.digest
    assert (twice - part).digest == part.digest
    assert (part - part).digest == StsaAggregate.empty(told).digest


def test_rows_that_were_not_added_cannot_be_taken_out():
    told = assignment(ESTIMATED)
    samples = make_samples(told, 40)
    part, other = part_of(told, samples), part_of(told, samples, seed=b"b")
    with pytest.raises(MethodError, match="groups of stage 1: what is taken out was not added"):
        aggregate_of(told, part) - aggregate_of(told, other)
    with pytest.raises(MethodError, match="was not added"):
        aggregate_of(told, part, 1) - aggregate_of(told, part, 2)


def test_another_row_or_count_or_class_gives_another_digest():
    told = assignment(ESTIMATED)
    samples = make_samples(told, 40)
    digests = {summed(told, [part_of(told, samples)]).digest}
    features, labels = samples.features.copy(), list(samples.labels)
    features[0, 0] = (features[0, 0] + 1) % 128
    digests.add(summed(told, [part_of(told, Samples(features, samples.labels))]).digest)
    labels[0] = "class 9"
    digests.add(summed(told, [part_of(told, Samples(samples.features, labels))]).digest)
    assert len(digests) == 3


def test_the_digest_is_the_same_on_every_machine():
    told = assignment({**ESTIMATED, "map": "none", "groups": 2}, width=3)
    features = np.array([[127, -5, 0], [3, 127, 9], [-127, 1, 1], [0, 5, 5]], np.float32)
    payload = part_of(told, Samples(features, ["b", "a", "b", "b"]))
    assert summed(told, [payload]).digest == (
        "66056fa18d440a17c28159af694cf49f8ad58916a0dcd3c1d578256860518572"
    )


def test_classes_that_get_one_name_are_estimated_as_one():
    told = assignment(ESTIMATED)
    part = aggregate_of(told, part_of(told, make_samples(told, 60)))
    merged = part.renamed({ClassName("class 1"): ClassName("class 0")})
    assert set(merged.samples) == {"class 0", "class 2"}
    assert "class 1" not in merged.groups.described()["rows"]["1"]
    assert merged.groups.described()["rows"]["1"] == {"class 0": 8, "class 2": 4}
    cat = part.renamed({ClassName("class 1"): ClassName("cat")})
    assert np.allclose(cat.gram_matrix(told.settings), part.gram_matrix(told.settings), rtol=1e-12)
    assert cat.renamed({ClassName("cat"): ClassName("class 1")}).digest == (part.digest)


def test_a_lone_holder_is_named_in_the_head_s_remarks():
    told = assignment({**ESTIMATED, "groups": 1})
    parts = [part_of(told, make_samples(told, 40, seed=seed)) for seed in range(2)]
    lone = make_samples(told, 6)
    parts.append(part_of(told, Samples(lone.features, ["rare"] * 6)))
    head = COORDINATOR.solve(told, summed(told, parts, 3), (*NAMES, ClassName("rare")))
    assert head.remarks == ("class 'rare' of stage 3 has one group: its covariance is not its own",)
    assert COORDINATOR.solve(told, summed(told, parts[:2]), NAMES).remarks == ()


def test_the_head_comes_near_to_the_exact_one_with_more_groups():
    samples = make_samples(assignment(), 900)
    errors = []
    for groups in (5, 20, 50):
        told = assignment({**ESTIMATED, "groups": groups, "forms": ("exact",)})
        pieces = np.array_split(np.arange(900), 3)
        heads = [
            COORDINATOR.solve(
                told,
                total_of(
                    told, [aggregate_of(told, part_of(told, samples[p], form)) for p in pieces]
                ),
                NAMES,
            ).weights
            for form in ("estimated", "exact")
        ]
        errors.append(np.linalg.norm(heads[0] - heads[1]) / np.linalg.norm(heads[1]))
    assert errors[0] > 2 * errors[1]
    assert errors[1] > 1.5 * errors[2]
    assert errors[2] < 0.2


def test_gaussian_features_are_estimated_to_rounding():
    told = assignment({**GAUSSIAN, "form": "estimated", "groups": 3})
    samples = make_samples(told, 60)
    payload = payload_of(told, samples)
    made = summed(told, [payload]).gram_matrix(told.settings)
    assert np.allclose(made, estimate_by_hand(told, [payload], EstimatorRule()), rtol=1e-9)


def test_one_group_takes_less_than_half_of_the_published_size():
    told = COORDINATOR.assign({"form": "estimated", "groups": 1}, 64)
    samples = make_samples(told, 130, classes=10)
    assert len(part_of(told, samples)) < 10 * 1250 * 4 / 2


def test_of_many_lone_holders_some_are_named_and_the_others_counted():
    told = assignment({**ESTIMATED, "groups": 1})
    samples = make_samples(told, 30, classes=15)
    names = tuple(sorted(ClassName(name) for name in set(samples.labels)))
    head = COORDINATOR.solve(told, summed(told, [part_of(told, samples)]), names)
    assert len(head.remarks) == 11
    assert head.remarks[-1] == f"and {len(names) - 10} more"
