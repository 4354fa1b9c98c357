"""What a bank promises: the numbers of the frozen model, each picture computed once."""

import multiprocessing
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.models.inference.installed_model import (
    Frozen,
    InferenceSession,
    SessionSettings,
)
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.values import Digest
from fleetledger.simulator.datasets.image_folder import load_image_folder
from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.errors import BackboneError, DatasetError
from fleetledger.simulator.features import providers
from fleetledger.simulator.features.bank import open_bank
from fleetledger.simulator.features.frozen_features import ProjectedFeatures, WholeFeatures
from fleetledger.simulator.features.interface import FrozenModel
from tests.export.networks import COLOUR, WIDTH, data, network, pooled, value
from tests.simulator.features.scenes import BACKBONE, NAMES, Heard, frozen_model, split


def agent_features(model: FrozenModel, samples: LabelledImages, folder: Path) -> np.ndarray:
    """What an agent computes: batches of eight on one thread."""
    path = folder / "frozen.onnx"
    path.write_bytes(model.data)
    session = InferenceSession(path, SessionSettings())
    pixels = [preprocess(samples.picture(index), COLOUR) for index in range(len(samples))]
    return Frozen(session, batch=8).features(pixels)


@pytest.mark.parametrize("kind", ["integer", "none", "gaussian"])
def test_the_numbers_are_those_of_an_agent_bit_for_bit(kind, tmp_path: Path):
    model, parts = frozen_model(kind), split()
    features = open_bank(parts, BACKBONE, tmp_path, "cpu", Heard()).frozen(model)
    assert isinstance(features, ProjectedFeatures)
    for samples, rows in ((parts.train, features.train), (parts.test, features.test)):
        given = rows(np.arange(len(samples)))
        assert given.dtype == np.float32
        assert np.array_equal(given, agent_features(model, samples, tmp_path))


def test_rows_come_in_the_order_in_which_they_are_asked_for(tmp_path: Path):
    features = open_bank(split(), BACKBONE, tmp_path, "cpu", Heard()).frozen(
        frozen_model("integer")
    )
    for rows, count in ((features.train, 30), (features.test, 10)):
        everything = rows(np.arange(count))
        some = np.array([7, 2, 2, 9])
        assert np.array_equal(rows(some), everything[some])
        assert rows(np.empty(0, np.int64)).shape == (0, everything.shape[1])


def test_test_rows_are_the_same_when_they_are_asked_for_again(tmp_path: Path):
    features = open_bank(split(), BACKBONE, tmp_path, "cpu", Heard()).frozen(
        frozen_model("integer")
    )
    few = features.test(np.array([1, 4]))
    everything = features.test(np.arange(10))
    assert np.array_equal(few, everything[[1, 4]])
    assert np.array_equal(features.test(np.arange(10)), everything)


def test_the_second_run_extracts_nothing(tmp_path: Path):
    first, second = Heard(), Heard()
    before = open_bank(split(), BACKBONE, tmp_path, "cpu", first).frozen(frozen_model("none"))
    after = open_bank(split(), BACKBONE, tmp_path, "cpu", second).frozen(frozen_model("none"))
    assert first.extracted
    assert not second.extracted
    assert np.array_equal(before.train(np.arange(30)), after.train(np.arange(30)))
    assert after.seconds_per_image > 0


def test_another_split_of_the_same_pictures_extracts_nothing(tmp_path: Path):
    parts, heard = split(), Heard()
    open_bank(parts, BACKBONE, tmp_path, "cpu", Heard())
    swapped = Split(parts.test, parts.train.take(np.array([3, 1, 29])))
    features = open_bank(swapped, BACKBONE, tmp_path, "cpu", heard).frozen(frozen_model("none"))
    assert not heard.extracted
    fresh = open_bank(swapped, BACKBONE, tmp_path / "fresh", "cpu", Heard())
    assert np.array_equal(
        features.test(np.arange(3)), fresh.frozen(frozen_model("none")).test(np.arange(3))
    )


def test_only_new_pictures_are_extracted(tmp_path: Path):
    heard = Heard()
    open_bank(split(train=30), BACKBONE, tmp_path, "cpu", Heard())
    open_bank(split(train=37), BACKBONE, tmp_path, "cpu", heard)
    assert any("of 7 pictures" in phase for phase in heard.phases)


def test_only_pictures_of_the_classes_asked_for_are_extracted(tmp_path: Path):
    heard, model = Heard(), frozen_model("integer")
    some = open_bank(split(), BACKBONE, tmp_path, "cpu", heard, classes=[1]).frozen(model)
    assert any("of 20 pictures" in phase for phase in heard.phases)
    everything = open_bank(split(), BACKBONE, tmp_path, "cpu", Heard()).frozen(model)
    foxes = np.arange(1, 30, 2)
    assert np.array_equal(some.train(foxes), everything.train(foxes))
    assert np.array_equal(some.test(foxes[:5]), everything.test(foxes[:5]))
    for rows in (some.train, some.test):
        with pytest.raises(BackboneError, match="1 pictures are of classes"):
            rows(np.array([1, 2]))


@pytest.mark.parametrize("change", [{"mean": (0.1, 0.4, 0.3)}, {"interpolation": "nearest"}])
def test_another_transform_is_another_folder(change, tmp_path: Path):
    heard = Heard()
    open_bank(split(), BACKBONE, tmp_path, "cpu", Heard())
    other = replace(BACKBONE, preprocessing=COLOUR.model_copy(update=change))
    open_bank(split(), other, tmp_path, "cpu", heard)
    assert heard.extracted
    assert len(list(tmp_path.iterdir())) == 2


def test_a_frozen_model_that_differs_from_its_parts_is_run_for_every_picture(tmp_path: Path):
    nodes, constants = pooled()
    weights = next(tensor for tensor in constants if tensor.name == "weights")
    weights.raw_data = np.frombuffer(weights.raw_data, np.float32)[::-1].tobytes()
    reversed_network = network((nodes, constants), value("flat", ["batch", WIDTH]))
    other = replace(BACKBONE, data=data(reversed_network))
    model, parts, heard = frozen_model("integer", other), split(), Heard()
    features = open_bank(parts, BACKBONE, tmp_path, "cpu", heard).frozen(model)
    assert isinstance(features, WholeFeatures)
    assert any("running it for all" in phase for phase in heard.phases)
    for samples, rows in ((parts.train, features.train), (parts.test, features.test)):
        expected = agent_features(model, samples, tmp_path)
        assert np.array_equal(rows(np.arange(len(samples))), expected)
    assert features.seconds_per_image > 0


def test_picture_files_give_what_the_same_images_give(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "digests"))
    parts = split()
    for name, part in (("train", parts.train), ("test", parts.test)):
        for index in range(len(part)):
            path = tmp_path / name / NAMES[part.labels[index]] / f"{index:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            part.picture(index).save(path)
    files = load_image_folder(tmp_path, test_share=0.5, seed=0)
    heard = Heard()
    images = open_bank(parts, BACKBONE, tmp_path / "cache", "cpu", Heard())
    bank = open_bank(files, BACKBONE, tmp_path / "cache", "cpu", heard)
    assert not heard.extracted
    order = np.argsort(np.arange(30) % 2, kind="stable")  # folders come class by class
    model = frozen_model("integer")
    assert np.array_equal(
        bank.frozen(model).train(np.arange(30)), images.frozen(model).train(order)
    )


def test_a_picture_that_cannot_be_preprocessed_is_told(tmp_path: Path):
    pixels = np.zeros((1, 1, 20_000, 3), np.uint8)
    strip = LabelledImages(pixels, np.zeros(1, np.int64), NAMES)
    crop = COLOUR.model_copy(update={"resize": "shorter_side_crop", "shorter_side": 6000})
    with pytest.raises(DatasetError, match="too narrow to be cropped"):
        open_bank(
            Split(strip, strip), replace(BACKBONE, preprocessing=crop), tmp_path, "cpu", Heard()
        )


def test_a_gpu_that_is_not_there_is_an_error_in_words(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(providers, "_cuda_works", lambda: False)
    with pytest.raises(BackboneError, match=r"engine\.device: 'cuda' does not work .* 'auto'"):
        open_bank(split(), BACKBONE, tmp_path, "cuda", Heard())


@pytest.mark.gpu
def test_a_gpu_gives_nearly_the_same_features(tmp_path: Path):
    if providers.choose_provider("auto") != providers.CUDA:
        pytest.skip("ONNX Runtime finds no CUDA device")
    model = frozen_model("gaussian")
    rows = [
        open_bank(split(), BACKBONE, tmp_path, device, Heard()).frozen(model).train(np.arange(30))
        for device in ("cpu", "cuda")
    ]
    assert rows[1] == pytest.approx(rows[0], abs=1e-2 * float(rows[0].max()))


def extract(cache: Path, ready, results) -> None:
    ready.wait()
    bank = open_bank(split(train=200), BACKBONE, cache, "cpu", Heard())
    h = bank.frozen(frozen_model("integer")).train(np.arange(200))
    results.put(Digest.of(h.tobytes()))


def test_two_runs_at_once_share_the_work(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(2), context.Queue()
    runs = [context.Process(target=extract, args=(tmp_path, ready, results)) for _ in range(2)]
    for run in runs:
        run.start()
    answers = [results.get(timeout=300) for _ in runs]
    for run in runs:
        run.join()
    assert answers[0] == answers[1]
    (folder,) = tmp_path.iterdir()
    assert (folder / "digests.bin").stat().st_size == 210 * 32


def test_a_cache_that_was_cleared_is_filled_again(tmp_path: Path):
    heard = Heard()
    open_bank(split(), BACKBONE, tmp_path, "cpu", Heard())
    shutil.rmtree(next(tmp_path.iterdir()))
    open_bank(split(), BACKBONE, tmp_path, "cpu", heard)
    assert heard.extracted
