"""The setting `privacy`: clipped answers, noise on their mean, and what a device says beside."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from fleetledger.learning.numerics.clipping import ClippedGrid
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.rounds.assignment import RoundsAssignment
from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.rounds.messages import frame_of
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.exchange import BufferStep
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.methods.training.robust import Robust
from fleetledger.schemas.tensors import encode_tensors
from tests.methods.making import given
from tests.methods.rounds.making import CAT, DOG, asked, assignment, moved, sent

SEED = bytes(range(32))
CLIP = 0.25


def private(**privacy: Any) -> RoundsAssignment:
    return assignment(privacy={"clip": CLIP} | privacy)


def encoded(of: RoundsAssignment, seed: int, far: float = 1.0, noise: bytes = b"") -> bytes:
    question = asked(of)
    frame = frame_of(of, sent(of, question), question.phase)
    return frame.encode(moved(of, question, seed, far=far), noise)


def frame_for(of: RoundsAssignment) -> UpdateFrame:
    question = asked(of)
    return frame_of(of, sent(of, question), question.phase)


def grid_of(of: RoundsAssignment) -> ClippedGrid:
    grid = frame_for(of).grid
    assert isinstance(grid, ClippedGrid)
    return grid


def test_answers_are_counted_alike_whatever_they_weigh() -> None:
    of = private()
    assert of.settings.averaging == "plain"
    assert not of.is_weighted
    with pytest.raises(MethodError, match=r"averaging: 'samples'.*give 'plain'"):
        assignment(privacy={"clip": 1.0}, averaging="samples")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"privacy": {"clip": 0}}, "clip"),
        ({"privacy": {"clip": 1.0, "noise": -1}}, "noise"),
        ({"privacy": {"clip": 1.0, "where": "cohort"}}, "least"),
        ({"privacy": {"clip": 1.0, "epsilon": 1.0}}, "noise: 0 hides nothing"),
        (
            {"privacy": {"clip": 1.0, "noise": 1.0, "epsilon": 1.0}},
            r"one answer spends epsilon 4\.\d+, more than 1; give 4\.\d+ or more",
        ),
        ({"privacy": {"clip": 1.0}, "upload": "int16"}, "upload"),
        ({"privacy": {"clip": 1.0}, "preset": "fed-ewc"}, "ewc"),
    ],
)
def test_settings_that_break_the_guarantee_are_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(MethodError, match=named):
        assignment(**changes)


def test_the_mean_is_that_of_clipped_updates() -> None:
    of = private()
    question = asked(of)
    first = sent(of, question)
    models = [moved(of, question, seed, far=1.0) for seed in range(3)]
    made = COORDINATOR.combine(
        of, question, [given(encoded(of, seed), count) for seed, count in enumerate((3, 90, 1))]
    )
    mean, names = decode_weights(made.weights, of.network)
    assert names == (CAT, DOG)
    lengths = [
        float(np.sqrt(sum(np.sum((m[name] - first[name]) ** 2.0) for name in first)))
        for m in models
    ]
    assert min(lengths) > CLIP
    for name, before in first.items():
        clipped = [
            CLIP / length * (one[name] - before)
            for one, length in zip(models, lengths, strict=True)
        ]
        expected = before + np.mean(clipped, axis=0)
        if "running_var" in name:
            expected = np.maximum(expected, 0)
        assert np.abs(mean[name] - expected).max() < 1e-4 * CLIP + 2**-22


def test_a_device_that_does_not_clip_is_refused() -> None:
    of = private()
    grid, question = grid_of(of), asked(of)
    COORDINATOR.check(of, encoded(of, 1, far=1e4), question)
    longer = np.zeros(grid.size, np.int32)
    longer[:2] = grid.bound, 1
    tensors = {
        name: longer[place].reshape(grid.shapes[name]) for name, place in grid.places.items()
    }
    with pytest.raises(ContributionError, match=r"answer: update: its L2 norm is 0\.25"):
        COORDINATOR.check(of, encode_tensors(tensors), question)
    total = COORDINATOR.summing(of, question, 2)
    with pytest.raises(ContributionError, match="L2 norm"):
        total.add(encode_tensors(tensors), 1)


def test_noise_of_one_seed_gives_one_mean_in_any_order_and_form() -> None:
    of = private(noise=2.0)
    question = replace(asked(of), noise_seed=SEED)
    answers = [given(encoded(of, seed)) for seed in range(3)]
    made = [COORDINATOR.combine(of, question, list(some)) for some in permutations(answers)]
    total = COORDINATOR.summing(of, question, 3)
    for one in answers:
        total.add(one.read(), 1)
    made.append(COORDINATOR.combine(of, question, total))
    assert len({item.weights for item in made}) == 1
    other = COORDINATOR.combine(of, replace(question, noise_seed=SEED[::-1]), answers)
    assert other.weights != made[0].weights
    exact = COORDINATOR.combine(private(), asked(of), answers)
    assert {item.aggregate for item in (*made, other)} == {exact.aggregate}
    assert made[0].client_drift == exact.client_drift


def test_the_coordinators_noise_is_gaussian_of_the_multiplier() -> None:
    of = private(noise=3.0)
    answers = [given(encoded(of, seed)) for seed in range(4)]
    exact, _ = decode_weights(
        COORDINATOR.combine(private(), asked(of), answers).weights, of.network
    )
    apart = []
    for seed in range(30):
        question = replace(asked(of), noise_seed=bytes([seed] * 32))
        noisy, _ = decode_weights(COORDINATOR.combine(of, question, answers).weights, of.network)
        apart += [
            (noisy[name] - exact[name]).reshape(-1) for name in exact if "running" not in name
        ]
    noise = np.concatenate(apart).astype(np.float64)
    assert noise.std() == pytest.approx(3.0 * CLIP / 4, rel=0.05)


def test_no_mean_is_made_without_a_seed() -> None:
    of = private(noise=2.0)
    with pytest.raises(MethodError, match="noise_seed: the coordinator"):
        COORDINATOR.combine(of, asked(of), [given(encoded(of, 1))])


def test_asynchronous_rounds_are_refused() -> None:
    of = private(noise=2.0)
    with pytest.raises(MethodError, match="asynchronous"):
        COORDINATOR.combine_stale(of, asked(of), BufferStep(1.0, False), [])


@pytest.mark.parametrize("mean", ["mean", "median"])
@pytest.mark.parametrize("where", [{"where": "coordinator"}, {"where": "cohort", "least": 4}])
def test_single_answers_that_noise_hides_in_their_sum_are_not_looked_at(
    mean: Any, where: dict[str, Any]
) -> None:
    question = replace(asked(private()), robust=Robust(mean=mean))
    with pytest.raises(MethodError, match=r"rounds\.robust: .*noise of privacy hides a device"):
        COORDINATOR.summing(private(noise=2.0, **where), question, 3)
    COORDINATOR.summing(private(noise=2.0, where="local"), question, 3)


@pytest.mark.parametrize(
    ("privacy", "deviation"),
    [({"where": "local"}, 2.0), ({"where": "cohort", "least": 16}, 0.5)],
)
def test_a_device_adds_all_of_the_noise_or_its_share(
    privacy: dict[str, Any], deviation: float
) -> None:
    of = private(noise=2.0, **privacy)
    grid, frame = grid_of(of), frame_for(of)
    clean = frame_for(private()).values(encoded(private(), 1))
    noise = [
        frame.values(encoded(of, 1, noise=bytes([seed] * 32))) - clean.astype(np.int64)
        for seed in range(30)
    ]
    assert np.concatenate(noise).std() == pytest.approx(deviation * grid.bound, rel=0.05)
    assert not of.adds_noise
    answers = [given(encoded(of, 1, noise=SEED))] * 2
    COORDINATOR.combine(of, asked(of), answers)  # needs no seed
    with pytest.raises(Exception, match="noise_seed: a device"):
        encoded(of, 1)


@pytest.mark.torch
def test_who_adds_noise_itself_says_nothing_of_its_images_beside() -> None:
    from fleetledger.learning.training.loop import train_alone
    from fleetledger.learning.training.settings import TrainingEngineSettings
    from fleetledger.methods.rounds.device import DEVICE
    from tests.methods.rounds.making import images
    from tests.methods.rounds.training import begun, order

    def trained(of: RoundsAssignment) -> Any:
        instruction = replace(order(of), noise_seed=SEED)
        work = begun(of, instruction, images(24, CAT, DOG))
        return DEVICE.finish(of, work, train_alone(work.work, TrainingEngineSettings()))

    open_, own = trained(private(noise=1.0)), trained(private(noise=1.0, where="local"))
    assert open_.samples == {CAT: 12, DOG: 12}
    assert open_.loss is not None
    assert (own.samples, own.steps, own.loss) == ({CAT: 1}, 1, None)
    for of, made in ((private(noise=1.0), open_), (private(noise=1.0, where="local"), own)):
        COORDINATOR.check(of, made.payload, asked(of))
    assert own.payload != open_.payload
