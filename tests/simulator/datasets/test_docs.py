"""The page about data sets: it names every set, and its example works."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fleetledger.device_agent.kinds import PICTURES
from fleetledger.simulator.datasets.loading import DATA_SETS, DataSet
from fleetledger.simulator.errors import DatasetError
from tests.simulator.datasets.drawing import pixels

PAGE = (Path(__file__).parents[3] / "docs" / "datasets.md").read_text(encoding="utf-8")


def test_every_data_set_has_a_row():
    assert [name for name in DATA_SETS if f"| `{name}` |" not in PAGE] == []


def test_the_npz_table_is_that_of_the_module():
    from fleetledger.simulator.datasets import npz

    assert npz.__doc__ is not None
    arrays = re.findall(r"^\| `(\w+)` \| (.+?) \|", npz.__doc__, re.MULTILINE)
    assert len(arrays) == 9
    assert [array for array in arrays if f"| `{array[0]}` | {array[1]} |" not in PAGE] == []


@pytest.fixture
def example() -> Any:
    (module,) = re.findall(r'```python\n(""".+?)```', PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(module, "docs/datasets.md", "exec"), names)
    return names["load_quickdraw"]


def test_the_example_of_a_new_data_set_works(example: Any, tmp_path: Path):
    for number, name in enumerate(("cat", "axe")):
        np.save(tmp_path / f"{name}.npy", pixels(number, 8, 784))
    split = example(tmp_path, 0.25, 0)
    assert split.train.class_names == ("axe", "cat")
    assert np.bincount(split.test.labels).tolist() == [2, 2]
    drawn = {split.train.digest(index) for index in range(12)}
    assert len(drawn) == 12
    assert split.train.picture(0).size == (28, 28)


def test_the_example_of_a_value_is_a_data_set(example: Any, tmp_path: Path):
    (entry,) = re.findall(r'```python\n    ("quickdraw".+?)```', PAGE, re.DOTALL)
    names = {"DataSet": DataSet, "load_quickdraw": example, "_root": lambda data: data.root}
    value = eval(f"{{{entry}}}", names)["quickdraw"]
    assert value.kind is PICTURES
    with pytest.raises(DatasetError, match="numpy_bitmap"):
        value.read(SimpleNamespace(root=tmp_path, test_share=0.25), 0)


def test_the_example_tells_what_is_missing(example: Any, tmp_path: Path):
    with pytest.raises(DatasetError, match="numpy_bitmap"):
        example(tmp_path, 0.25, 0)
