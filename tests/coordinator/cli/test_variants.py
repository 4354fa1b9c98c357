"""`fleetledger model variants`: made on a folder of images, shown, and taken away."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fleetledger.command_line import app
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.lineages.entries import VariantsMade
from fleetledger.runtime.errors import FleetledgerError
from tests.device_agent import model_files as models
from tests.device_agent.making import GREY_8
from tests.device_agent.models import variant_models


@pytest.fixture(scope="module")
def made_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    run(folder / "home", "coordinator", "init", "--trial", "--fleet", "birds")
    (folder / "backbone.onnx").write_bytes(variant_models.backbone())
    (folder / "backbone.json").write_text(GREY_8.model_dump_json(), encoding="utf-8")
    words = ("--preprocessing", str(folder / "backbone.json"))
    run(folder / "home", "model", "import-backbone", str(folder / "backbone.onnx"), *words)
    return folder / "home"


@pytest.fixture
def home(made_home: Path, tmp_path: Path) -> Path:
    """A coordinator with a network of convolutions as its frozen model."""
    return shutil.copytree(made_home, tmp_path / "home", symlinks=True)


def run(home: Path, *words: str) -> Result:
    done = CliRunner().invoke(app, [*words, "--home", str(home)], env={"COLUMNS": "200"})
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def refused(home: Path, *words: str) -> str:
    done = CliRunner().invoke(app, ["model", "variants", *words, "--home", str(home)])
    assert isinstance(done.exception, FleetledgerError)
    return str(done.exception)


def pictures(folder: Path, count: int) -> str:
    for name in models.CLASSES:
        models.put_pictures(folder, name, *range(count))
    return str(folder)


def entries(home: Path) -> list[VariantsMade]:
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        found = ledger.find(VariantsMade)
        return [VariantsMade.model_validate(entry.body) for entry in found]


def test_variants_are_made_shown_and_taken_away(home: Path, tmp_path: Path) -> None:
    assert "has no variants" in run(home, "model", "variants").output
    images = pictures(tmp_path / "images", 100)
    said = run(home, "model", "variants", "--calibration", images).output
    assert "calibrated on 100 images, measured on 100 others" in said
    assert "int8: " in said
    assert "there is no model yet: each is measured when it is exported" in said
    assert "have the variants fp16 and int8 from the next one on" in said
    (made,) = entries(home)
    assert {"onnx", "onnxruntime"} == set(made.tools)
    for digest in made.blobs:
        assert list(blob_folder(home).rglob(f"*{digest}*")), "its files are stored"
    assert "features stray by" in run(home, "model", "variants").output
    run(home, "model", "variants", "--none")
    assert "has no variants" in run(home, "model", "variants").output


def test_a_ledger_with_variants_verifies_and_replays(home: Path, tmp_path: Path) -> None:
    images = pictures(tmp_path / "images", 100)
    run(home, "model", "variants", "--calibration", images)
    run(home, "model", "variants", "--none")
    run(home, "ledger", "verify")
    run(home, "ledger", "replay", "--all")
    said = " ".join(run(home, "ledger", "tail").output.split())
    assert "has variants: fp16" in said
    assert "has no variants any more" in said


def test_one_alone_can_be_made_and_is_the_same_file(home: Path, tmp_path: Path) -> None:
    images = pictures(tmp_path / "images", 100)
    run(home, "model", "variants", "--calibration", images, "--only", "int8")
    run(home, "model", "variants", "--calibration", images)
    alone, both = entries(home)
    assert [item.name for item in alone.variants] == ["int8"]
    assert alone.variants[0] == both.variants[1]


def test_what_makes_no_sense_is_refused_in_words(home: Path, tmp_path: Path) -> None:
    assert "give --calibration FOLDER too" in refused(home, "--only", "int8")
    few = pictures(tmp_path / "few", 10)
    assert "none: has no meaning with" in refused(home, "--none", "--calibration", few)
    assert "20 images that can be read; give at least 200" in refused(home, "--calibration", few)
    assert not entries(home)


def test_a_fleet_without_a_frozen_model_is_told_how_to_have_one(tmp_path: Path) -> None:
    run(tmp_path / "home", "coordinator", "init", "--trial", "--fleet", "birds")
    run(tmp_path / "home", "coordinator", "admit", "camera-1")
    assert "`fleetledger model import-backbone FILE --preprocessing FILE` brings one" in refused(
        tmp_path / "home"
    )
