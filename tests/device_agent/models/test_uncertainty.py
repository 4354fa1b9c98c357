"""What new and held-out pictures are measured by: the model's novelty, where it tells that."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.core.requests import Evaluate, InstallModel, Measure
from fleetledger.device_agent.core.state import AgentRules, AgentState, DeviceIdentity
from fleetledger.device_agent.home.store.blobs import BlobFolder, file_digest
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.program.device_jobs import LocalDeviceJobs
from fleetledger.device_agent.program.status import describe_detection
from fleetledger.export.head import RowsHead
from fleetledger.export.package import ExportedModel, pack_model
from fleetledger.learning.numerics.detection import (
    DetectionRules,
    Detector,
    ScoringHead,
    observe,
    uncertainty,
)
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.learning.numerics.score_novelty import ScoreNovelty
from fleetledger.schemas.values import BootId, ClassName
from fleetledger.transport.meter import Counts
from tests.device_agent import model_files as models
from tests.device_agent.making import CAPABILITIES, GREY_8
from tests.device_agent.scripted import write_settings

SEQUENTIAL, BASELINE = DetectionRules(), DetectionRules(mode="baseline")


def novelty() -> ScoreNovelty:
    agreement = np.array([[10.0, -6.0], [-6.0, 10.0]])
    made = ScoreNovelty.of(agreement, np.array([20, 20]), np.ones(2), np.arange(2))
    assert made is not None
    return made


def exported(told: ScoreNovelty | None) -> ExportedModel:
    facts = models.SolvedHead(1, "stsa", models.CLASSES, models.head_weights(), 5, 6).facts
    return pack_model(models.lineage(), facts, RowsHead(models.head_weights(), told))


class Desk:
    """Jobs with two pictures of each class to learn and to be measured on."""

    def __init__(self, folder: Path, model: ExportedModel) -> None:
        self.home = write_settings(folder)
        for place in (self.home.data_folder, self.home.folder / "test"):
            models.put_pictures(place, "dark", 1, 2)
            models.put_pictures(place, "light", 3, 4)
        blobs = BlobFolder(self.home.state_folder / "blobs")
        self.jobs = LocalDeviceJobs(
            self.home, blobs, ModelSlots(self.home.state_folder / "slots"), Counts
        )
        (installed,) = self.jobs.answer(InstallModel(models.store_model(blobs, model)))
        assert isinstance(installed, inputs.ModelInstalled), installed
        self.active = installed.active

    def images(self) -> tuple[ImageToCount, ...]:
        folder = self.home.data_folder
        return tuple(
            ImageToCount(str(p.relative_to(folder)), file_digest(p), ClassName(p.parent.name))
            for p in sorted(folder.rglob("*.png"))
        )

    def measured(self, rules: DetectionRules) -> list[float]:
        (event,) = self.jobs.answer(Measure(self.active, self.images(), None, rules))
        assert isinstance(event, inputs.UncertaintyMeasured), event
        return list(event.values)

    def evaluated(self, rules: DetectionRules) -> list[float]:
        (event,) = self.jobs.answer(Evaluate(self.active, rules, None))
        assert isinstance(event, inputs.Evaluated), event
        return list(event.uncertainties)


def scores() -> np.ndarray:
    images = [("dark", 1), ("dark", 2), ("light", 3), ("light", 4)]
    pixels = np.stack([preprocess(models.picture(name, s), GREY_8) for name, s in images])
    features = np.rint(pixels.reshape(4, 64) * 127)
    return features @ models.head_weights().T


def entropies(rules: DetectionRules) -> list[float]:
    head = ScoringHead(tuple(models.CLASSES), 10.0)
    return uncertainty(scores(), head, None, rules).tolist()


def test_the_sequential_rule_gets_the_novelty_that_the_model_tells(tmp_path: Path) -> None:
    desk = Desk(tmp_path, exported(novelty()))
    expected = novelty().of_scores(scores())
    assert desk.measured(SEQUENTIAL) == pytest.approx(expected, abs=0.02)
    assert desk.evaluated(SEQUENTIAL) == desk.measured(SEQUENTIAL)
    assert desk.measured(SEQUENTIAL) != pytest.approx(entropies(SEQUENTIAL), abs=0.02)


def test_status_says_that_it_is_novelty(tmp_path: Path) -> None:
    desk = Desk(tmp_path, exported(novelty()))
    (event,) = desk.jobs.answer(Measure(desk.active, desk.images(), None, SEQUENTIAL))
    assert event.head.measure == "novelty"
    identity = DeviceIdentity(BootId("0" * 16), BootId("1" * 16), CAPABILITIES)
    state = AgentState(AgentRules(detection=SEQUENTIAL), identity)
    state.records.detector, _ = observe(Detector(), event.values, event.head, SEQUENTIAL)
    assert re.fullmatch(r"evidence \d\.\d of 1000; novelty .*", describe_detection(state))
    assert Detector.from_plain(state.records.detector.to_plain()) == state.records.detector


def test_the_rules_of_before_get_the_entropy_of_its_scores(tmp_path: Path) -> None:
    desk = Desk(tmp_path, exported(novelty()))
    assert desk.measured(BASELINE) == pytest.approx(entropies(BASELINE), abs=0.02)
    assert desk.evaluated(BASELINE) == desk.measured(BASELINE)


def test_a_model_that_tells_none_is_measured_by_entropy(tmp_path: Path) -> None:
    desk = Desk(tmp_path, exported(None))
    assert desk.measured(SEQUENTIAL) == pytest.approx(entropies(SEQUENTIAL), abs=0.02)
    assert desk.evaluated(SEQUENTIAL) == desk.measured(SEQUENTIAL)
