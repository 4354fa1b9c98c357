"""`fleetledger model import`: a model of one's own becomes a version, or is refused in words."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner, Result

from fleetledger.command_line import app
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.models.entries import ModelDesired, ModelExported, ModelImported
from fleetledger.export.noise import noise_inputs
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.errors import LearningError
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.models import Manifest
from tests.export.networks import data
from tests.export.own_networks import PICTURES as PICTURES_TOO
from tests.export.own_networks import boxes, classifier, segmenter
from tests.export.tails import with_tail
from tests.export.test_judging import growing_by_data

PICTURES = """\
mode = "RGB"
size = [12, 10]
mean = [0.5, 0.4, 0.3]
deviation = [0.2, 0.3, 0.4]
input_name = "image"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    run(folder, "coordinator", "init", "--trial", "--fleet", "birds")
    (tmp_path / "birds.onnx").write_bytes(data(classifier(softmax=True)))
    (tmp_path / "later.onnx").write_bytes(data(classifier(seed=8, softmax=True)))
    (tmp_path / "scenes.onnx").write_bytes(data(segmenter()))
    (tmp_path / "boxes.onnx").write_bytes(data(boxes()))
    (tmp_path / "birds.txt").write_text("wren\nrobin\nfinch\n", encoding="utf-8")
    (tmp_path / "scenes.json").write_text('["background", "cat", "dog"]', encoding="utf-8")
    (tmp_path / "pictures.toml").write_text(PICTURES, encoding="utf-8")
    return folder


def run(home: Path, *words: str) -> Result:
    done = CliRunner().invoke(app, [*words, "--home", str(home)])
    assert done.exit_code == 0, done.output
    return done


def words_of(home: Path, file: str, *words: str) -> list[str]:
    beside = home.parent
    given = [str(beside / word) if (beside / word).is_file() else word for word in words]
    described = ["--preprocessing", str(beside / "pictures.toml")]
    return ["model", "import", str(beside / file), *described, *given]


def take_in(home: Path, file: str, *words: str) -> Result:
    return run(home, *words_of(home, file, *words))


def refused(home: Path, file: str, *words: str) -> str:
    done = CliRunner().invoke(app, [*words_of(home, file, *words), "--home", str(home)])
    assert isinstance(done.exception, FleetledgerError | LearningError)
    return str(done.exception)


def entries(home: Path) -> list[ModelImported]:
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        return [ModelImported.model_validate(entry.body) for entry in ledger.find(ModelImported)]


def manifest(home: Path, version: int) -> Manifest:
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        (body,) = (
            ModelExported.model_validate(entry.body)
            for entry in ledger.find(ModelExported)
            if entry.body["version"] == version
        )
        return Manifest.read(Blobs(ledger, BlobStore(blob_folder(home))).get(body.manifest.digest))


def test_an_imported_model_is_a_version_that_goes_nowhere_by_itself(home: Path) -> None:
    said = take_in(home, "birds.onnx", "--classes", "birds.txt").output
    assert f"nowhere before `fleetledger model push 1 --home {home}`" in said
    assert "note: the file gives a probability of each class; its softmax is left out" in said
    assert "Note: the file gives a probability" in run(home, "ledger", "tail").output
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        assert not list(ledger.find(ModelDesired))
    (imported,) = entries(home)
    described = manifest(home, 1)
    assert described.method == "imported"
    assert described.class_names == imported.class_names == ("wren", "robin", "finch")
    assert described.frozen.digest == imported.frozen.digest
    assert "model 1 goes to all devices" in run(home, "model", "push", "1", "--yes").output


def test_it_is_told_from_models_that_were_learned(home: Path) -> None:
    take_in(home, "birds.onnx", "--classes", "birds.txt")
    assert "birds.onnx" in run(home, "model", "list").output
    assert "birds.onnx" in run(home, "model", "show", "1").output
    assert "imported from birds.onnx" in run(home, "ledger", "tail").output


def test_the_operator_says_what_looking_cannot_tell(home: Path) -> None:
    model = with_tail(lambda end, scores: end.add("Sigmoid", scores), 3)
    (home.parent / "labels.onnx").write_bytes(data(model))
    assert "say --gives probabilities" in refused(home, "labels.onnx", "--classes", "birds.txt")
    words = ("--classes", "birds.txt", "--gives", "probabilities")
    assert "probability of each class" in take_in(home, "labels.onnx", *words).output
    assert "labels.onnx is model 2" in take_in(home, "labels.onnx", "--answers", "raw").output


def test_a_second_version_with_the_same_frozen_part_moves_only_the_head(home: Path) -> None:
    take_in(home, "birds.onnx", "--classes", "birds.txt")
    take_in(home, "later.onnx", "--classes", "birds.txt")
    first, second = entries(home)
    assert second.frozen == first.frozen
    assert second.golden == first.golden
    assert second.head != first.head


def test_pixels_and_raw_outputs_come_in_by_the_same_verb(home: Path) -> None:
    take_in(home, "scenes.onnx", "--classes", "scenes.json", "--answers", "pixels")
    take_in(home, "boxes.onnx", "--answers", "raw")
    assert manifest(home, 1).answers == "pixels"
    raw = manifest(home, 2)
    assert (raw.answers, raw.output_shape, raw.class_names) == ("raw", (4, 30), ())
    assert Manifest.read(raw.canonical_bytes()) == raw


def test_the_ledger_holds_its_files_by_digest(home: Path) -> None:
    take_in(home, "birds.onnx", "--classes", "birds.txt")
    run(home, "ledger", "verify")
    said = run(home, "ledger", "replay", "--version", "1").output
    assert "imported from birds.onnx, and held by digest" in said
    assert "equal" in said
    (imported,) = entries(home)
    BlobStore(blob_folder(home)).place.delete(imported.head.digest)
    again = CliRunner().invoke(app, ["ledger", "replay", "--version", "1", "--home", str(home)])
    assert again.exit_code == 1
    assert "head" in again.output


def test_it_leaves_the_fleet_as_one_file_as_it_came(home: Path) -> None:
    take_in(home, "birds.onnx", "--classes", "birds.txt")
    out = home.parent / "out.onnx"
    run(home, "model", "export", "1", "--out", str(out))
    assert out.is_file()


def left(home: Path, version: int) -> tuple[Path, dict[str, Any]]:
    """Return the file that a version leaves the fleet as, and what is told beside it."""
    out = home.parent / f"out-{version}.onnx"
    run(home, "model", "export", str(version), "--out", str(out))
    return out, json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))


def test_operators_of_an_allowed_domain_leave_the_fleet_with_it(home: Path) -> None:
    model = classifier()
    model.graph.node[-1].output[0] = "before"
    model.graph.node.append(
        onnx.helper.make_node("Gelu", ["before"], ["logits"], domain="com.microsoft")
    )
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    (home.parent / "gelu.onnx").write_bytes(data(model))
    words = ("--classes", "birds.txt", "--gives", "scores")
    assert "--domain" in refused(home, "gelu.onnx", *words)
    take_in(home, "gelu.onnx", *words, "--domain", "com.microsoft")
    out, told = left(home, 1)
    assert told["domains"] == ["com.microsoft"]
    inputs = {"image": noise_inputs(PICTURES_TOO, 3)}
    np.testing.assert_allclose(
        LoadedModel(out.read_bytes()).run(inputs)["scores"],
        LoadedModel(data(model)).run(inputs)["logits"],
        rtol=1e-4,
        atol=1e-5,
    )


def test_what_is_told_of_an_exported_file_is_in_it(home: Path) -> None:
    take_in(home, "birds.onnx", "--classes", "birds.txt")
    take_in(home, "scenes.onnx", "--classes", "scenes.json", "--answers", "pixels")
    take_in(home, "boxes.onnx", "--answers", "raw")
    outputs = []
    for version in (1, 2, 3):
        out, told = left(home, version)
        assert told["outputs"] == [value.name for value in onnx.load(out).graph.output]
        assert "domains" not in told
        outputs.append((told["outputs"], told.get("output_shape")))
    scores = ["scores"]
    assert outputs == [(["scores", "probabilities"], None), (scores, None), (scores, [4, 30])]


@pytest.mark.parametrize(
    ("file", "words", "told"),
    [
        ("birds.onnx", (), "classes: left out"),
        ("birds.onnx", ("--classes", "nowhere.txt"), "nowhere.txt: cannot be read"),
        ("gone.onnx", ("--classes", "birds.txt"), "gone.onnx: cannot be read"),
        ("birds.txt", ("--classes", "birds.txt"), "are no ONNX model"),
        ("boxes.onnx", ("--classes", "birds.txt"), "--answers raw"),
        ("birds.onnx", ("--classes", "birds.txt", "--golden", "nowhere"), "golden: nowhere"),
        ("birds.onnx", ("--classes", "birds.txt", "--split", "no"), "split: 'no' is no value"),
    ],
)
def test_nothing_is_stored_of_what_is_refused(
    home: Path, file: str, words: tuple[str, ...], told: str
) -> None:
    assert told in refused(home, file, *words)
    assert not ledger_path(home).exists()
    assert not [path for path in blob_folder(home).rglob("*") if path.is_file()]


def test_names_that_stand_twice_are_refused(home: Path) -> None:
    (home.parent / "birds.txt").write_text("wren\nwren\nfinch\n", encoding="utf-8")
    assert "'wren', stands at 1 already" in refused(home, "birds.onnx", "--classes", "birds.txt")


def test_size_and_kind_of_a_file_are_looked_at_before_it_is_read(home: Path) -> None:
    with (home.parent / "huge.onnx").open("wb") as file:
        file.truncate(3 << 30)
    os.mkfifo(home.parent / "pipe.onnx")
    words = ("--classes", "birds.txt")
    assert "huge.onnx: 3221225472 bytes exceed 536870912" in refused(home, "huge.onnx", *words)
    assert "pipe.onnx: no regular file" in refused(home, "pipe.onnx", *words)


def test_limits_of_judging_are_the_operators(home: Path) -> None:
    with (home / "coordinator.toml").open("a", encoding="utf-8") as settings:
        settings.write("\n[imports]\nmemory_mib = 16\n")
    (home.parent / "large.onnx").write_bytes(data(growing_by_data()))
    pictures = PICTURES.replace("[12, 10]", "[112, 112]")
    (home.parent / "pictures.toml").write_text(pictures, encoding="utf-8")
    said = refused(home, "large.onnx", "--classes", "birds.txt", "--gives", "scores")
    assert "takes more than 16 MiB of memory" in said
