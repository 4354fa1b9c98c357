"""A round with clipped answers and noise: a long one is refused, and replay makes the same mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fleetledger.coordinator.core.rules import PrivacyRules, RoundRules
from fleetledger.coordinator.errors import NetworkSettingsError
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.program import home_verification
from fleetledger.coordinator.settings import load, write_new
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.learning.numerics.clipping import ClippedGrid
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.training.network_weights import Arrays, decode_weights
from fleetledger.schemas.receipts import Accepted, Receipt, Refused
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import DeviceId
from fleetledger.transport.memory import InMemoryBroker
from tests.coordinator.program.test_rounds_at_the_desk import able_device
from tests.coordinator.replay.stories import replay
from tests.coordinator.round_answers import answer, asked, weights
from tests.coordinator.shell_harness import RULES, MemoryCoordinator, ScriptedDevice, write_home

CLIP, NOISE = 0.5, 2.0
ONE_ROUND = RULES.model_copy(
    update={"rounds": RoundRules(per_stage=1, gather_seconds=0, retention="all")}
)


@pytest.fixture
def broker() -> InMemoryBroker:
    return InMemoryBroker()


@pytest.fixture
def coordinator(tmp_path: Path, broker: InMemoryBroker) -> Iterator[MemoryCoordinator]:
    write_home(tmp_path, "rounds", network="mlp")
    content = load(tmp_path)
    content.method.settings["privacy"] = {"clip": CLIP, "noise": NOISE, "epsilon": 3.0}
    (tmp_path / "coordinator.toml").unlink()
    write_new(tmp_path, content)
    made = MemoryCoordinator(tmp_path, broker, ONE_ROUND)
    yield made
    made.close()


@pytest.fixture
def device(broker: InMemoryBroker, coordinator: MemoryCoordinator) -> Iterator[ScriptedDevice]:
    made = able_device(broker, coordinator)
    coordinator.open("circle", "square")
    yield made
    made.close()


def payload_of(grid: ClippedGrid, values: np.ndarray) -> bytes:
    return encode_tensors(
        {name: values[place].reshape(grid.shapes[name]) for name, place in grid.places.items()}
    )


def averaged(coordinator: MemoryCoordinator, settings: dict[str, object]) -> Arrays:
    offer = coordinator.engine.core.state.rounds.weights
    assert offer is not None
    network = training_coordinator("rounds").read_assignment(settings).network
    return decode_weights(coordinator.blobs.get(offer.offer.digest), network)[0]


def test_a_long_answer_is_refused_and_the_noisy_mean_is_replayed(
    coordinator: MemoryCoordinator, device: ScriptedDevice, tmp_path: Path
) -> None:
    assignment = asked(device)
    sent = weights(device, assignment, tmp_path)
    grid = ClippedGrid.around(sent, CLIP)
    values = grid.clipped({name: array + np.float32(0.25) for name, array in sent.items()})
    longer = payload_of(grid, values * 2)
    device.send(answer(assignment, longer), longer)
    refused = device.wait_for(Receipt, 1).answer
    assert isinstance(refused, Refused)
    assert "more than the clip 0.5; clip it on the device" in refused.reason
    payload = payload_of(grid, values)
    device.send(answer(assignment, payload), payload)
    assert isinstance(device.wait_for(Receipt, 2).answer, Accepted)
    coordinator.until(lambda: WeightsAveraged.kind in coordinator.kinds())
    (entry,) = coordinator.engine.ledger.find(WeightsAveraged)
    seed = bytes.fromhex(entry.body["noise_seed"])
    assert len(seed) == 32
    found = averaged(coordinator, assignment.settings)
    noise = grid.noise(seed, NOISE * grid.bound)
    for name, place in grid.places.items():
        steps = (values + noise)[place].reshape(grid.shapes[name]).astype(np.float64)
        np.testing.assert_array_equal(found[name], grid.weights_of(name, steps))
    state, device_1 = coordinator.engine.core.state, DeviceId("dev-1")
    assert home_verification._has_noise(coordinator.engine.ledger)
    assert home_verification._wrong_spending(state) is None
    state.rounds.spent[device_1] *= 2
    wrong = home_verification._wrong_spending(state)
    assert wrong is not None
    assert "privacy of device dev-1" in str(wrong)
    assert "at most 3" in str(wrong)
    code, out = replay(coordinator.home, "--all")
    assert code == 0, out
    assert "differs" not in out
    assert out.splitlines()[0].startswith(f"{entry.index}\tround 1, phase train\tequal\t")


def test_noise_that_would_hide_nothing_is_refused_when_the_network_is_imported(
    tmp_path: Path,
) -> None:
    privacy = PrivacyRules(masks=True, least=8, cohort=8)
    write_home(tmp_path, "rounds", privacy, network="mlp")
    settings = load(tmp_path)

    def refused(rounds: RoundRules, **privacy: object) -> str:
        settings.method.settings["privacy"] = {"clip": CLIP, "noise": NOISE} | privacy
        (tmp_path / "coordinator.toml").unlink()
        write_new(tmp_path, settings.model_copy(update={"rounds": rounds}))
        with pytest.raises(NetworkSettingsError) as error:
            prepare_network(tmp_path, tmp_path / "pixels.json")
        return str(error.value)

    assert "least: 9; a sum behind masks has" in refused(RoundRules(), where="cohort", least=9)
    asynchronous = RoundRules.model_validate({"asynchronous": {"buffer": 2}})
    object.__setattr__(settings, "privacy", PrivacyRules())
    assert "asynchronous rounds get no noise" in refused(asynchronous)
