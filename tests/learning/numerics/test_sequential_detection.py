"""The law of false alarms over simulated quiet images, and what a change does to the evidence."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.papers.detection.sequences import reports_at
from fleetledger.learning.numerics import detection
from fleetledger.learning.numerics.conformal import chance_of, first_number, levels_of
from fleetledger.learning.numerics.detection import (
    DetectionRules,
    Detector,
    ScoringHead,
    observe,
    seeded,
)
from fleetledger.learning.numerics.sequential_detection import (
    BET,
    LEAST_BLOCK,
    RAISED_IMAGES,
    SHOTS_AN_ALARM,
    ChangeEvidence,
    Neighbours,
    gathered,
    with_reference,
)
from fleetledger.learning.numerics.shots import BITS
from tests.learning.numerics.test_conformal import slow_p

QUIET = 200
RULES = DetectionRules(quiet_images=QUIET)
HEAD = ScoringHead(("cat", "dog"), 10.0, "first")


def drawn(level: float, count: int, seed: int) -> list[float]:
    """Values of images: some certain, some not."""
    return [float(v) for v in np.random.default_rng(seed).beta(level * 2, 2 - level * 2, count)]


def test_evidence_is_that_of_blocks_over_the_sorted_list() -> None:
    """Blocks of four bet by the mean of their bets, against what came before the block."""
    values = drawn(0.3, 28, 2) + drawn(0.7, 8, 3)
    levels, evidence = levels_of(values).tolist(), ChangeEvidence()
    expected, earlier, bets = 0.0, [], []
    for number, value in enumerate(values):
        evidence, alarms = gathered(evidence, [value], 1e9)
        bets.append(1 + BET * (1 - 2 * slow_p(earlier, levels[number], chance_of(number))))
        if len(bets) == 4:
            expected = expected * sum(bets) / 4 + 4
            earlier, bets = levels[: number + 1], []
        assert alarms == ()
        assert evidence.value == pytest.approx(expected)
    assert evidence.images == 36
    assert sum(evidence.levels) == 36


def test_images_of_one_shot_count_once_and_pass_as_many() -> None:
    begins = [True, False, False] * 8
    once, _ = gathered(ChangeEvidence(), [0.1] * 8, 1e9)
    thrice, _ = gathered(ChangeEvidence(), [0.1, 0.9, 0.9] * 8, 1e9, begins)
    assert thrice.levels == once.levels
    assert (once.passed, thrice.passed) == (0, 2)
    # The first image begins a shot after itself alone, and each later one after three.
    assert once.block.passed == 0
    assert thrice.compared == once.compared == 8


def test_a_shot_stands_for_no_more_than_its_share_of_the_quiet_images() -> None:
    """Alarms are SHOTS_AN_ALARM shots apart on average, though each stands for 1,000 images."""
    begins = ([False] * 999 + [True]) * 4
    evidence, _ = gathered(ChangeEvidence(), [0.5] * 4000, 1000, begins)
    assert evidence.value == 4 * 1000 / SHOTS_AN_ALARM


def slow_correlation(means: list[float]) -> float:
    """Return the sum of products of neighbours by that of their mean squares, without fading."""
    pairs = list(pairwise(means))
    return sum(a * b for a, b in pairs) / sum((a * a + b * b) / 2 for a, b in pairs)


def test_blocks_grow_until_neighbours_hardly_correlate() -> None:
    draw, alike, alone = np.random.default_rng(4), Neighbours(), Neighbours()
    levels = np.repeat(draw.uniform(-0.5, 0.5, 120), 12)
    for level in levels.tolist():
        alike = alike.plus(level)
        alone = alone.plus(float(draw.uniform(-0.5, 0.5)))
    assert alone.block_size == LEAST_BLOCK
    assert alike.block_size in (16, 32)
    for size in (0, 3):
        means = levels.reshape(-1, 1 << size).mean(axis=1).tolist()
        found = alike.products[size] / alike.squares[size]
        assert found == pytest.approx(slow_correlation(means), abs=0.05)
        assert alike.pairs[size] == pytest.approx(
            sum(0.999 ** ((1 << size) * n) for n in range(len(means) - 1))
        )
    assert Neighbours().block_size == LEAST_BLOCK


def test_a_block_that_has_begun_keeps_its_size() -> None:
    stream = np.repeat(np.random.default_rng(9).uniform(0, 1, 60), 12).tolist()
    evidence, sizes = ChangeEvidence(), set()
    for value in stream:
        size, begun = evidence.block.size, evidence.block.levels
        evidence, _ = gathered(evidence, [value], 1e9)
        assert not evidence.block.levels or not begun or evidence.block.size == size
        sizes.add(evidence.block.size)
    assert sizes >= {4, 8, 16}


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


def test_an_alarm_says_after_which_image_it_came() -> None:
    values = np.array(drawn(0.3, 150, 1) + drawn(0.8, 60, 2))
    evidence = with_reference(ChangeEvidence(), values[:50].tolist())
    expected = []
    for number, value in enumerate(values[50:].tolist()):
        evidence, alarms = gathered(evidence, [value], 60)
        assert all(alarm.after == 1 for alarm in alarms)
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
    evidence, (alarm,) = gathered(evidence, [0.9] * 40, 1000)
    assert alarm.run.images >= 20
    assert alarm.before.images + alarm.run.images <= 240
    assert alarm.after == alarm.run.images
    assert evidence.value < 1000
    assert evidence.images == 240, "nothing is forgotten"
    raised = evidence.raised_for
    assert raised == RAISED_IMAGES - (40 - alarm.after)
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
    after, (measured,) = observe(detector, [0.9] * 16, other, RULES)
    assert not measured.transition, "what the other model doubted says nothing here"
    assert after.evidence.images == 16
    own = first_number(f"{RULES.device}/second")
    assert seeded(detector, [], other, RULES).evidence == ChangeEvidence(compared=own)


def test_a_model_of_the_same_backbone_keeps_what_the_camera_has_shown() -> None:
    """Evidence, counts and correlations begin anew, and the shots do not."""
    few = np.random.default_rng(1).normal(size=(20, BITS)).astype(np.float32)
    things = np.concatenate([few] * 3)
    head = HEAD._replace(backbone="frozen")
    detector, _ = observe(Detector(), drawn(0.2, 60, 1), head, RULES, things)
    assert detector.evidence.neighbours.shots == 20
    same, _ = observe(detector, drawn(0.2, 20, 1), head._replace(model="b"), RULES, few)
    assert same.evidence.neighbours.shots == 0, "these were seen under the model before"
    assert same.evidence.passed == 20
    other = head._replace(model="c", backbone="other")
    fresh, _ = observe(detector, drawn(0.2, 60, 1), other, RULES, things)
    assert fresh.shots.backbone == "other"
    assert fresh.evidence.neighbours.shots == 20


def test_held_out_images_give_the_centre_of_the_camera() -> None:
    things = np.random.default_rng(2).normal(size=(40, BITS)).astype(np.float32)
    detector = seeded(Detector(), [0.3] * 20, HEAD, RULES, things[:20])
    assert np.allclose(detector.shots.centre, things[:20].mean(axis=0), atol=1e-5)
    detector, _ = observe(detector, [0.3] * 20, HEAD, RULES, things[20:])
    assert detector.evidence.neighbours.shots == 20


def test_images_of_a_folder_that_come_at_once_do_not_count_in_the_order_of_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hard class comes last in a quiet batch: in that order alone it would look like a change."""
    found = {}
    for shuffles in (True, False):
        if not shuffles:
            monkeypatch.setattr(detection, "shuffled", lambda images, _number: list(range(images)))
        alarms = 0
        for seed in range(20):
            detector = seeded(Detector(), drawn(0.2, 80, seed) + [0.8] * 40, HEAD, RULES)
            batch = drawn(0.2, 80, 50 + seed) + [0.8] * 40
            alarms += sum(one.transition for one in observe(detector, batch, HEAD, RULES)[1])
        found[shuffles] = alarms
    assert found[True] < 8
    assert found[False] > 15


def test_devices_of_a_fleet_whose_images_are_all_equal_do_not_alarm_together() -> None:
    """40 devices whose model is equally sure of every image: ties decide everything.

    With one sequence for all of them 40 of 40 have their first alarm at the same image.
    """
    first = []
    for device in range(40):
        rules = DetectionRules(quiet_images=100, device=f"camera-{device}")
        detector = seeded(Detector(), [0.2] * 100, HEAD, rules)
        for image in range(600):
            detector, found = observe(detector, [0.2], HEAD, rules)
            if found[0].transition:
                first.append(image)
                break
    assert len(first) > 30
    assert max(np.histogram(first, 15, (0, 600))[0]) <= 16
    assert len(set(first)) > 20
