"""With a proxy both gears leave the same: it chooses the same old models."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.topics.proxy.entries import OldModelChosen, OldModelMissed
from fleetledger.coordinator.topics.rounds.entries import RoundOpened
from fleetledger.simulator.engines.inprocess.engine import InProcessEngine
from fleetledger.simulator.engines.inprocess.light.engine import LightEngine
from fleetledger.simulator.engines.inprocess.light.proxy import LightProxy
from fleetledger.simulator.engines.interface import Prepared
from tests.simulator.engines.inprocess.light.both import Learned, by_round, learn, means
from tests.simulator.rounds.small import prepared, with_proxy

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def what() -> Prepared:
    return prepared(with_proxy(4))


@pytest.fixture(scope="module")
def light(what: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    return learn(LightEngine, what, tmp_path_factory.mktemp("light"))


def chosen(learned: Learned) -> list[OldModelChosen]:
    """What the proxy chose, without the index of what it was asked by."""
    return [
        body.model_copy(update={"answer": body.answer.model_copy(update={"action": 0})})
        for body in learned.bodies(OldModelChosen)
    ]


def test_scores_old_models_and_weights_are_those_of_agents_that_act(
    what: Prepared, light: Learned, tmp_path: Path
) -> None:
    timed = learn(InProcessEngine, what, tmp_path)
    assert chosen(light) == chosen(timed)
    assert by_round(light.ledger) == by_round(timed.ledger)
    assert means(light) == means(timed)
    assert light.models == timed.models
    for one, two in zip(timed.records, light.records, strict=True):
        assert one.proxy is not None
        assert two.proxy is not None
        assert two.proxy.scored == one.proxy.scored
        assert two.proxy.gradient_bytes == pytest.approx(one.proxy.gradient_bytes, rel=0.1)
        assert 0 < two.proxy.model_bytes <= 1.1 * one.proxy.model_bytes
        assert two.seconds["proxy"] > 0
        for name, device in one.devices.items():
            assert two.devices[name].bytes_up == pytest.approx(device.bytes_up, rel=0.1)


def test_the_second_task_distils_from_the_model_that_the_proxy_chose(light: Learned) -> None:
    assert not light.bodies(OldModelMissed)
    assert all(body.answer.gradients for body in chosen(light))
    first = next(body for body in chosen(light) if body.number == 2)
    opened = next(body for body in light.bodies(RoundOpened) if body.number == 4)
    assert first.current is not None
    assert opened.extras["old-model"].digest == first.current.weights.digest


class CutError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.nightly), 3])
def test_a_run_that_is_cut_off_before_a_score_is_told_goes_on(
    what: Prepared,
    light: Learned,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: int,
) -> None:
    left = [steps]
    work = LightProxy.step

    def cut(self: LightProxy) -> bool:
        said = self._mailbox._events
        left[0] -= bool(said)
        if not left[0]:
            raise CutError
        return work(self)

    with monkeypatch.context() as patch:
        patch.setattr(LightProxy, "step", cut)
        with pytest.raises(CutError):
            learn(LightEngine, what, tmp_path)
    resumed = learn(LightEngine, what, tmp_path)
    assert means(resumed) == means(light)
    assert chosen(resumed) == chosen(light)
    assert resumed.models == light.models
