"""The law of false alarms over simulated quiet images, and what a change does to the evidence."""

import json
from bisect import bisect_left, bisect_right
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.detection.sequences import reports_at
from learning.numerics import sequential_detection
from learning.numerics.detection import (
    DetectionRules,
    Detector,
    ScoringHead,
    observe,
    seeded,
)
from learning.numerics.sequential_detection import (
    BET,
    BINS,
    RAISED_IMAGES,
    ChangeEvidence,
    chance_of,
    counts_of,
    gathered,
    is_stranger,
    levels_of,
    p_value,
    pays,
    shuffled,
    with_reference,
)

QUIET = 200
RULES = DetectionRules(quiet_images=QUIET)
HEAD = ScoringHead(("cat", "dog"), 10.0, "first")


def drawn(level: float, count: int, seed: int) -> list[float]:
    """Values of images: some certain, some not."""
    return [float(v) for v in np.random.default_rng(seed).beta(level * 2, 2 - level * 2, count)]


def slow_p(earlier: list[int], level: int, chance: float) -> float:
    """Return the conformal p-value from a sorted list."""
    levels = sorted([*earlier, level])
    stranger = len(levels) - bisect_right(levels, level)
    alike = bisect_right(levels, level) - bisect_left(levels, level)
    return (stranger + chance * alike) / len(levels)


def test_a_p_value_is_the_share_of_images_that_are_as_strange() -> None:
    values = drawn(0.3, 60, 1)
    levels = levels_of(values).tolist()
    counts = np.bincount(levels[:-1], minlength=BINS)
    for chance in (0.0, 0.25, 1.0):
        assert p_value(counts, levels[-1], chance) == pytest.approx(
            slow_p(levels[:-1], levels[-1], chance)
        )


def test_evidence_is_that_of_the_recursion_over_the_sorted_list() -> None:
    values = drawn(0.3, 40, 2) + drawn(0.7, 6, 3)
    levels, evidence, expected = levels_of(values).tolist(), ChangeEvidence(), 0.0
    for number, value in enumerate(values):
        evidence, alarms = gathered(evidence, [value], 1e9)
        p = slow_p(levels[:number], levels[number], chance_of(number))
        expected = (expected + 1) * (1 + BET * (1 - 2 * p))
        assert alarms == ()
        assert evidence.value == pytest.approx(expected)
    assert evidence.images == 46
    assert sum(evidence.levels) == 46


def test_a_bet_pays_one_on_average() -> None:
    assert np.mean([pays(p) for p in np.linspace(0, 1, 1001)]) == pytest.approx(1)


def test_chance_is_uniform_and_repeats() -> None:
    chances = [chance_of(number) for number in range(4000)]
    assert chances[:5] == [chance_of(number) for number in range(5)]
    assert np.histogram(chances, 10, (0, 1))[0].min() > 320
    assert abs(np.corrcoef(chances[1:], chances[:-1])[0, 1]) < 0.05
    assert sorted(shuffled(50, 7)) == list(range(50))
    assert shuffled(50, 7) != shuffled(50, 8)


@pytest.mark.parametrize("reference", [0, 60])
@pytest.mark.parametrize("law", ["continuous", "few levels"])
def test_quiet_images_give_at_most_one_alarm_in_so_many_images(reference: int, law: str) -> None:
    """Also without a reference, and where most images look the same."""
    draw = np.random.default_rng(5)
    found, images = 0, 0
    for _ in range(30):
        values = draw.beta(0.4, 1.0, 400 + reference)
        values = np.round(values) if law == "few levels" else values
        evidence = ChangeEvidence()
        if reference:
            evidence = with_reference(evidence, values[:reference].tolist())
        evidence, alarms = gathered(evidence, values[reference:].tolist(), QUIET)
        found, images = found + len(alarms), images + 400
    # 60 alarms are the bound, and the standard deviation of such a number is below 8.
    assert 5 < found <= images / QUIET + 16


def test_the_study_of_delays_computes_what_a_device_does() -> None:
    values = np.array(drawn(0.3, 150, 1) + drawn(0.8, 60, 2))
    evidence = with_reference(ChangeEvidence(), values[:50].tolist())
    expected = []
    for number, value in enumerate(values[50:].tolist()):
        evidence, alarms = gathered(evidence, [value], 60)
        expected += [number + 1] * len(alarms)
    assert expected
    assert reports_at([60, 10**9], values[:50], values[50:]) == [expected, []]


def test_half_new_images_are_noticed_and_told_with_the_images_of_the_change() -> None:
    delays = []
    for seed in range(20):
        evidence = with_reference(ChangeEvidence(), drawn(0.2, 300, seed))
        mixed = np.random.default_rng(seed).permutation(
            drawn(0.2, 100, 100 + seed) + drawn(0.7, 100, 200 + seed)
        )
        for number, value in enumerate(mixed):
            evidence, alarms = gathered(evidence, [float(value)], 1000)
            if alarms:
                delays.append(number + 1)
                assert 0 < alarms[0].run.images <= number + 1
                assert (alarms[0].run.mean or 0) > (alarms[0].before.mean or 1) + 0.1
                break
    assert len(delays) == 20
    assert np.median(delays) < 80


def test_less_doubt_than_before_is_no_change() -> None:
    evidence = with_reference(ChangeEvidence(), drawn(0.6, 200, 1))
    evidence, alarms = gathered(evidence, drawn(0.1, 300, 2), 100)
    assert alarms == ()
    assert evidence.run.images < 20


def test_after_an_alarm_evidence_begins_anew_and_the_level_counts_as_raised() -> None:
    evidence = with_reference(ChangeEvidence(), [0.1, 0.2] * 100)
    evidence, (alarm,) = gathered(evidence, [0.9] * 20, 1000)
    assert alarm.run.images >= 10
    assert alarm.before.images + alarm.run.images <= 220
    assert evidence.value < 1000
    assert evidence.images == 220, "nothing is forgotten"
    raised = evidence.raised_for
    assert RAISED_IMAGES - 20 < raised <= RAISED_IMAGES
    quiet, _ = gathered(evidence, [0.1, 0.2] * (RAISED_IMAGES // 2), 1e9)
    assert quiet.raised_for == 0


def test_what_is_remembered_does_not_grow() -> None:
    few, _ = gathered(ChangeEvidence(), drawn(0.3, 10, 1), 1000)
    many, _ = gathered(few, drawn(0.3, 3000, 2), 1000)
    sizes = [len(json.dumps(one.to_plain())) for one in (few, many)]
    assert sizes[1] < 2 * sizes[0]


def test_evidence_survives_json_and_what_is_no_evidence_is_refused() -> None:
    evidence = with_reference(ChangeEvidence(), drawn(0.3, 30, 1))
    evidence, _ = gathered(evidence, drawn(0.6, 20, 2), 1000)
    plain = json.loads(json.dumps(evidence.to_plain()))
    assert ChangeEvidence.from_plain(plain) == evidence
    with pytest.raises(ValueError, match="levels: 3 of them; there are 256"):
        ChangeEvidence.from_plain({**plain, "levels": [1, 2, 3]})
    with pytest.raises(KeyError):
        ChangeEvidence.from_plain({})


def test_a_detector_gathers_in_pieces_what_a_restart_leaves() -> None:
    detector = seeded(Detector(), drawn(0.2, 100, 1), HEAD, RULES)
    detector, (stands,) = observe(detector, drawn(0.2, 30, 2), HEAD, RULES)
    assert not stands.transition
    again = Detector.from_plain(json.loads(json.dumps(detector.to_plain())))
    assert again == detector
    further = observe(again, drawn(0.9, 30, 3), HEAD, RULES)
    assert further == observe(detector, drawn(0.9, 30, 3), HEAD, RULES)
    assert [one.transition for one in further[1]][:1] == [True]


def test_another_model_begins_anew_and_held_out_images_count_once() -> None:
    detector = seeded(Detector(), drawn(0.2, 100, 1), HEAD, RULES)
    assert seeded(detector, drawn(0.2, 100, 1), HEAD, RULES) == detector
    assert detector.ready(RULES)
    assert not detector.ready(replace(RULES, min_images=101))
    other = HEAD._replace(model="second")
    after, (measured,) = observe(detector, [0.9] * 15, other, RULES)
    assert not measured.transition, "what the other model doubted says nothing here"
    assert after.evidence.images == 15
    assert seeded(detector, [], other, RULES).evidence == ChangeEvidence()


def test_images_of_a_folder_that_come_at_once_do_not_count_in_the_order_of_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hard class comes last in a quiet batch: in that order alone it would look like a change."""
    found = {}
    for shuffles in (True, False):
        if not shuffles:
            monkeypatch.setattr(
                sequential_detection, "shuffled", lambda images, _number: list(range(images))
            )
        alarms = 0
        for seed in range(20):
            evidence = with_reference(ChangeEvidence(), drawn(0.2, 80, seed) + [0.8] * 20)
            batch = drawn(0.2, 80, 50 + seed) + [0.8] * 20
            alarms += len(gathered(evidence, batch, QUIET)[1])
        found[shuffles] = alarms
    assert found[True] < 8
    assert found[False] > 15


def test_a_look_in_which_nothing_changed_is_rarely_stranger_than_the_one_before() -> None:
    """At most one in 20 of them, whatever the values; 400 looks, standard deviation below 5."""
    draw = np.random.default_rng(8)
    for either in (False, True):
        found = 0
        for _ in range(400):
            values = draw.beta(0.5, 1.5, 80).tolist()
            found += is_stranger(counts_of(values[:40]), values[40:], 20, either=either)
        assert found <= 20 + 10
    assert is_stranger(counts_of([0.1] * 40), [0.5] * 40, 20)
    assert not is_stranger(counts_of([0.5] * 40), [0.1] * 40, 20)
    assert is_stranger(counts_of([0.5] * 40), [0.1] * 40, 20, either=True)
    assert not is_stranger((), [0.5] * 40, 20)
