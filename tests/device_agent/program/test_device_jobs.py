"""What the worker does with requests that go wrong, and accuracy counted by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ActiveModel, ImageToCount, Job
from fleetledger.device_agent.core.requests import (
    CheckActiveModel,
    ComputePart,
    Evaluate,
    InstallModel,
    Scan,
)
from fleetledger.device_agent.errors import MissingError
from fleetledger.device_agent.home.health.machine import Machine
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.store.blobs import BlobFolder, file_digest
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.program import device_jobs
from fleetledger.device_agent.program.device_jobs import LocalDeviceJobs
from fleetledger.device_agent.samples.images import ChangedError, PictureFile, read_sample
from fleetledger.learning.errors import ImageError
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.values import ClassName
from fleetledger.transport.meter import Counts
from tests.device_agent import model_files as models
from tests.device_agent.making import GREY_8, part_key
from tests.device_agent.scripted import write_settings


class Workshop:
    """Jobs over a home with four pictures, and the frozen model in its blob folder."""

    def __init__(self, folder: Path, machine: Machine | None = None) -> None:
        self.home = write_settings(folder)
        models.put_pictures(self.home.data_folder, "dark", 1, 2)
        models.put_pictures(self.home.data_folder, "light", 3, 4)
        self.blobs = BlobFolder(self.home.state_folder / "blobs")
        self.blobs.put(models.lineage().frozen)
        self.slots = ModelSlots(self.home.state_folder / "slots")
        counts = Counts(bytes_up=5, bytes_down=6)
        self.jobs = LocalDeviceJobs(self.home, self.blobs, self.slots, lambda: counts, machine)
        own = statistics_coordinator("stsa").assign({"map": "none", "form": "exact"}, 64)
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
        return self.jobs.answer(ComputePart(job, told, images or self.images()))


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
    statistics = statistics_coordinator("stsa").check(workshop.own, event.attached)
    upper = np.triu_indices(64)
    assert np.array_equal(statistics.gram.values, (H.T @ H)[upper].astype(np.int64))


def test_memory_is_given_back_between_works_and_code_once_models_are_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop(tmp_path)
    given: list[str] = []
    monkeypatch.setattr(device_jobs, "release_memory", lambda: given.append("memory"))
    monkeypatch.setattr(device_jobs, "release_code", given.append)
    exported = models.exported()
    (installed,) = workshop.jobs.answer(InstallModel(models.store_model(workshop.blobs, exported)))
    assert isinstance(installed, inputs.ModelInstalled)
    assert given == []
    workshop.jobs.rest()
    workshop.jobs.rest()
    assert given == ["memory"]
    model = workshop.home.settings.model.model_copy(update={"unload_seconds": 0.0})
    settings = workshop.home.settings.model_copy(update={"model": model})
    workshop.home = replace(workshop.home, settings=settings)
    later = LocalDeviceJobs(workshop.home, workshop.blobs, workshop.slots, Counts)
    later.answer(CheckActiveModel(ActiveModel(1, exported.manifest.digest)))
    given.clear()
    later.rest()
    later.rest()
    assert given == ["memory", "onnxruntime"]


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

    monkeypatch.setattr(
        "fleetledger.device_agent.models.inference.installed_model._runtime", missing
    )
    (event,) = workshop.compute()
    assert "fleetledger agent doctor" in event.reason


def test_too_little_memory_is_told_with_the_way_out(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_):
        raise MemoryError

    monkeypatch.setattr("fleetledger.device_agent.program.device_jobs.extract", full)
    (event,) = workshop.compute()
    assert "smaller max_samples_per_part" in event.reason


def test_a_folder_that_is_gone_is_a_failed_scan(workshop: Workshop) -> None:
    workshop.home.data_folder.rename(workshop.home.folder / "elsewhere")
    (event,) = workshop.jobs.answer(Scan())
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
    (installed,) = workshop.jobs.answer(InstallModel(desired))
    assert isinstance(installed, inputs.ModelInstalled)
    left_out, event = workshop.jobs.answer(Evaluate(installed.active))
    assert "light/broken.png" in left_out.problem.text
    found = event.evaluation
    assert {name: (r.correct, r.total) for name, r in found.results.items()} == {
        "dark": (3, 3),
        "light": (1, 2),
    }
    assert (found.bytes_up, found.bytes_down) == (5, 6)
    assert (found.version, found.manifest) == (1, model.manifest.digest)


def test_an_evaluation_says_how_the_machine_was_meanwhile(tmp_path: Path) -> None:
    zone = tmp_path / "root/sys/class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "type").write_text("gpu-thermal\n")
    (zone / "temp").write_text("61500\n")
    machine = Machine(tmp_path / "root", lambda: "NV Power Mode: 15W\n2\n")
    workshop = Workshop(tmp_path, machine)
    models.put_pictures(workshop.home.folder / "test", "dark", 1)
    desired = models.store_model(workshop.blobs, models.exported())
    (installed,) = workshop.jobs.answer(InstallModel(desired))
    (event,) = workshop.jobs.answer(Evaluate(installed.active))
    found = event.evaluation
    assert (found.power_mode, found.celsius, found.throttled) == ("15W", 61.5, None)


def test_an_evaluation_without_pictures_says_which_folder(workshop: Workshop) -> None:
    desired = models.store_model(workshop.blobs, models.exported())
    (installed,) = workshop.jobs.answer(InstallModel(desired))
    (event,) = workshop.jobs.answer(Evaluate(installed.active))
    assert event.evaluation is None
    assert "data.evaluation_folder" in event.reason


def test_an_evaluation_of_a_model_that_was_replaced_measures_nothing(workshop: Workshop) -> None:
    desired = models.store_model(workshop.blobs, models.exported())
    workshop.jobs.answer(InstallModel(desired))
    (event,) = workshop.jobs.answer(Evaluate(ActiveModel(9, workshop.assignment.lineage)))
    assert event.evaluation is None


def test_a_file_of_absurd_size_is_refused_before_it_is_read(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workshop.home.data_folder / workshop.images()[0].path
    monkeypatch.setattr("fleetledger.device_agent.samples.images.MAX_FILE_BYTES", 10)
    with pytest.raises(ImageError, match="bytes exceed 10"):
        read_sample(PictureFile(path), GREY_8)
    with pytest.raises(ChangedError):
        read_sample(PictureFile(path.with_name("gone.png")), GREY_8)


def settings_of(workshop: Workshop, **method: object) -> Assignment:
    own = statistics_coordinator("stsa").assign({"map": "none", **method}, 64)
    told = {
        "settings": own.model_dump(mode="json"),
        "min_samples_per_class": own.settings.min_samples_per_class,
    }
    return workshop.assignment.model_copy(update=told)


def test_a_part_of_groups_is_the_same_whenever_it_is_computed(workshop: Workshop) -> None:
    told = settings_of(workshop, form="estimated")
    one, two = workshop.compute(told)[0], workshop.compute(told)[0]
    assert one == two
    assert one.contribution.samples == {"dark": 2, "light": 2}


def test_noise_is_the_same_for_a_revision_and_another_one_for_the_next(workshop: Workshop) -> None:
    told = settings_of(workshop, form="estimated", noise="sums", noise_deviation=5.0)
    one, again = workshop.compute(told)[0], workshop.compute(told)[0]
    assert one == again
    request = ComputePart(Job(part_key(), 1, "stsa", told.lineage), told, workshop.images())
    assert workshop.jobs.answer(request)[0].contribution.payload != one.contribution.payload
    secret = workshop.home.state_folder / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    secret.write_bytes(bytes(32))
    assert workshop.compute(told)[0].contribution.payload != one.contribution.payload


def test_a_class_that_pictures_vanished_from_is_held_back_with_its_last_picture(
    workshop: Workshop,
) -> None:
    told = settings_of(workshop, form="estimated")
    images = workshop.images()
    (workshop.home.data_folder / images[0].path).unlink()
    (event,) = workshop.compute(told, images)
    assert event.contribution.samples == {"light": 2}
    assert event.used == {images[2].digest, images[3].digest}
    (workshop.home.data_folder / images[2].path).unlink()
    (event,) = workshop.compute(told, images)
    assert isinstance(event, inputs.PartEmpty)


def test_a_form_that_the_fleet_does_not_allow_fails_with_the_forms_there_are(
    workshop: Workshop, tmp_path: Path
) -> None:
    path = workshop.home.folder / "agent.toml"
    path.write_text('contribution_form = "estimated"\n' + path.read_text())
    jobs = LocalDeviceJobs(
        AgentHome.open(workshop.home.folder),
        workshop.blobs,
        ModelSlots(workshop.home.state_folder / "slots"),
        Counts,
    )
    job = Job(part_key(), 0, "stsa", workshop.assignment.lineage)
    (event,) = jobs.answer(ComputePart(job, workshop.assignment, workshop.images()))
    assert event.reason == "form: 'estimated' is not allowed in this fleet; choose exact"
    told = settings_of(workshop, form="exact", forms=["estimated"])
    (event,) = jobs.answer(ComputePart(job, told, workshop.images()))
    own = statistics_coordinator("stsa").read_assignment(told.settings)
    assert statistics_coordinator("stsa").check(own, event.attached).form == "estimated"


def test_a_secret_of_the_wrong_length_is_named(workshop: Workshop) -> None:
    (workshop.home.state_folder / "secret").write_bytes(b"short")
    (event,) = workshop.compute()
    assert "secret: 5 bytes; delete it" in event.reason
