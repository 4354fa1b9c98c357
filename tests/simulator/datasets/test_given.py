"""`Split.of` and `Split.folder`: what programs and folders have becomes a data set."""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fleetledger.device_agent.kinds import ARRAY, PICTURES, TEXT
from fleetledger.learning.numerics.arrays import array_content
from fleetledger.simulator.datasets.arrays import LabelledArrays, LabelledTexts
from fleetledger.simulator.datasets.images import LabelledImages
from fleetledger.simulator.datasets.loading import DATA_SETS, DataSettings, load_split
from fleetledger.simulator.datasets.own_split import OwnSplit as Split
from fleetledger.simulator.datasets.samples import domains_of
from fleetledger.simulator.errors import DatasetError
from tests.outside import nothing_stays

WINDOWS = np.random.default_rng(1).normal(size=(20, 3, 5)).astype(np.float32)
NAMES = ["walk", "rest"] * 10


def test_arrays_are_cut_by_class_and_seed() -> None:
    split = Split.of(WINDOWS, NAMES, test_share=0.3, seed=4)
    assert (len(split.train), len(split.test)) == (14, 6)
    assert split.train.kind is ARRAY
    assert split.train.class_names == ("rest", "walk")
    assert np.bincount(split.test.labels).tolist() == [3, 3]
    again, other = (Split.of(WINDOWS, NAMES, test_share=0.3, seed=seed) for seed in (4, 5))
    assert again.test.fingerprint == split.test.fingerprint != other.test.fingerprint
    assert isinstance(split.train, LabelledArrays)
    rows = {row.tobytes(): name for row, name in zip(WINDOWS, NAMES, strict=True)}
    for index, row in enumerate(split.train.arrays):
        assert rows[row.tobytes()] == split.train.class_names[split.train.labels[index]]
        assert split.train.picture(index) == array_content(row)


def test_owners_and_domains_go_with_their_samples() -> None:
    owners, domains = [f"p{n % 7}" for n in range(20)], np.arange(20) % 2
    split = Split.of(WINDOWS, NAMES, owners=owners, domains=domains, seed=1)
    train, found = split.train, domains_of(split.train)
    assert isinstance(train, LabelledArrays)
    assert found is not None
    assert found.names == ("0", "1")
    assert train.owners is not None
    for index, row in enumerate(train.arrays):
        (place,) = np.flatnonzero((row == WINDOWS).all(axis=(1, 2)))
        assert train.owners[index] == place % 7
        assert found.of_sample[index] == place % 2


def test_two_parts_have_the_same_classes_owners_and_domains() -> None:
    split = Split.of(
        train=(WINDOWS[:4], ["b", "a", "b", "a"]),
        test=(WINDOWS[4:6], ["b", "b"]),
        owners=(["x", "y", "z", "x"], ["z", "z"]),
        domains=([0, 0, 1, 1], [1, 1]),
    )
    assert split.test.labels.tolist() == [1, 1]
    assert split.test.owners is not None
    assert split.test.owners.tolist() == [2, 2]
    assert split.train.class_names == split.test.class_names == ("a", "b")


def test_numbers_are_classes_in_their_order_and_may_have_names() -> None:
    labels = [10, 9, 2, 9]
    assert Split.of(WINDOWS[:4], labels, test_share=0.5).train.class_names == ("2", "9", "10")
    named = Split.of(WINDOWS[:4], [0, 1, 1, 0], class_names=["rest", "walk"], test_share=0.5)
    assert named.train.class_names == ("rest", "walk")
    kept = Split.of(WINDOWS[:4], ["b", "a", "a", "b"], class_names=["b", "a", "c"], test_share=0.5)
    assert kept.train.class_names == ("b", "a", "c")
    assert sorted(kept.train.labels.tolist()) == [0, 1]


def test_bytes_of_the_shape_of_pictures_are_pictures() -> None:
    pictures = np.zeros((4, 8, 6, 3), np.uint8)
    assert Split.of(pictures, [0, 1, 0, 1], test_share=0.5).train.kind is PICTURES
    assert Split.of(pictures, [0, 1, 0, 1], test_share=0.5, kind="array").train.kind is ARRAY
    opened = [Image.new("L", (6, 8), level) for level in range(4)]
    split = Split.of(opened, [0, 1, 0, 1], test_share=0.5)
    assert isinstance(split.train, LabelledImages)
    assert split.train.images.shape == (2, 8, 6)


def test_texts_are_texts() -> None:
    split = Split.of(["one", "two", "three", "four"], ["a", "b", "a", "b"], test_share=0.5)
    assert split.train.kind is TEXT
    assert isinstance(split.train, LabelledTexts)
    assert split.train.picture(0) == split.train.texts[0].encode()
    assert split.train.take(np.array([1])).texts == (split.train.texts[1],)


class Pairs:
    """What a map-style data set of torch is: items by number, and a length."""

    classes = ("rest", "walk")

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return WINDOWS[index], index % 2


def test_a_data_set_of_items_is_read_item_by_item() -> None:
    split = Split.of(Pairs(), test_share=0.2)
    assert split.train.class_names == ("rest", "walk")
    assert len(split.train) == 8
    assert len(Split.of(train=Pairs(), test=Pairs()).test) == 10


@pytest.mark.torch
def test_tensors_and_data_sets_of_torch_are_read() -> None:
    import torch

    x, y = torch.from_numpy(WINDOWS.copy()), torch.arange(20) % 2
    plain = Split.of(WINDOWS, np.arange(20) % 2)
    assert Split.of(x, y).train.fingerprint == plain.train.fingerprint
    of_torch = Split.of(torch.utils.data.TensorDataset(x, y))
    assert of_torch.train.fingerprint == plain.train.fingerprint


class Table(dict):
    """What a data set of Hugging Face shows of itself."""

    column_names = ("label", "image", "id")

    class _Classes:
        names = ("cat", "dog")

    features = {"label": _Classes(), "image": object(), "id": object()}


def test_a_table_is_read_by_its_columns() -> None:
    table = Table(label=[0, 1, 0, 1], image=list(WINDOWS[:4]), id=[1, 2, 3, 4])
    split = Split.of(table, test_share=0.5)
    assert split.train.class_names == ("cat", "dog")
    assert isinstance(split.train, LabelledArrays)
    assert split.train.shape == (3, 5)
    both = Split.of({"train": table, "test": table})
    assert len(both.train) == len(both.test) == 4


@pytest.mark.skipif(find_spec("pandas") is None, reason="pip install 'fleetledger[frames]'")
def test_a_frame_is_a_row_of_numbers_per_sample() -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": [5, 6, 7, 8], "kind": list("xyxy")})
    split = Split.of(frame, "kind", test_share=0.5)
    assert isinstance(split.train, LabelledArrays)
    assert split.train.shape == (2,)
    assert sorted(split.train.arrays[:, 1] - split.train.arrays[:, 0]) == [4, 4]
    with pytest.raises(DatasetError, match=r"y: no column 'label' among \['a', 'b', 'kind'\]"):
        Split.of(frame)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "give x and y, or train and test"),
        ({"x": WINDOWS, "y": NAMES, "train": (WINDOWS, NAMES)}, "give x and y, or train and test"),
        ({"train": (WINDOWS, NAMES)}, "give x and y, or train and test"),
        ({"x": WINDOWS}, "has no samples with classes; give x and y"),
        ({"x": WINDOWS, "y": NAMES[:3]}, "give one label per sample"),
        ({"x": WINDOWS, "y": np.zeros((20, 2))}, "y: float64 of shape .*; give a name or a number"),
        ({"x": WINDOWS[:, 0, 0], "y": NAMES}, r"arrays: float32 of shape \(20,\); give float32"),
        ({"x": np.full((20, 2), np.nan), "y": NAMES}, "NaN or infinity in 20 samples, such as"),
        ({"x": np.full((20, 2), "a"), "y": NAMES}, "give numbers, texts, or pictures"),
        ({"x": [np.zeros(2), np.zeros(3)], "y": [0, 1]}, "x: samples of 2 shapes such as"),
        ({"x": ["a", ""], "y": [0, 1]}, "texts: number 1 has 0 bytes"),
        ({"x": WINDOWS, "y": ["a/b"] * 20}, "rename the class"),
        ({"x": WINDOWS, "y": NAMES, "test_share": 1.5}, "is not a share"),
        ({"x": WINDOWS, "y": NAMES, "owners": [1]}, "owners: shape"),
        ({"x": WINDOWS, "y": NAMES, "domains": [1]}, "domains: shape .*give one domain per sample"),
        ({"x": WINDOWS, "y": NAMES, "kind": "text"}, "give a list of str"),
    ],
)
def test_what_is_no_data_set_is_refused_with_its_way_out(given: dict[str, Any], words: str) -> None:
    with pytest.raises(DatasetError, match=words):
        Split.of(**given)


def put(folder: Path, **classes: list[Any]) -> None:
    for name, samples in classes.items():
        (folder / name).mkdir(parents=True)
        for number, sample in enumerate(samples):
            if isinstance(sample, str):
                (folder / name / f"{number}.txt").write_text(sample)
            else:
                np.save(folder / name / f"{number}.npy", sample)


def test_a_folder_of_texts(tmp_path: Path) -> None:
    put(tmp_path, spam=["buy", "sell"], ham=["hello", "bye"])
    split = Split.folder(tmp_path, test_share=0.5)
    assert split.train.kind is TEXT
    assert split.train.class_names == ("ham", "spam")
    assert len(split.train) == len(split.test) == 2


def test_a_folder_of_arrays_of_which_one_file_holds_many(tmp_path: Path) -> None:
    put(tmp_path / "train", walk=[WINDOWS[:6], WINDOWS[6]], rest=[WINDOWS[7:9]])
    put(tmp_path / "val", walk=[WINDOWS[9]], rest=[WINDOWS[10]])
    split = Split.folder(tmp_path, shape=(3, 5))
    assert isinstance(split.train, LabelledArrays)
    assert split.train.labels.tolist() == [0] * 2 + [1] * 7
    np.testing.assert_array_equal(split.train.arrays[2:], WINDOWS[:7])
    assert len(split.test) == 2
    with pytest.raises(DatasetError, match="x: samples of 3 shapes"):
        Split.folder(tmp_path)


def test_a_folder_of_pictures(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(2):
            Image.new("L", (4, 4), number).save(tmp_path / name / f"{number}.png")
    split = Split.folder(tmp_path, test_share=0.5)
    assert split.train.kind is PICTURES
    assert split.train.class_names == ("cat", "dog")


ROWS = [
    {"text": "buy, now", "label": "spam", "owner": "ann", "part": "train"},
    {"text": "hello", "label": "ham", "owner": "bob", "part": "train"},
    {"text": "bye", "label": "ham", "owner": "ann", "part": "test"},
]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_table_of_texts_has_owners_and_parts(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"mail{ending}"
    lines = [json.dumps(row) for row in ROWS]
    if ending == ".csv":
        quoted = [",".join(f'"{value}"' for value in row.values()) for row in ROWS]
        lines = [",".join(ROWS[0]), *quoted]
    path.write_text("\n".join(lines))
    split = Split.folder(path)
    assert isinstance(split.train, LabelledTexts)
    assert split.train.texts == ("buy, now", "hello")
    assert split.test.labels.tolist() == [0]
    assert split.test.owners is not None
    assert split.test.owners.tolist() == [0]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "words,label\nhello,ham\n", "row 1: no text in column 'text'; give columns"),
        ("a.jsonl", "[1]\n", "holds no rows with names"),
        ("a.jsonl", "{torn", "cannot be read: .*; give a CSV file"),
        ("a.csv", "", "holds no rows with names"),
        ("nothing", None, "there is no such folder; give a folder"),
    ],
)
def test_tables_that_are_none_are_refused(
    tmp_path: Path, name: str, content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(DatasetError, match=words):
        Split.folder(tmp_path / name)


def test_a_file_of_a_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    put(tmp_path, walk=[WINDOWS[0]])
    (tmp_path / "walk" / "0.npy").write_bytes(b"torn")
    with pytest.raises(DatasetError, match=r"0\.npy: array: 4 bytes, and no \.npy file"):
        Split.folder(tmp_path)


def test_the_example_of_the_page_is_a_data_set() -> None:
    page = (Path(__file__).parents[3] / "docs" / "datasets.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (code,) = [each for each in found if "@fl.dataset" in each]
    with nothing_stays(DATA_SETS):
        exec(compile(code, "docs/datasets.md", "exec"), {"__name__": "example"})
        settings = DataSettings(set="my_sensors", options={"windows": 30})
        split = load_split(settings, 1)
        assert split.train.class_names == ("rest", "walk", "run")
        assert (len(split.train), len(split.test)) == (24, 6)
