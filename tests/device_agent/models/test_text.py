"""A device whose samples are text files: scanned, counted, measured, and a model tested on them."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.cli.doctor import _folders
from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ImageToCount, Job
from fleetledger.device_agent.core.requests import ComputePart, Evaluate, InstallModel, Scan
from fleetledger.device_agent.home.store.blobs import BlobFolder, file_digest
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.program.device_jobs import LocalDeviceJobs
from fleetledger.device_agent.samples.images import PictureFile, read_sample
from fleetledger.export.backbone import import_backbone
from fleetledger.export.frozen import build_frozen
from fleetledger.export.golden import build_golden
from fleetledger.export.package import ExportedModel, Lineage, SolvedHead, export_model
from fleetledger.learning.errors import TextError
from fleetledger.learning.numerics.tokens import MAX_TEXT_BYTES
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.schemas.values import ClassName
from fleetledger.transport.meter import Counts
from tests.device_agent import model_files as models
from tests.device_agent.making import part_key
from tests.device_agent.scripted import write_settings
from tests.simulator.text.making import ALPHABET, LAST, PREPROCESSING, WIDTH, one_hot
from tests.simulator.text.making import one_hot_encoder as encoder

TEXTS = {"a": ["dab", "tab\nlab"], "space": ["so", "Go"]}


@cache
def lineage() -> Lineage:
    frozen = build_frozen(import_backbone(encoder(), PREPROCESSING).model, "none")
    return Lineage(frozen, build_golden(frozen, PREPROCESSING), PREPROCESSING)


def exported() -> ExportedModel:
    """Foretells `a` behind a b, and a space behind an o."""
    head = np.zeros((2, LAST, WIDTH // LAST))
    head[0, -1, 2 + ALPHABET.index("b")] = 1 / 127
    head[1, -1, 2 + ALPHABET.index("o")] = 1 / 127
    names = tuple(map(ClassName, TEXTS))
    return export_model(lineage(), SolvedHead(1, "stsa", names, head.reshape(2, -1), 5, 6))


class Workshop:
    """Jobs over a home with two texts of each class."""

    def __init__(self, folder: Path) -> None:
        self.home = write_settings(folder, samples="text")
        for name, texts in TEXTS.items():
            put(self.home.data_folder, name, *texts)
        self.blobs = BlobFolder(self.home.state_folder / "blobs")
        self.blobs.put(lineage().frozen)
        slots = ModelSlots(self.home.state_folder / "slots")
        self.jobs = LocalDeviceJobs(self.home, self.blobs, slots, Counts)
        self.own = statistics_coordinator("stsa").assign({"map": "none", "form": "exact"}, WIDTH)

    def compute(self) -> inputs.Input:
        frozen = models.offer_of(lineage().frozen)
        assignment = models.assignment(*TEXTS).model_copy(
            update={
                "settings": self.own.model_dump(mode="json"),
                "frozen": frozen,
                "lineage": frozen.digest,
                "preprocessing": PREPROCESSING,
            }
        )
        folder = self.home.data_folder
        files = tuple(
            ImageToCount(str(p.relative_to(folder)), file_digest(p), ClassName(p.parent.name))
            for p in sorted(folder.rglob("*.txt"))
        )
        job = Job(part_key(), 0, assignment.method, assignment.lineage)
        (event,) = self.jobs.answer(ComputePart(job, assignment, files))
        return event


def put(folder: Path, name: str, *texts: str) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    for text in texts:
        path = folder / name / f"{len(list((folder / name).iterdir()))}.txt"
        path.write_bytes(text.encode())
        os.utime(path, (1_000_000, 1_000_000))


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_txt_files_are_the_samples_and_pictures_are_left_alone(workshop: Workshop) -> None:
    models.put_pictures(workshop.home.data_folder, "a", 1)
    (event,) = workshop.jobs.answer(Scan())
    assert isinstance(event, inputs.Scanned)
    assert [image.path for image in event.images] == [
        "a/0.txt",
        "a/1.txt",
        "space/0.txt",
        "space/1.txt",
    ]


def test_a_class_folder_without_texts_says_which_files_count(workshop: Workshop) -> None:
    models.put_pictures(workshop.home.data_folder, "only-pictures", 1)
    (event,) = workshop.jobs.answer(Scan())
    assert isinstance(event, inputs.Scanned)
    assert "put some in (.txt)" in event.problems[0].text


def test_a_part_is_what_the_method_makes_of_the_tokens(workshop: Workshop) -> None:
    event = workshop.compute()
    assert isinstance(event, inputs.PartComputed)
    H = 127 * np.stack([one_hot(text) for texts in TEXTS.values() for text in texts])
    statistics = statistics_coordinator("stsa").check(workshop.own, event.attached)
    upper = np.triu_indices(WIDTH)
    assert np.array_equal(statistics.gram.values, (H.T @ H)[upper].astype(np.int64))


def test_a_text_that_cannot_be_read_is_left_out_and_told(workshop: Workshop) -> None:
    bad = workshop.home.data_folder / "a" / "bad.txt"
    bad.write_bytes(b"\xff\xfe")
    event = workshop.compute()
    assert isinstance(event, inputs.PartComputed)
    assert len(event.used) == 4
    assert [(digest, "not UTF-8" in why) for digest, why in event.unusable] == [
        (file_digest(bad), True)
    ]


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    with path.open("wb") as file:
        file.truncate(MAX_TEXT_BYTES + 1)
    with pytest.raises(TextError, match=f"{MAX_TEXT_BYTES + 1} bytes exceed .* cut it"):
        read_sample(PictureFile(path), PREPROCESSING)


def test_a_model_is_installed_and_measured_on_texts(workshop: Workshop) -> None:
    test = workshop.home.folder / "test"
    put(test, "a", "rub", "bib", "so")
    put(test, "space", "no")
    (test / "space" / "broken.txt").write_bytes(b"\xff")
    workshop.jobs.answer(Scan())
    desired = models.store_model(workshop.blobs, exported())
    (installed,) = workshop.jobs.answer(InstallModel(desired))
    assert isinstance(installed, inputs.ModelInstalled), installed
    left_out, event = workshop.jobs.answer(Evaluate(installed.active))
    assert "space/broken.txt" in left_out.problem.text
    found = event.evaluation.results
    assert {name: (r.correct, r.total) for name, r in found.items()} == {
        "a": (2, 3),
        "space": (1, 1),
    }


def test_the_doctor_counts_texts(workshop: Workshop) -> None:
    told = [finding.text for finding in _folders(workshop.home)]
    assert any("4 texts in 2 class folders" in text for text in told)
