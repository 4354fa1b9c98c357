"""Dense models in ONNX Runtime: their scores, and the self-test before they are switched to."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.errors import LoadError, SelfTestError
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import (
    Frozen,
    InstalledModel,
    SessionSettings,
)
from fleetledger.device_agent.models.installer import Installer
from fleetledger.device_agent.models.self_test import self_test
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.export.golden import build_dense_golden
from fleetledger.export.network_head import NETWORK_RULES
from fleetledger.export.package import ExportedModel, Lineage, ModelFacts, pack_model
from fleetledger.export.segmentation import export_segmentation
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import BACKGROUND, GOLDEN_INPUTS, SMALL_SCORES
from fleetledger.schemas.values import ClassName
from tests.device_agent import model_files as models
from tests.device_agent.models.scenes import dense
from tests.learning.networks.segmentation.reference import NAMES, used

PICTURE = preprocess(dense.painted(dense.blocks(0, 1, 2)), dense.COLOUR)


@pytest.fixture
def blobs(tmp_path: Path) -> BlobFolder:
    return BlobFolder(tmp_path / "blobs")


def loaded(blobs: BlobFolder, exported: ExportedModel) -> InstalledModel:
    models.store_model(blobs, exported)
    return ModelHost(blobs, SessionSettings()).model(exported.manifest)


def golden_of(exported: ExportedModel) -> tuple[bytes, bytes]:
    manifest = exported.manifest
    return exported.files[manifest.golden.digest], exported.files[manifest.golden_scores.digest]


def test_a_picture_gets_scores_for_every_pixel(blobs: BlobFolder) -> None:
    model = loaded(blobs, dense.exported())
    scores = model.pixel_scores(PICTURE)
    assert scores.large.shape == (3, *dense.SIZE)
    assert scores.small.shape == (3, 8, 12)
    means = PICTURE.reshape(3, 8, 2, 12, 2).mean(axis=(2, 4))
    head = dense.head(("red", "green"))
    expected = np.einsum("cm,mhw->chw", head.weight, means) + head.bias[:, None, None]
    np.testing.assert_allclose(scores.small, expected, atol=1e-5)
    centres = scores.large.argmax(axis=0)[:, [3, 12, 20]]
    assert np.array_equal(centres, np.tile([0, 1, 2], (16, 1)))


def test_the_width_of_features_is_told_of_maps_too(blobs: BlobFolder) -> None:
    exported = dense.exported()
    models.store_model(blobs, exported)
    frozen = ModelHost(blobs, SessionSettings()).frozen(exported.manifest.frozen.digest)
    assert isinstance(frozen, Frozen)
    assert frozen.width == 3


def test_a_good_model_passes_its_self_test(blobs: BlobFolder) -> None:
    exported = dense.exported()
    model = loaded(blobs, exported)
    self_test(model, *golden_of(exported))
    self_test(model, *golden_of(exported), samples=[PICTURE, PICTURE])


def a_network(seed: int = 0) -> ExportedModel:
    """A network of convolutions, with weights moved by `seed`."""
    network = build_segmentation("small_dense", dense.COLOUR.shape)
    arrays = used(network)
    name = next(name for name in arrays if arrays[name].ndim == 4)
    noise = np.random.default_rng(seed).normal(size=arrays[name].shape).astype(np.float32)
    made = export_segmentation(
        network, arrays | {name: arrays[name] + bool(seed) * noise}, dense.COLOUR
    )
    lineage = Lineage(made.trunk, build_dense_golden(dense.COLOUR), dense.COLOUR)
    names = (ClassName(BACKGROUND), *map(ClassName, NAMES))
    return pack_model(lineage, ModelFacts(1, "fbl", names, 5, 6, 1.0), made.head, NETWORK_RULES)


def test_altered_weights_fail_the_self_test(blobs: BlobFolder) -> None:
    good, altered = a_network(), a_network(seed=1)
    golden, scores = golden_of(good)
    self_test(loaded(blobs, good), golden, scores)
    with pytest.raises(SelfTestError, match="scores of the golden batch stray by"):
        self_test(loaded(blobs, altered), golden, scores)


def test_a_model_of_altered_weights_is_not_switched_to(blobs: BlobFolder, tmp_path: Path) -> None:
    slots = ModelSlots(tmp_path / "slots")
    host = ModelHost(blobs, SessionSettings())
    installer = Installer(blobs, slots, host, lambda _: [PICTURE])
    good = dense.exported()
    assert isinstance(installer.install(models.store_model(blobs, good)), inputs.ModelInstalled)
    altered = dense.exported(("green", "red"), version=2)
    manifest = altered.manifest.model_copy(update={"golden_scores": good.manifest.golden_scores})
    swapped = ExportedModel(manifest, {**altered.files, **good.files})
    event = installer.install(models.store_model(blobs, swapped))
    assert isinstance(event, inputs.ModelRefused)
    assert event.rolled_back
    assert "stray by" in event.reason
    assert slots.active().version == 1


def test_scores_that_are_no_numbers_fail_the_self_test(blobs: BlobFolder) -> None:
    exported = dense.exported()
    broken = np.full_like(PICTURE, np.nan)
    self_test(loaded(blobs, exported), *golden_of(exported), samples=[PICTURE, broken])
    with pytest.raises(SelfTestError, match="infinity in the scores of all 2 images of"):
        self_test(loaded(blobs, exported), *golden_of(exported), samples=[broken, broken])


def test_the_large_scores_are_tested_where_there_is_no_image_yet(
    blobs: BlobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = dense.exported()
    model = loaded(blobs, exported)
    honest = model.pixel_scores

    def resized_badly(picture: np.ndarray):
        return replace(honest(picture), large=np.full((3, *dense.SIZE), np.inf, np.float32))

    monkeypatch.setattr(model, "pixel_scores", resized_badly)
    with pytest.raises(SelfTestError, match="a golden picture hold NaN or infinity"):
        self_test(model, *golden_of(exported))


def test_a_golden_batch_of_samples_fails_the_self_test(blobs: BlobFolder) -> None:
    exported = dense.exported()
    model = loaded(blobs, exported)
    golden, scores = golden_of(exported)
    flat = safetensors.numpy.save({SMALL_SCORES: np.zeros((2, 3), np.float32)})
    with pytest.raises(SelfTestError, match=r"golden scores are float32 of shape \(2, 3\)"):
        self_test(model, golden, flat)
    more = safetensors.numpy.save({GOLDEN_INPUTS: np.zeros((3, *PICTURE.shape), np.float32)})
    with pytest.raises(SelfTestError, match="golden scores are"):
        self_test(model, more, scores)
    with pytest.raises(SelfTestError, match="no golden batch"):
        self_test(model, golden, golden)


def test_a_head_with_other_rows_than_the_manifest_is_refused(blobs: BlobFolder) -> None:
    exported, more = dense.exported(), dense.exported(("red", "green", "blue"), version=2)
    manifest = exported.manifest.model_copy(update={"head": more.manifest.head})
    models.store_model(blobs, exported)
    models.store_model(blobs, more)
    model = ModelHost(blobs, SessionSettings()).model(manifest)
    with pytest.raises(LoadError, match="3 planes were expected"):
        model.pixel_scores(PICTURE)
    with pytest.raises(LoadError, match="3 planes"):
        self_test(model, *golden_of(exported))
