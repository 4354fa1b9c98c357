"""Settings of arithmetic: what they change, by how much, and that nothing of them stays behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from benchmarks.speed.kernel_counts.step_paths import step_paths
from benchmarks.speed.kernel_counts.training_paths import training_paths
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from fleetledger.learning.training.work import Work
from tests.learning.training.agents import largest_difference
from tests.learning.training.static_works import FirstStep

pytestmark = pytest.mark.torch

PLAIN = TrainingEngineSettings()
CONVOLVING = ("stsa first stage", "lga lga", "dcid dcid-lucir", "fbl fbl")
FLAGS = (
    (torch.backends.cuda.matmul, "allow_tf32"),
    (torch.backends.cudnn, "allow_tf32"),
)


def moved(work: Work, settings: TrainingEngineSettings) -> dict[str, torch.Tensor]:
    """Return how far each parameter goes in a first step."""
    after = FirstStep.of(work, settings).eager()
    return {name: after[name] - before for name, before in work.parameters.items()}


@pytest.mark.parametrize("name", CONVOLVING)
def test_channels_last_changes_a_step_by_rounding_alone(name) -> None:
    work = step_paths()[name]()
    found = moved(work, replace(PLAIN, channels_last=True))
    wanted = moved(work, PLAIN)
    assert largest_difference(found, wanted) < 1e-5


def test_what_is_trained_channels_last_comes_back_in_its_usual_order() -> None:
    work = step_paths()["lga lga"]()
    trained = train_alone(work, replace(PLAIN, channels_last=True))
    assert all(value.is_contiguous() for value in trained.parameters.values())
    assert any(value.dim() == 4 for value in trained.parameters.values())


@pytest.mark.parametrize("name", [*CONVOLVING, "fedhaf body", "rounds mlp"])
def test_a_step_in_bfloat16_goes_where_one_in_float32_goes(name) -> None:
    work = step_paths()[name]()
    found, wanted = moved(work, replace(PLAIN, autocast=True)), moved(work, PLAIN)
    one, other = (torch.cat([step.flatten() for step in way.values()]) for way in (found, wanted))
    assert one.dtype == torch.float32
    assert float(torch.cosine_similarity(one, other, dim=0)) > 0.98
    assert float(one.norm() / other.norm()) == pytest.approx(1, abs=0.05)


@pytest.fixture(autouse=True)
def _flags_as_they_were() -> Iterator[None]:
    before = flags()
    yield
    set_flags(*before)


def set_flags(*values: bool) -> None:
    for (place, name), value in zip(FLAGS, values, strict=True):
        setattr(place, name, value)


def flags() -> tuple[bool, ...]:
    return tuple(getattr(place, name) for place, name in FLAGS)


@pytest.mark.parametrize("setting", [True, False])
@pytest.mark.parametrize("stacked", [True, False])
def test_tf32_is_set_while_training_and_put_back(setting, stacked) -> None:
    set_flags(not setting, setting)
    (work, *_) = training_paths()["rounds mlp, loop"].works(1, 1)
    seen = []

    def prepare(*_: object) -> None:
        seen.append(flags())
        raise RuntimeError("far enough")

    watched, settings = replace(work, prepare=prepare), replace(PLAIN, tf32=setting)
    with pytest.raises(RuntimeError, match="far enough"):
        _ = train_stacked([watched], settings) if stacked else train_alone(watched, settings)
    assert seen == [(setting, setting)]
    assert flags() == (not setting, setting)


def test_tf32_that_is_left_out_is_as_torch_has_it() -> None:
    set_flags(True, False)
    with PLAIN.products():
        assert flags() == (True, False)


def test_tf32_changes_nothing_on_the_processor() -> None:
    (work, *_) = training_paths()["rounds mlp, loop"].works(1, 2)
    found, wanted = (train_alone(work, replace(PLAIN, tf32=flag)) for flag in (True, None))
    assert all(torch.equal(one, wanted.parameters[name]) for name, one in found.parameters.items())
