"""What the worker does with requests that go wrong, and accuracy counted by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from device_agent.bench import Bench
from device_agent.core import inputs
from device_agent.core.records import ActiveModel, ImageToCount, Job
from device_agent.core.requests import ComputePart, Evaluate, InstallModel, Scan
from device_agent.errors import MissingError
from device_agent.images import ChangedError, Picture, read_picture
from device_agent.slots import Slots
from device_agent.store.blobs import BlobFolder, file_digest
from learning.errors import ImageError
from learning.numerics.preprocessing import preprocess
from methods.registry import load_coordinator
from schemas.assignments import Assignment
from schemas.values import ClassName
from tests.device_agent import models
from tests.device_agent.making import GREY_8, part_key
from tests.device_agent.scripted import write_settings
from transport.meter import Counts


class Workshop:
    """A bench over a home with four pictures, and the frozen model in its blob folder."""

    def __init__(self, folder: Path) -> None:
        self.home = write_settings(folder)
        models.put_pictures(self.home.data_folder, "dark", 1, 2)
        models.put_pictures(self.home.data_folder, "light", 3, 4)
        self.blobs = BlobFolder(self.home.state_folder / "blobs")
        self.blobs.put(models.lineage().frozen)
        slots = Slots(self.home.state_folder / "slots")
        self.bench = Bench(self.home, self.blobs, slots, lambda: Counts(bytes_up=5, bytes_down=6))
        own = load_coordinator("stsa").assign({"map": "none", "form": "exact"}, 64)
        self.own = own
        self.assignment = models.assignment().model_copy(
            update={"settings": own.model_dump(mode="json")}
        )

    def images(self) -> tuple[ImageToCount, ...]:
        folder = self.home.data_folder
        return tuple(
            ImageToCount(
                str(path.relative_to(folder)), file_digest(path), ClassName(path.parent.name)
            )
            for path in sorted(folder.rglob("*.png"))
        )

    def compute(self, assignment: Assignment | None = None, images=None):
        told = assignment or self.assignment
        job = Job(part_key(), 0, told.method, told.lineage)
        return self.bench.answer(ComputePart(job, told, images or self.images()))


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_a_part_is_what_the_method_makes_of_the_features(workshop: Workshop) -> None:
    (event,) = workshop.compute()
    assert isinstance(event, inputs.PartComputed)
    assert event.used == {image.digest for image in workshop.images()}
    folder = workshop.home.data_folder
    pixels = [preprocess((folder / i.path).read_bytes(), GREY_8) for i in workshop.images()]
    flat = np.stack(pixels).reshape(4, 64)
    H = np.rint(flat / flat.max(axis=1, keepdims=True) * np.float32(127))
    statistics = load_coordinator("stsa").check(workshop.own, event.attached)
    upper = np.triu_indices(64)
    assert np.array_equal(statistics.gram.values, (H.T @ H)[upper].astype(np.int64))


def test_pictures_that_vanished_or_changed_are_left_out_without_blame(workshop: Workshop) -> None:
    images = workshop.images()
    folder = workshop.home.data_folder
    (folder / images[0].path).unlink()
    (folder / images[1].path).write_bytes(models.picture("dark", 99))
    (event,) = workshop.compute(images=images)
    assert event.used == {images[2].digest, images[3].digest}
    assert event.unusable == ()


def test_pictures_that_do_not_decode_are_named_with_the_reason(workshop: Workshop) -> None:
    images = workshop.images()
    path = workshop.home.data_folder / images[0].path
    path.write_bytes(b"no picture at all")
    broken = replace(images[0], digest=file_digest(path))
    (event,) = workshop.compute(images=(broken, *images[1:]))
    assert len(event.used) == 3
    ((digest, reason),) = event.unusable
    assert digest == broken.digest
    assert "no picture that can be read" in reason
    (event,) = workshop.compute(images=(broken,))
    assert isinstance(event, inputs.PartEmpty)
    assert [digest for digest, _ in event.unusable] == [broken.digest]


def test_a_damaged_frozen_model_is_fetched_again_and_the_part_later(workshop: Workshop) -> None:
    workshop.blobs.path(workshop.assignment.lineage).write_bytes(b"damaged")
    damaged, failed = workshop.compute()
    assert damaged == inputs.FileDamaged(workshop.assignment.lineage)
    assert isinstance(failed, inputs.PartFailed)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"method": "magic"}, "'magic' is unknown"),
        ({"settings": {"settings": {}, "feature_width": 0}}, "feature_width: 0"),
        ({"settings": {"settings": {"form": "exact"}, "feature_width": 64}}, "features: shape"),
    ],
)
def test_an_assignment_that_makes_no_sense_here_fails_with_field_and_value(
    workshop: Workshop, change: dict, told: str
) -> None:
    (event,) = workshop.compute(workshop.assignment.model_copy(update=change))
    assert isinstance(event, inputs.PartFailed)
    assert told in event.reason


def test_without_an_onnx_runtime_the_part_fails_and_names_the_doctor(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing():
        raise MissingError("onnxruntime: not installed; `fleetledger agent doctor`")

    monkeypatch.setattr("device_agent.inference._runtime", missing)
    (event,) = workshop.compute()
    assert "fleetledger agent doctor" in event.reason


def test_too_little_memory_is_told_with_the_way_out(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_):
        raise MemoryError

    monkeypatch.setattr("device_agent.bench.extract", full)
    (event,) = workshop.compute()
    assert "smaller max_samples_per_part" in event.reason


def test_a_folder_that_is_gone_is_a_failed_scan(workshop: Workshop) -> None:
    workshop.home.data_folder.rename(workshop.home.folder / "elsewhere")
    (event,) = workshop.bench.answer(Scan())
    assert isinstance(event, inputs.ScanFailed)
    assert "data.folder" in event.reason


def test_accuracy_is_counted_per_class_over_all_rows_of_the_head(workshop: Workshop) -> None:
    test = workshop.home.folder / "test"
    models.put_pictures(test, "dark", 1, 2, 3)
    models.put_pictures(test, "light", 4)
    (test / "light" / "wrong.png").write_bytes(models.picture("dark", 5))
    (test / "light" / "broken.png").write_bytes(b"no picture")
    models.put_pictures(test, "owl", 6)
    model = models.exported()
    desired = models.store_model(workshop.blobs, model)
    (installed,) = workshop.bench.answer(InstallModel(desired))
    assert isinstance(installed, inputs.ModelInstalled)
    (event,) = workshop.bench.answer(Evaluate(installed.active))
    found = event.evaluation
    assert {name: (r.correct, r.total) for name, r in found.results.items()} == {
        "dark": (3, 3),
        "light": (1, 2),
    }
    assert (found.bytes_up, found.bytes_down) == (5, 6)
    assert (found.model_version, found.manifest) == (1, model.manifest.digest)


def test_an_evaluation_without_pictures_says_which_folder(workshop: Workshop) -> None:
    desired = models.store_model(workshop.blobs, models.exported())
    (installed,) = workshop.bench.answer(InstallModel(desired))
    (event,) = workshop.bench.answer(Evaluate(installed.active))
    assert event.evaluation is None
    assert "data.evaluation_folder" in event.reason


def test_an_evaluation_of_a_model_that_was_replaced_measures_nothing(workshop: Workshop) -> None:
    desired = models.store_model(workshop.blobs, models.exported())
    workshop.bench.answer(InstallModel(desired))
    (event,) = workshop.bench.answer(Evaluate(ActiveModel(9, workshop.assignment.lineage)))
    assert event.evaluation is None


def test_a_file_of_absurd_size_is_refused_before_it_is_read(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workshop.home.data_folder / workshop.images()[0].path
    monkeypatch.setattr("device_agent.images.MAX_FILE_BYTES", 10)
    with pytest.raises(ImageError, match="bytes exceed 10"):
        read_picture(Picture(path), GREY_8)
    with pytest.raises(ChangedError):
        read_picture(Picture(path.with_name("gone.png")), GREY_8)
