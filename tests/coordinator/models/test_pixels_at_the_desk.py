"""A fleet that learns the classes of pixels: its models go out, join, and are made again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from typer.testing import CliRunner

from fleetledger.coordinator.cli import models
from fleetledger.coordinator.core.work import FreezeNetwork
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.models.joined import joined_model
from fleetledger.coordinator.models.network_maker import NetworkMaker
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.lineages.entries import Successor
from fleetledger.coordinator.topics.models.entries import ModelFailed
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.coordinator.topics.rounds.prunings import Prunings
from fleetledger.export.runtime import LoadedModel
from fleetledger.export.segmentation import DenseHead
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.training.network_weights import decode_weights
from fleetledger.schemas.models import FEATURES, SCORES, DesiredModel, Manifest
from tests.coordinator.models.pixel_desk import SCENES, PixelDesk
from tests.coordinator.replay.stories import replay


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PixelDesk]:
    """A fleet that has learned two classes, and then a third."""
    made = PixelDesk(tmp_path_factory.mktemp("desk"))
    made.learn("circle", "square")
    made.learn("cross")
    yield made
    made.close()


def manifest_of(desk: PixelDesk, version: int) -> Manifest:
    exported = desk.models()[version - 1]
    return Manifest.read(desk.coordinator.blobs.get(exported.manifest.digest))


def images(count: int) -> np.ndarray:
    return np.random.default_rng(count).normal(size=(count, *SCENES.shape)).astype(np.float32)


def scores_of(desk: PixelDesk, manifest: Manifest, pictures: np.ndarray) -> np.ndarray:
    """Run a model's two files one after the other."""
    trunk, head = (
        LoadedModel(desk.coordinator.blobs.get(file.digest))
        for file in (manifest.frozen, manifest.head)
    )
    return head.run({FEATURES: trunk.run({"image": pictures})[FEATURES]})[SCORES]


def test_every_stage_gives_a_model_with_a_row_for_the_background_and_each_class(
    desk: PixelDesk,
) -> None:
    first, second = manifest_of(desk, 1), manifest_of(desk, 2)
    assert first.class_names == ("background", "circle", "square")
    assert second.class_names == ("background", "circle", "square", "cross")
    assert {first.answers, second.answers} == {"pixels"}
    assert first.golden == second.golden
    assert (first.logit_scale, first.method) == (1.0, "fbl")
    assert desk.device.wait_for(DesiredModel, 2).version == 2
    assert scores_of(desk, second, images(1)).shape == (1, 4, *SCENES.size)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.torch
def test_a_model_gives_the_scores_of_the_weights_that_the_round_gave(
    desk: PixelDesk, count: int
) -> None:
    ledger = desk.coordinator.engine.ledger
    (*_, entry) = ledger.find(WeightsAveraged)
    averaged = WeightsAveraged.model_validate(entry.body)
    side = training_coordinator("fbl")
    lineage = desk.coordinator.engine.core.state.lineages.network
    assert lineage is not None
    network = side.read_assignment(lineage.settings).network  # type: ignore[attr-defined]
    data = desk.coordinator.blobs.get(averaged.weights.digest)
    arrays, names = decode_weights(data, network)
    assert names == ("circle", "square", "cross")
    manifest = manifest_of(desk, 2)
    head = DenseHead(arrays["head.weight"], arrays["head.bias"], (8, 12), SCENES.size)
    trunk = LoadedModel(desk.coordinator.blobs.get(manifest.frozen.digest))
    features = trunk.run({"image": images(count)})[FEATURES]
    found = scores_of(desk, manifest, images(count))
    np.testing.assert_allclose(found, head.expected(features), atol=1e-4)
    import torch

    from fleetledger.learning.networks.conversion import to_tensors
    from fleetledger.learning.networks.segmentation.torch_layers import DensePass
    from fleetledger.learning.networks.torch_layers import Mode

    with torch.no_grad():
        expected, _ = DensePass(network)(
            *to_tensors(arrays), torch.from_numpy(images(count)), Mode()
        )
    np.testing.assert_allclose(found, expected.logits.numpy(), atol=1e-4)


def test_a_version_becomes_one_file_with_the_scores_of_every_pixel(
    desk: PixelDesk, tmp_path: Path
) -> None:
    out, home = tmp_path / "model.onnx", str(desk.folder)
    result = CliRunner().invoke(models.app, ["export", "2", "--out", str(out), "--home", home])
    assert result.exit_code == 0, result.output
    assert "model 2 for 3 classes and the background" in result.output
    told = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    assert (told["answers"], told["outputs"]) == ("pixels", ["scores"])
    assert told["class_names"] == ["background", "circle", "square", "cross"]
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["scores"]
    assert session.get_outputs()[0].shape == ["N", 4, *SCENES.size]
    for count in (1, 3):
        (found,) = session.run(None, {"image": images(count)})
        wanted = scores_of(desk, manifest_of(desk, 2), images(count))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert joined_model(desk.folder, 2).difference <= 1e-4


def test_rounds_and_models_are_made_again_equal(desk: PixelDesk) -> None:
    code, out = replay(desk.folder, "--all")
    assert code == 0, out
    lines = [line.split("\t") for line in out.splitlines()[:-1]]
    assert [line[1] for line in lines] == [
        *("round 1, phase train", "model 1"),
        *("round 2, phase train", "model 2"),
    ]
    assert {line[2] for line in lines} == {"equal"}
    assert "old-model" in lines[2][3], "the model of the stage before goes with it"


def test_it_cannot_freeze_for_a_method_of_whole_pictures(desk: PixelDesk) -> None:
    ledger = desk.coordinator.engine.ledger
    averaged = [
        WeightsAveraged.model_validate(entry.body) for entry in ledger.find(WeightsAveraged)
    ]
    network = desk.coordinator.engine.core.state.lineages.network
    assert network is not None
    freezing = network.model_copy(update={"successor": Successor(method="stsa", settings={})})
    maker = NetworkMaker(desk.folder, BlobStore(blob_folder(desk.folder)))
    happened = maker.freeze(FreezeNetwork(freezing, averaged[-1], 0)).happening
    assert isinstance(happened, ModelFailed)
    assert "'small_dense' gives every pixel a class and is no backbone" in happened.reason


def test_the_ledger_and_its_blobs_fit(desk: PixelDesk) -> None:
    with LedgerReader.open_read_only(ledger_path(desk.folder)) as reader:
        report = verify(
            reader, Blobs(reader, BlobStore(blob_folder(desk.folder))), prunings=Prunings()
        )
    assert report.ok, str(report)
