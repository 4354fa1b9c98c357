"""Intersection over union on held-out scenes, and how uncertain a model is of new ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.core.requests import Evaluate, InstallModel, Measure, Scan
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.inference.installed_model import InstalledModel, PixelScores
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.models.uncertainty import OF_PIXELS
from fleetledger.device_agent.program.device_jobs import LocalDeviceJobs
from fleetledger.export.package import ExportedModel
from fleetledger.learning.numerics.detection import DetectionRules, Detector, ScoringHead, observe
from fleetledger.learning.numerics.pixel_uncertainty import (
    mean_entropy,
    mean_uncertainty,
    most_uncertain,
)
from fleetledger.learning.numerics.preprocessing import preprocess, sized_mask
from fleetledger.schemas.models import BACKGROUND
from fleetledger.transport.meter import Counts
from tests.device_agent import model_files as models
from tests.device_agent.models.scenes import dense
from tests.device_agent.models.scenes.dense import COLOUR, blocks, put_scene
from tests.device_agent.scripted import settle, write_settings

RULES = DetectionRules(min_images=2)
BATCHES = DetectionRules(mode="baseline", min_images=2)


class Darkroom:
    """Jobs of a device with scenes, and held-out ones beside them."""

    def __init__(self, folder: Path) -> None:
        self.home = write_settings(folder, samples="scenes")
        self.blobs = BlobFolder(self.home.state_folder / "blobs")
        slots = ModelSlots(self.home.state_folder / "slots")
        self.jobs = LocalDeviceJobs(self.home, self.blobs, slots, Counts)
        self.test = folder / "test"
        for root in (self.test, self.home.data_folder):
            dense.name_classes(root)
            put_scene(root, "right", blocks(0, 1, 2))
            put_scene(root, "wrong", blocks(1, 1, 0, 255), picture=blocks(1, 2, 2, 2))
            put_scene(root, "large", blocks(2, 1, 0, height=50, width=70))

    def install(self, exported: ExportedModel) -> InstalledModel:
        desired = models.store_model(self.blobs, exported)
        (event,) = self.jobs.answer(InstallModel(desired))
        assert isinstance(event, inputs.ModelInstalled), event
        self.active = event.active
        model = self.jobs._installer.active()
        assert model is not None
        return model

    def evaluate(self, detection=None, known=None) -> inputs.Evaluated:
        return self.told(Evaluate(self.active, detection, known))

    def told(self, request) -> Any:
        """Return the answer to a request; `left_out` has what was told of samples."""
        *told, event = self.jobs.answer(request)
        self.left_out = [item.problem.text for item in told]
        return event

    def results(self) -> dict[str, tuple[int, int]]:
        evaluation = self.evaluate().evaluation
        assert evaluation is not None
        return {str(name): (r.correct, r.total) for name, r in evaluation.results.items()}

    def images(self) -> tuple[ImageToCount, ...]:
        settle(self.home.data_folder)
        (scanned,) = self.jobs.answer(Scan())
        assert isinstance(scanned, inputs.Scanned)
        return tuple(
            ImageToCount(image.path, image.digest, image.class_name) for image in scanned.images
        )

    def measure(self, known=None, rules=RULES) -> inputs.UncertaintyMeasured:
        request = Measure(self.active, self.images(), known, rules)
        event = self.told(request)
        assert isinstance(event, inputs.UncertaintyMeasured)
        return event


@pytest.fixture
def darkroom(tmp_path: Path) -> Darkroom:
    return Darkroom(tmp_path)


def slow_results(
    model: InstalledModel, folder: Path, known: dict[int, int]
) -> dict[int, tuple[int, int]]:
    """Pixel by pixel: what the mask says, 0 for classes that the model lacks, and the model."""
    from PIL import Image

    counts: dict[int, list[int]] = {}
    for path in sorted((folder / "images").rglob("*.png")):
        said = model.pixel_scores(preprocess(path.read_bytes(), COLOUR)).large.argmax(axis=0)
        mask = np.asarray(Image.open(folder / "masks" / path.name))
        truth = sized_mask(mask, COLOUR)
        for right, guess in zip(truth.ravel().tolist(), said.ravel().tolist(), strict=True):
            if right == 255:
                continue
            row = known.get(right, 0)
            for seen in {row, guess}:
                pair = counts.setdefault(seen, [0, 0])
                pair[0] += row == guess
                pair[1] += 1
    return {row: (both, either) for row, (both, either) in counts.items()}


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (("red", "green"), {1: 1, 2: 2}),
        (("green",), {2: 1}),
        (("blue", "red", "green"), {3: 1, 1: 2, 2: 3}),
    ],
)
def test_classes_have_intersection_over_union_as_a_slow_loop_counts_it(
    darkroom: Darkroom, names: tuple[str, ...], known: dict[int, int]
) -> None:
    model = darkroom.install(dense.exported(names))
    slow = slow_results(model, darkroom.test, known)
    class_names = (BACKGROUND, *names)
    assert darkroom.results() == {class_names[row]: pair for row, pair in slow.items()}


def test_what_is_right_is_one_and_what_is_wrong_is_less(darkroom: Darkroom) -> None:
    darkroom.install(dense.exported())
    (darkroom.test / "images" / "wrong.png").unlink()
    # A pixel beside a border may go to either side, since scores are resized.
    assert all(both > 0.9 * either for both, either in darkroom.results().values())
    put_scene(darkroom.test, "wrong", blocks(1), picture=blocks(2))
    both, either = darkroom.results()["red"]
    assert both < 0.6 * either


def test_a_class_that_only_the_model_says_counts_in_its_union(darkroom: Darkroom) -> None:
    darkroom.install(dense.exported(("blue",)))
    put_scene(darkroom.test, "sky", blocks(1, 2), picture=blocks(3, 2))
    both, either = darkroom.results()["blue"]
    assert both == 0
    assert either > 0


def test_values_have_the_classes_that_the_folder_names(darkroom: Darkroom) -> None:
    darkroom.install(dense.exported())
    before = darkroom.results()
    dense.name_classes(darkroom.test, '[classes]\n1 = "green"\n2 = "red"\n')
    assert darkroom.results() != before
    dense.name_classes(darkroom.test, '[classes]\n1 = "red"\n')
    (darkroom.test / "masks" / "large.png").unlink()
    # Scenes with the value 2 are left out; what is left shows red alone.
    found = darkroom.evaluate().evaluation
    assert found is not None
    assert sum(r.correct for r in found.results.values()) < 16 * 24


def test_scenes_that_cannot_be_read_are_left_out(darkroom: Darkroom) -> None:
    darkroom.install(dense.exported())
    put_scene(darkroom.test, "torn", blocks(1))
    before = darkroom.results()
    (darkroom.test / "masks" / "torn.png").write_bytes(b"torn")
    assert darkroom.results() != before
    for path in (darkroom.test / "images").glob("*.png"):
        path.write_bytes(b"nothing")
    event = darkroom.evaluate()
    assert event.evaluation is None
    assert "data.evaluation_folder" in event.reason


def test_a_folder_without_names_says_what_is_missing(darkroom: Darkroom) -> None:
    darkroom.install(dense.exported())
    (darkroom.test / "classes.toml").unlink()
    assert "classes.toml: there is no such file" in darkroom.evaluate().reason


def test_an_evaluation_gives_the_detector_its_first_values(darkroom: Darkroom) -> None:
    model = darkroom.install(dense.exported())
    event = darkroom.evaluate(RULES)
    rows = (BACKGROUND, "red", "green")
    assert event.head == ScoringHead(rows, 1.0, model.manifest.digest, OF_PIXELS)
    assert len(event.uncertainties) == 3
    paths = [darkroom.test / "images" / f"{name}.png" for name in ("large", "right", "wrong")]
    small = [model.pixel_scores(preprocess(path.read_bytes(), COLOUR)).small for path in paths]
    assert event.uncertainties == pytest.approx(mean_uncertainty(np.stack(small), rows))


def test_new_images_are_measured_by_all_of_their_pixels(darkroom: Darkroom) -> None:
    model = darkroom.install(dense.exported())
    event = darkroom.measure()
    images = darkroom.images()
    paths = [darkroom.home.data_folder / image.path for image in images]
    small = [model.pixel_scores(preprocess(path.read_bytes(), COLOUR)).small for path in paths]
    assert event.images == tuple(image.digest for image in images)
    rows = (BACKGROUND, "red", "green")
    assert event.values == pytest.approx(mean_uncertainty(np.stack(small), rows))
    in_batches = darkroom.measure(rules=BATCHES)
    assert in_batches.values == pytest.approx(most_uncertain(np.stack(small), rows))
    in_nats = darkroom.measure(rules=DetectionRules(mode="fixed-rise", rise_nats=0.6))
    assert in_nats.values == pytest.approx(mean_entropy(np.stack(small)))


def test_a_model_that_has_grown_measures_with_the_rows_of_before(darkroom: Darkroom) -> None:
    darkroom.install(dense.exported())
    known = darkroom.measure(rules=BATCHES).head
    model = darkroom.install(dense.exported(("red", "green", "blue"), version=2))
    event = darkroom.measure(known, BATCHES)
    assert event.head == known
    paths = [darkroom.home.data_folder / image.path for image in darkroom.images()]
    small = [model.pixel_scores(preprocess(path.read_bytes(), COLOUR)).small for path in paths]
    rows = (BACKGROUND, "red", "green", "blue")
    assert event.values == pytest.approx(most_uncertain(np.stack(small), rows, known.rows))
    # So the history goes on, also where held-out images are measured after the switch.
    detector, _ = observe(Detector(), [0.1, 0.2], known, BATCHES)
    again, _ = observe(detector, event.values, event.head, BATCHES)
    assert again.history[0] == detector.history[0]
    assert darkroom.evaluate(BATCHES, known).head == known


def test_evidence_begins_anew_with_a_model_that_has_grown(darkroom: Darkroom) -> None:
    darkroom.install(dense.exported())
    known = darkroom.measure().head
    darkroom.install(dense.exported(("red", "green", "blue"), version=2))
    event = darkroom.measure(known)
    assert event.head is not None
    assert event.head.rows == (BACKGROUND, "red", "green", "blue")
    detector, _ = observe(Detector(), [0.1, 0.2], known, RULES)
    again, _ = observe(detector, event.values, event.head, RULES)
    assert again.evidence.neighbours.shots == len(event.values) == 3
    assert event.projections is None, "each scene is its own shot"


@pytest.mark.parametrize(
    "known",
    [
        ScoringHead((BACKGROUND, "red", "owl"), 1.0),
        ScoringHead((BACKGROUND, "red"), 2.0),
        ScoringHead((BACKGROUND,), 1.0),
    ],
)
def test_what_cannot_go_on_begins_anew_with_all_rows(
    darkroom: Darkroom, known: ScoringHead
) -> None:
    model = darkroom.install(dense.exported())
    own = ScoringHead((BACKGROUND, "red", "green"), 1.0, model.manifest.digest)
    assert darkroom.measure(known, BATCHES).head == own


def test_scores_that_are_no_numbers_are_told_and_counted_nowhere(
    darkroom: Darkroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    darkroom.install(dense.exported())
    none = np.full((3, *dense.SIZE), np.nan, np.float32)
    monkeypatch.setattr(
        InstalledModel, "pixel_scores", lambda _model, _picture: PixelScores(none, none)
    )
    for rules in (None, RULES):
        assert darkroom.evaluate(rules).head is None
        assert all("NaN or infinity" in text for text in darkroom.left_out)
    assert darkroom.measure().values == ()
    assert all("images/" in text and "NaN or infinity" in text for text in darkroom.left_out)


def test_a_model_of_samples_measures_the_pictures_of_scenes(darkroom: Darkroom) -> None:
    exported = models.exported()
    darkroom.install(exported)
    event = darkroom.measure()
    assert event.head is not None
    assert event.head[:2] == (("dark", "light"), exported.manifest.logit_scale)
    assert len(event.values) == 3
