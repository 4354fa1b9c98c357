"""Which scenes are shown, and that their file keeps them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.errors import MetricsError
from fleetledger.simulator.shown_scenes import LEAST_SCENES, MOST_SCENES, ShownScenes, choose_scenes

NAMES = (ClassName("cat"), ClassName("dog"))


def scenes() -> ShownScenes:
    random = np.random.default_rng(1)
    return ShownScenes(
        random.integers(0, 256, (3, 3, 4, 5)).astype(np.uint8),
        np.where(random.random((3, 4, 5)) < 0.1, 255, random.integers(0, 3, (3, 4, 5))).astype(
            np.uint8
        ),
        random.integers(0, 3, (2, 3, 4, 5)).astype(np.uint8),
        NAMES,
    )


@pytest.mark.parametrize("seed", range(5))
def test_all_classes_come_up_with_as_few_scenes_as_a_greedy_choice_needs(seed: int):
    random = np.random.default_rng(seed)
    pixels = np.where(random.random((60, 9)) < 0.3, random.integers(1, 400, (60, 9)), 0)
    chosen = choose_scenes(pixels, range(9))
    assert (pixels[chosen] > 0).any(axis=0).all()
    assert LEAST_SCENES <= len(chosen) <= 9
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    assert choose_scenes(pixels, range(9)).tolist() == chosen.tolist()


def test_a_class_is_shown_where_it_is_not_tiny():
    pixels = np.array([[1], [2], [300], [280], [310], [1]])
    assert choose_scenes(pixels, [0]).tolist() == [2, 3, 4]


def test_classes_that_never_come_choose_nothing():
    pixels = np.array([[5, 0, 0], [0, 9, 0], [5, 0, 7], [0, 8, 0]])
    assert choose_scenes(pixels, [1]).tolist() == [1, 3]


def test_of_many_classes_some_are_shown():
    assert len(choose_scenes(np.eye(50, dtype=np.int64), range(50))) == MOST_SCENES


def test_a_file_keeps_them(tmp_path: Path):
    path = tmp_path / ".scenes.npz-being-written"
    kept = scenes()
    kept.save(path)
    again = ShownScenes.load(path)
    assert again.class_names == NAMES
    for name in ("pictures", "truth", "said"):
        assert np.array_equal(getattr(again, name), getattr(kept, name))
    assert again.first(1).stages == 1
    assert np.array_equal(again.first(1).after(kept.said[1]).said, kept.said)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"pictures": np.zeros((3, 3, 4, 5))}, "float64; give uint8"),
        ({"pictures": np.zeros((3, 1, 4, 5), np.uint8)}, "give .S, 3, h, w."),
        ({"said": np.zeros((2, 3, 5, 4), np.uint8)}, "give .S, 3, h, w."),
        ({"said": np.full((2, 3, 4, 5), 3, np.uint8)}, "said: value 3; there are 2"),
        ({"truth": np.full((3, 4, 5), 9, np.uint8)}, "truth: value 9"),
        ({"truth": np.zeros((3, 0, 5), np.uint8)}, "truth: shape"),
    ],
)
def test_scenes_that_do_not_fit_together_are_refused(tmp_path: Path, changes, fault: str):
    with pytest.raises(MetricsError, match=fault):
        replace(scenes(), **changes)
    held = {name: getattr(scenes(), name) for name in ("pictures", "truth", "said")}
    path = tmp_path / "scenes.npz"
    np.savez(path, **{**held, **changes}, class_names=np.array(NAMES, np.str_))
    with pytest.raises(MetricsError, match=rf"scenes\.npz: .*{fault}"):
        ShownScenes.load(path)


def test_names_and_files_of_others_are_refused(tmp_path: Path):
    path = tmp_path / "scenes.npz"
    held = {name: getattr(scenes(), name) for name in ("pictures", "truth", "said")}
    np.savez(path, **held, class_names=np.array(["a\nb", ""], np.str_))
    with pytest.raises(MetricsError, match=r"scenes\.npz"):
        ShownScenes.load(path)
    path.write_bytes(b"something else")
    with pytest.raises(MetricsError, match=r"scenes\.npz: no file of this run"):
        ShownScenes.load(path)
