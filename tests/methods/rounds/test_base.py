"""Networks of which adapters are trained: the rest comes with the order and stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

from fleetledger.learning.losses.composition import FIXED
from fleetledger.learning.networks import registry
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.plan import initial_arrays
from fleetledger.learning.networks.vision_transformer import VisionTransformer
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.rounds.assignment import RoundsAssignment
from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.rounds.device import DEVICE
from fleetledger.methods.training.exchange import BASE, ClientUpdate, FitInstruction, LocalData
from fleetledger.methods.training.network_weights import decode_base, decode_weights
from fleetledger.schemas.rounds import RoundOrder
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import ClassName, Digest
from tests.methods.making import given
from tests.methods.rounds.making import CAT, DOG, OWL, asked
from tests.schemas.examples import OFFER

pytestmark = pytest.mark.torch

TINY = VisionTransformer(8, 4, width=12, blocks=1, heads=3, hidden=20, adapter=5)
PICTURES = Pictures((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.NETWORKS._own, "tiny", registry.KnownNetwork(lambda _shape: TINY))


def assignment(**settings: object) -> RoundsAssignment:
    values = {"network": "tiny", "rate": 0.05, "batch": 8, "epochs": 2} | settings
    return COORDINATOR.assign(values, (3, 8, 8))


def base(seed: int = 5) -> bytes:
    return encode_tensors(initial_arrays(TINY.base_plan(), seed))


def images(*names: ClassName) -> LocalData:
    random = np.random.default_rng(1)
    pixels = random.integers(0, 255, (24, 3, 8, 8)).astype(np.uint8)
    labels = tuple(names[number % len(names)] for number in range(24))
    return LocalData(pixels, labels, tuple(Digest.of(bytes([number])) for number in range(24)))


def order(of: RoundsAssignment, stage: int = 1, **parts: object) -> FitInstruction:
    names = (CAT, DOG) if stage == 1 else (CAT, DOG, OWL)
    round_order = RoundOrder(
        number=stage,
        round_of_stage=1,
        rounds_of_stage=1,
        weights=OFFER,
        weights_class_names=() if stage == 1 else (CAT, DOG),
        class_names=names,
        seed=3,
        deadline_seconds=60.0,
    )
    values = {"weights": COORDINATOR.first_weights(of), "extras": {BASE: base()}} | parts
    task = (CAT, DOG) if stage == 1 else (OWL,)
    return FitInstruction(stage, task, round_order, device="dev-1", **values)  # type: ignore[arg-type]


def learn(of: RoundsAssignment, asks: FitInstruction, memory: bytes | None = None) -> ClientUpdate:
    names = asks.round.class_names
    begun = DEVICE.begin(of, asks, images(*names), memory, PICTURES)
    assert begun is not None
    return DEVICE.finish(of, begun, train_alone(begun.work, TrainingEngineSettings()))


def test_an_answer_holds_adapters_and_head_and_follows_from_the_base() -> None:
    of = assignment()
    answers = [learn(of, order(of, extras={BASE: base(seed)})) for seed in (5, 5, 6)]
    assert answers[0].payload == answers[1].payload != answers[2].payload
    made = COORDINATOR.combine(of, asked(of), [given(answers[0].payload)])
    arrays, _ = decode_weights(made.weights, of.network)
    assert {name for name in arrays if not name.startswith("head.")} == {
        plan.name for plan in TINY.plan()
    }
    assert BASE not in made.extras


def test_the_base_stays_as_the_file_gives_it() -> None:
    of = assignment()
    begun = DEVICE.begin(of, order(of), images(CAT, DOG), None, PICTURES)
    assert begun is not None
    train_alone(begun.work, TrainingEngineSettings())
    given_base = decode_base(base(), of.network)
    assert set(begun.work.frozen[FIXED]) == set(given_base)
    for name, tensor in begun.work.frozen[FIXED].items():
        np.testing.assert_array_equal(tensor.numpy(), given_base[name])


@pytest.mark.parametrize(
    "preset", ["fedavg", "fedprox", "fed-lwf", "flwf-2t", "icarl", "fed-ewc", "fedavg-exemplars"]
)
def test_every_preset_goes_on_to_a_second_stage(preset: str) -> None:
    of = assignment(preset=preset)
    first = learn(of, order(of))
    extras = {BASE: base()}
    made = COORDINATOR.combine(
        of, asked(of, rounds_of_stage=1), [given(first.payload, sum(first.samples.values()))]
    )
    following = order(of, 2, weights=made.weights, extras={**extras, **made.extras})
    second = learn(of, following, first.memory)
    assert second.loss is not None
    assert np.isfinite(second.loss)


def test_an_order_without_the_base_says_what_is_lacking() -> None:
    of = assignment()
    with pytest.raises(MethodError, match=r"base: network 'tiny' .* import the network again"):
        learn(of, order(of, extras={}))


def test_the_base_of_another_network_is_refused_by_name() -> None:
    of = assignment()
    other = VisionTransformer(8, 4, width=24, blocks=1, heads=3, hidden=20, adapter=5)
    foreign = encode_tensors(initial_arrays(other.base_plan(), 1))
    with pytest.raises(ContributionError, match=r"base: .*class_token"):
        learn(of, order(of, extras={BASE: foreign}))
