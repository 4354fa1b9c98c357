"""Methods of one's own that begin with `Rounds`: their steps, on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save

import fleetledger as fl
from fleetledger.learning.losses.composition import Step
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.training.local_epoch import LocalEpoch
from fleetledger.learning.training.stacking import alone_because
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.registry import (
    METHODS,
    descriptor,
    training_coordinator,
    training_device,
)
from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.rounds.device import DEVICE
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.runtime.registry import RegistryError
from tests.methods.local_rounds import LocalRounds
from tests.methods.making import given
from tests.methods.rounds.making import CAT, DOG, EXCHANGE, OWL, SHAPE, images
from tests.methods.rounds.training import PICTURES, order
from tests.outside import nothing_stays

pytestmark = pytest.mark.torch
SMALL = {"network": "mlp", "rate": 0.1, "batch": 8}


@pytest.fixture(autouse=True)
def _nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for method in (Unchanged, Decorrelated, Farthest, ServerMomentum):
        monkeypatch.setattr(method, "name", "")
    with nothing_stays(METHODS):
        yield


def sides(method: type[fl.methods.Rounds], **settings: Any) -> tuple[LocalRounds, Any, Any]:
    """Return a device, the coordinator side and an assignment of a method that is registered."""
    name = method.__name__.lower()
    fl.method(name)(method)
    coordinator = training_coordinator(name)
    assignment: Any = coordinator.assign(SMALL | settings, SHAPE)
    return LocalRounds(training_device(name), PICTURES), coordinator, assignment


def plain(**settings: Any) -> tuple[LocalRounds, Any]:
    return LocalRounds(DEVICE, PICTURES), COORDINATOR.assign(SMALL | settings, SHAPE)


class Unchanged(fl.methods.Rounds):
    """Federated averaging under another name."""


class Decorrelated(fl.methods.Rounds):
    """Features that do not vary together."""

    citation = "nobody, 2026"

    class Settings(fl.methods.Rounds.Settings):
        """With a factor."""

        decorrelation: float = 0.01

    def loss(self, step: Step) -> torch.Tensor:
        features = step.features - step.features.mean(-2, keepdim=True)
        together = features.transpose(-1, -2) @ features / features.shape[-2]
        apart = together - torch.diag_embed(torch.diagonal(together, dim1=-2, dim2=-1))
        return super().loss(step) + self.settings.decorrelation * (apart**2).mean((-1, -2))


class Farthest(fl.methods.Rounds):
    """Keeps the samples that are farthest from their class's mean."""

    def exemplars(self, features: Any, count: int) -> Any:
        distance = np.linalg.norm(features - features.mean(0), axis=1)
        return np.argsort(-distance)[:count]


def test_what_is_not_changed_is_done_to_the_bit() -> None:
    local, _, assignment = sides(Unchanged)
    ours, of = plain()
    data = images(20, CAT, DOG)
    assert (
        local.learn(assignment, order(of), data).payload == ours.learn(of, order(of), data).payload
    )


def test_a_method_says_what_it_is() -> None:
    fl.method("decorrelated")(Decorrelated)
    told = descriptor("decorrelated")
    assert (told.name, told.title) == ("decorrelated", "Features that do not vary together")
    assert told.citation == "nobody, 2026"
    assert told.trains


def test_an_own_loss_is_trained_and_its_factor_counts() -> None:
    data, answers = images(20, CAT, DOG), []
    for factor in (0.0, 1.0):
        local, _, assignment = sides(Decorrelated, decorrelation=factor)
        answers.append(local.learn(assignment, order(assignment), data).payload)
    ours, of = plain()
    assert answers[0] == ours.learn(of, order(of), data).payload
    assert answers[1] != answers[0]


def test_an_own_loss_is_for_one_agent_unless_it_says_that_it_stacks() -> None:
    local, _, assignment = sides(Decorrelated)
    job = local.begun(assignment, order(assignment), images(20, CAT, DOG))
    assert job.work.by_hand
    assert alone_because(job.work) == (
        "this network, or the method's own loss, is not for stacks of agents"
    )
    local, _, assignment = sides(type("Stacked", (Decorrelated,), {"stacks": True}))
    job = local.begun(assignment, order(assignment), images(20, CAT, DOG))
    assert alone_because(job.work) is None


def test_equal_settings_make_equal_losses() -> None:
    local, _, assignment = sides(Decorrelated)
    asks, data = order(assignment), images(20, CAT, DOG)
    one, other = (local.begun(assignment, asks, data).work.loss for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    local, _, changed = sides(Decorrelated, decorrelation=0.5)
    assert local.begun(changed, asks, data).work.loss != one


def kept(local: LocalRounds, of: Any) -> list[str]:
    """Return the digests of the exemplars that a device trains on in its second stage."""
    data = images(30, CAT, DOG, OWL)
    first = local.learn(of, order(of), data)
    second = order(of, CAT, DOG, OWL, stage=2, task=(OWL,))
    job = local.device.begin(of, second, data, first.memory, PICTURES)
    return [one for many in job.state.memory.exemplars.values() for one in many]


def test_an_own_rule_says_which_exemplars_are_kept() -> None:
    local, _, assignment = sides(Farthest, exemplars=6)
    ours, of = plain(exemplars=6)
    assert len(kept(local, assignment)) == len(kept(ours, of)) == 6
    assert kept(local, assignment) != kept(ours, of)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([0, 0], "give at most 3 rows, each once"),
        ([0, 1, 2, 3], "give at most 3 rows, each once"),
        ([0.5], "give at most 3 rows, each once"),
        ([99], "rows are from 0 to 9"),
    ],
)
def test_exemplars_that_are_no_rows_are_refused(rows: list[float], said: str) -> None:
    class Wrong(fl.methods.Rounds):
        def exemplars(self, features: Any, count: int) -> Any:
            return rows

    local, _, assignment = sides(Wrong, exemplars=6)
    with pytest.raises(MethodError, match=f"exemplars: Wrong gives .*; {said}"):
        kept(local, assignment)


def test_a_local_epoch_that_does_the_usual_gives_the_usual_bits() -> None:
    class ByHand(fl.methods.Rounds):
        def local_epoch(self, epoch: LocalEpoch) -> None:
            for batch in epoch:
                gradients = epoch.gradients(batch)
                epoch.descend(gradients)

    local, _, assignment = sides(ByHand)
    ours, of = plain()
    data = images(20, CAT, DOG)
    mine, usual = local.learn(assignment, order(of), data), ours.learn(of, order(of), data)
    assert mine.payload == usual.payload
    assert mine.loss == usual.loss
    job = local.begun(assignment, order(assignment), data)
    assert alone_because(job.work) == (
        "this method carries out its local epochs itself, one agent at a time"
    )


def test_a_local_epoch_may_look_ahead_as_sharpness_aware_minimisation_does() -> None:
    class Sam(fl.methods.Rounds):
        """Foret et al., ICLR 2021, Algorithm 1, with rho = 0.05."""

        def local_epoch(self, epoch: LocalEpoch) -> None:
            for batch in epoch:
                uphill = epoch.gradients(batch)
                norm = torch.stack([one.norm() for one in uphill.values()]).norm()
                for name, value in epoch.parameters.items():
                    value.add_(uphill[name], alpha=float(0.05 / norm))
                there = epoch.gradients(batch)
                for name, value in epoch.parameters.items():
                    value.sub_(uphill[name], alpha=float(0.05 / norm))
                epoch.descend(there)

    local, _, assignment = sides(Sam, epochs=20)
    learned = local.learn(assignment, order(assignment), images(40, CAT, DOG))
    assert learned.loss is not None
    assert learned.loss < 0.5
    ours, of = plain(epochs=20)
    assert learned.payload != ours.learn(of, order(of), images(40, CAT, DOG)).payload


def test_an_own_check_sees_what_a_device_answers_and_began_with() -> None:
    class Bounded(fl.methods.Rounds):
        def check(self, update: Any, sent: Any) -> None:
            far = max(float(np.abs(update[name] - sent[name]).max()) for name in sent)
            if far > 0.5:
                raise ContributionError(f"answer: moved by {far:.2f}; at most 0.5 is plausible")

    _, coordinator, of = sides(Bounded)
    question = EXCHANGE.asked(of)
    sent = EXCHANGE.sent(of, question)
    near, far = (
        EXCHANGE.answer(of, question, {name: array + by for name, array in sent.items()})
        for by in (np.float32(0.01), np.float32(5.0))
    )
    coordinator.check(of, near, question)
    with pytest.raises(ContributionError, match=r"moved by .*; at most 0.5 is plausible"):
        coordinator.check(of, far, question)
    with pytest.raises(ContributionError):
        coordinator.check(of, b"nothing", question)


class ServerMomentum(fl.methods.Rounds):
    """FedAvgM: Hsu, Qi and Brown, 2019, with beta = 0.9."""

    def combine(self, mean: Any, sent: Any, extras: dict[str, bytes]) -> Any:
        before = {name: np.zeros_like(array) for name, array in mean.items()}
        if "momentum" in extras:
            before |= load(extras["momentum"])
        velocity = {name: 0.9 * before[name] + (mean[name] - sent[name]) for name in mean}
        extras["momentum"] = save(velocity)
        return {name: sent[name] + velocity[name] for name in mean}


def decoded(data: bytes) -> Any:
    network = COORDINATOR.assign(SMALL, SHAPE).network
    return decode_weights(data, network)[0]


def test_an_own_way_to_combine_makes_the_weights_and_keeps_files() -> None:
    _, coordinator, of = sides(ServerMomentum)
    question = EXCHANGE.asked(of)
    sent = EXCHANGE.sent(of, question)
    payload = EXCHANGE.answer(of, question, EXCHANGE.moved(of, question, 1))
    first = coordinator.combine(of, question, [given(payload)])
    usual = COORDINATOR.combine(COORDINATOR.assign(SMALL, SHAPE), question, [given(payload)])
    at_rest, mean = decoded(first.weights), decoded(usual.weights)
    assert all(array == pytest.approx(mean[name], abs=1e-6) for name, array in at_rest.items())
    assert first.aggregate == usual.aggregate
    again = EXCHANGE.asked(of, extras=dict(first.extras))
    second = decoded(coordinator.combine(of, again, [given(payload)]).weights)
    for name, array in second.items():
        moved = mean[name] - sent[name]
        expected = mean[name] if is_buffer(name) else sent[name] + 1.9 * moved
        assert array == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda mean: {}, "give every tensor of the mean"),
        (lambda mean: {name: array * np.nan for name, array in mean.items()}, "give finite ones"),
    ],
)
def test_weights_that_are_none_are_refused(made: Any, said: str) -> None:
    class Wrong(fl.methods.Rounds):
        def combine(self, mean: Any, sent: Any, extras: dict[str, bytes]) -> Any:
            return made(mean)

    _, coordinator, of = sides(Wrong)
    question = EXCHANGE.asked(of)
    payload = EXCHANGE.answer(of, question, EXCHANGE.moved(of, question, 1))
    with pytest.raises(MethodError, match=f"combine: Wrong gives .*; {said}"):
        coordinator.combine(of, question, [given(payload)])


def test_a_setting_that_it_lacks_is_refused_by_name() -> None:
    with pytest.raises(MethodError, match="decorelation"):
        Decorrelated(decorelation=1)
    _, coordinator, _ = sides(Decorrelated)
    with pytest.raises(MethodError, match="decorelation"):
        coordinator.assign({"decorelation": 1}, SHAPE)


def test_an_object_is_the_section_of_a_scenario() -> None:
    made = Decorrelated(network="mlp", decorrelation=0.5)
    fl.method("mine")(Decorrelated)
    assert made.as_section() == {
        "name": "mine",
        "settings": {"network": "mlp", "decorrelation": 0.5},
    }


def test_what_is_no_method_is_refused() -> None:
    with pytest.raises(RegistryError, match=r"give a subclass of fleetledger\.methods\.Rounds"):
        fl.method("nothing")(int)
