"""The exported pair of a dense network, asked about the pixels of test scenes."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from rich.console import Console

from fleetledger.learning.numerics.preprocessing import preprocess, sized_mask
from fleetledger.schemas.models import Manifest
from fleetledger.simulator.datasets.segmentation.masks import show_classes
from fleetledger.simulator.errors import EngineError, RunError
from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.metrics.any_answers import AnyAnswers
from fleetledger.simulator.metrics.measurement import measure_seed
from fleetledger.simulator.metrics.pixel_answers import PixelAnswers
from fleetledger.simulator.metrics.plan_counts import PlanCounts
from fleetledger.simulator.metrics.results import summarise
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.report.files import scenes_picture
from fleetledger.simulator.run import scene_evaluation
from fleetledger.simulator.run.folder import SeedFolder
from fleetledger.simulator.run.progress import Screen
from fleetledger.simulator.run.scene_evaluation import DenseModel
from fleetledger.simulator.run.seed_run import run_seed
from fleetledger.simulator.shown_scenes import ShownScenes, choose_scenes
from tests.simulator.run.dense_engine import (
    DEVICE,
    SEEN_AS,
    TASKS,
    DenseEngine,
    export_scenes,
    prepared_scenes,
)
from tests.simulator.run.test_evaluation import model as model_of_samples  # noqa: F401

CPU = "CPUExecutionProvider"


def run(
    prepared, root: Path, engine=DenseEngine
) -> tuple[tuple[StageRecord, ...], AnyAnswers, SeedFolder]:
    folder = SeedFolder(root)
    root.mkdir(exist_ok=True)
    with Screen(Console(file=StringIO()), 1) as screen:
        return (*run_seed(prepared, folder, engine, screen), folder)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory):
    prepared = prepared_scenes()
    return prepared, *run(prepared, tmp_path_factory.mktemp("run") / "seed-3")


def slow_answers(folder: Path, names, scene) -> np.ndarray:
    """Both files in ONNX Runtime on one scene: the label plus one of each pixel."""
    manifest = Manifest.read((folder / "manifest.json").read_bytes())
    trunk = onnxruntime.InferenceSession(folder / manifest.frozen.digest)
    head = onnxruntime.InferenceSession(folder / manifest.head.digest)
    inputs = preprocess(scene.picture, manifest.preprocessing)[np.newaxis]
    (features,) = trunk.run(["features"], {"image": inputs})
    (scores,) = head.run(["scores"], {"features": features})
    rows = scores[0].argmax(axis=0)
    values = [0, *(names.index(name) + 1 for name in manifest.class_names[1:])]
    return np.array(values)[rows]


def slow_confusion(prepared, root: Path, stage: int) -> np.ndarray:
    seen = [label for task in TASKS[:stage] for label in task]
    counts = np.zeros((11, 11), np.int64)
    scenes = prepared.split.test.scenes
    for index in range(len(scenes)):
        scene = scenes.scene(index)
        if not np.isin(scene.mask, [label + 1 for label in seen]).any():
            continue
        said = slow_answers(root / f"exported-{stage}", scenes.class_names, scene)
        for truth, value in zip(sized_mask(scene.mask, SEEN_AS).ravel(), said.ravel(), strict=True):
            if truth != 255:
                counts[truth if int(truth) - 1 in seen else 0, value] += 1
    return counts


@pytest.mark.parametrize("stage", [1, 2])
def test_pixels_are_counted_as_scene_by_scene_and_later_classes_are_background(done, stage: int):
    prepared, _, answers, folder = done
    assert isinstance(answers, PixelAnswers)
    slow = slow_confusion(prepared, folder.root, stage)
    assert answers.confusion[stage - 1].tolist() == slow.tolist()
    assert slow.sum() > 1000
    assert (slow.sum(axis=0) > 0).sum() > 1
    assert answers.stage_of_class.tolist() == [0, 1, 0, 1, 2, 0, 0, 0, 0, 0]


def test_the_record_tells_what_the_asking_took(done):
    prepared, records, _, _ = done
    labels = prepared.split.test.scenes.labels
    for record, seen in zip(records, ([1, 3], [1, 3, 4]), strict=True):
        assert record.inference.scenes == labels[:, seen].any(axis=1).sum()
        assert 0 < record.inference.seconds <= record.seconds["evaluation"]
        assert (record.inference.provider, record.inference.batch) == (CPU, 8)


def test_scenes_are_kept_with_what_every_model_said_of_them(done):
    prepared, _, _, folder = done
    kept = folder.kept().scenes
    scenes = prepared.split.test.scenes
    chosen = choose_scenes(scenes.labels, [3, 1, 4])
    assert scenes.labels[chosen][:, [1, 3, 4]].any(axis=0).all()
    assert len(kept.truth) == len(chosen) >= 4
    for place, index in enumerate(chosen):
        truth = sized_mask(scenes.mask(index), SEEN_AS)
        assert np.array_equal(kept.truth[place], show_classes(truth, [1, 3, 4]))
        for stage in (1, 2):
            model = folder.root / f"exported-{stage}"
            said = slow_answers(model, scenes.class_names, scenes.scene(index))
            assert np.array_equal(kept.said[stage - 1, place], said)
        picture = Image.fromarray(kept.pictures[place].transpose(1, 2, 0))
        whole = scenes.picture(index)
        assert picture.tobytes() == whole.resize((26, 20), Image.Resampling.BILINEAR).tobytes()


def test_what_was_kept_makes_a_report(done, tmp_path: Path):
    prepared, records, answers, folder = done
    labels = prepared.split.train.labels
    metrics = measure_seed(records, answers, PlanCounts.of(prepared.plan, labels))
    assert metrics.score == "mIoU"
    assert metrics.stages[1].inference == records[1].inference
    assert [(device.device, device.accuracy) for device in metrics.devices] == [(DEVICE, None)]
    shown = scenes_picture(folder.root.parent, summarise(prepared.scenario, {}, {3: metrics}))
    assert shown.png.startswith(b"\x89PNG")


def test_a_run_of_the_model_has_no_more_scores_than_memory_is_given(done, tmp_path, monkeypatch):
    prepared, _, answers, _ = done
    monkeypatch.setattr(scene_evaluation, "_MOST_SCORES", 3 * 20 * 26 * 2)
    records, small, _ = run(prepared, tmp_path / "seed-3")
    assert [record.inference.batch for record in records] == [2, 1]
    assert np.array_equal(small.confusion, answers.confusion)


class Stumbling(DenseEngine):
    def learn(self, stage):
        if stage.number == 2:
            raise EngineError("stage 2: nobody answered")
        return super().learn(stage)


def test_a_seed_that_was_cut_off_goes_on_with_what_it_kept(done, tmp_path: Path):
    prepared, _, answers, whole = done
    root = tmp_path / "seed-3"
    with pytest.raises(EngineError):
        run(prepared, root, Stumbling)
    assert SeedFolder(root).kept().answers.stages == 1
    made = []

    class Watched(DenseEngine):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments)
            made.append(self)

    records, resumed, folder = run(prepared, root, Watched)
    assert made[0].learned == [2]
    assert len(records) == 2
    assert np.array_equal(resumed.confusion, answers.confusion)
    assert np.array_equal(folder.kept().scenes.said, whole.kept().scenes.said)


def test_a_stage_whose_record_was_never_written_is_asked_again(done, tmp_path: Path):
    prepared, _, answers, _ = done
    root = tmp_path / "seed-3"
    run(prepared, root)
    stages = root / "stages.jsonl"
    stages.write_text(stages.read_text().splitlines(keepends=True)[0])
    _, again, _ = run(prepared, root)
    assert np.array_equal(again.confusion, answers.confusion)


def spoil_with_samples(root: Path) -> None:
    Answers(np.array([0, 1]), np.array([[0, 1]] * 2, np.int32), np.array([1, 2])).save(
        root / "predictions.npz"
    )


def spoil_with_other_classes(root: Path) -> None:
    answers = PixelAnswers.load(root / "predictions.npz")
    other = np.where(answers.stage_of_class == 2, 1, answers.stage_of_class)
    PixelAnswers(answers.confusion[1:], other).save(root / "predictions.npz")


def spoil_scenes(root: Path) -> None:
    ShownScenes.load(root / "scenes.npz").first(0).save(root / "scenes.npz")


def lose_scenes(root: Path) -> None:
    (root / "scenes.npz").unlink()


@pytest.mark.parametrize(
    "spoil", [spoil_with_samples, spoil_with_other_classes, spoil_scenes, lose_scenes]
)
def test_answers_of_another_seed_are_not_gone_on_with(tmp_path: Path, spoil):
    prepared = prepared_scenes(test=8)
    root = tmp_path / "seed-3"
    run(prepared, root)
    spoil(root)
    with pytest.raises(RunError, match="its predictions do not belong to its stages"):
        run(prepared, root)


def test_a_stage_that_no_test_scene_shows_is_told_before_anything_is_learned(tmp_path: Path):
    prepared = prepared_scenes()
    test = prepared.split.test
    without = np.flatnonzero(test.scenes.labels[:, 4] == 0)
    split = replace(prepared.split, test=type(test).of(test.scenes.take(without), TASKS))
    with pytest.raises(RunError, match="stage 2: no test scene shows any of its classes"):
        run(replace(prepared, split=split), tmp_path / "seed-3")
    assert list((tmp_path / "seed-3").iterdir()) == []


def test_a_model_that_gives_whole_pictures_a_class_is_refused(model_of_samples: Path):  # noqa: F811
    with pytest.raises(RunError, match="gives whole pictures a class"):
        DenseModel(model_of_samples, ("pear", "apple", "plum"), CPU)


def test_a_class_that_the_data_set_lacks_is_told(tmp_path: Path):
    export_scenes(tmp_path, ("3", "cat"))
    with pytest.raises(RunError, match="'cat'"):
        DenseModel(tmp_path, ("1", "3"), CPU)
