"""Models of simulated devices are asked about a picture once, and their time is one median."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fleetledger.device_agent.models.comparison.images import ComparedImage
from fleetledger.device_agent.models.comparison.opinions import SampleModel
from fleetledger.learning.errors import NotFiniteError
from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets.loading import DataSettings, load_split
from fleetledger.simulator.virtual.comparisons import KnownModel, KnownOpinions
from tests.simulator.rollouts.making import digits


class Scorer:
    """Gives every picture the same scores, and counts them."""

    def __init__(self, scores: float = 1.0) -> None:
        self.manifest = digits().manifest
        self.asked = 0
        self._scores = np.full((1, len(self.manifest.class_names)), scores, np.float32)

    def predict(self, _inputs: Any) -> Any:
        self.asked += 1
        return self._scores


@pytest.fixture
def links(tmp_path: Path) -> list[ComparedImage]:
    """One picture, in the folders of two devices."""
    load_split(DataSettings(set="digits"), 1).test.picture(0).save(tmp_path / "picture.png")
    paths = [tmp_path / f"device-{number}.png" for number in (1, 2)]
    for path in paths:
        os.link(tmp_path / "picture.png", path)
    return [ComparedImage(path, ClassName("0")) for path in paths]


def test_a_second_device_hears_what_the_first_one_heard(links: list[ComparedImage]) -> None:
    scorer, known = Scorer(), KnownOpinions()
    said = []
    for image in links:
        model = KnownModel(scorer, known, 0.25)
        prepared = model.prepare(image)
        assert prepared is not None
        said.append(model.ask(image, prepared))
    assert scorer.asked == 1
    assert said[0] == said[1]
    assert said[0].reply.seconds == 0.25
    plain = SampleModel(scorer)
    assert plain.ask(links[0], plain.prepare(links[0])).reply.nats == said[0].reply.nats


def test_what_a_model_does_not_answer_is_asked_again(links: list[ComparedImage]) -> None:
    scorer, known = Scorer(float("nan")), KnownOpinions()
    for image in links:
        model = KnownModel(scorer, known, 0.25)
        with pytest.raises(NotFiniteError):
            model.ask(image, model.prepare(image))
    assert (scorer.asked, known.opinions) == (2, {})


def test_the_time_of_a_model_is_a_median_and_measured_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([9.0, 9.0, *[1.0] * 29])
    monkeypatch.setattr(SampleModel, "golden", lambda *_: next(times))
    known, model = KnownOpinions(), SimpleNamespace(manifest=digits().manifest)
    assert known.seconds_of(model, [np.zeros(1)]) == 1.0
    assert known.seconds_of(model, [np.zeros(1)]) == 1.0
