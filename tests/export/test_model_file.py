"""An ONNX file is read with the weights beside it, and with nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto

from fleetledger.export import model_file
from fleetledger.export.errors import ModelFileError
from fleetledger.export.model_file import read_model_file
from fleetledger.export.own_model import OwnModelRequest, own_model
from fleetledger.schemas.values import ClassName
from tests.export.own_networks import PICTURES, classifier

BIRDS = OwnModelRequest(PICTURES, (ClassName("wren"), ClassName("robin"), ClassName("finch")))


def split(folder: Path, **options: Any) -> Path:
    """Return a classifier whose weights lie in `model.onnx.data`."""
    path = folder / "model.onnx"
    told = {"location": "model.onnx.data", "size_threshold": 0, **options}
    onnx.save(classifier(softmax=True), path, save_as_external_data=True, **told)
    return path


def changed(path: Path, key: str, value: str) -> None:
    """Let the file's tensors say something else of where they lie."""
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == key:
                entry.value = value
    path.write_bytes(model.SerializeToString())


def numbers(model: ModelProto) -> dict[str, np.ndarray]:
    return {item.name: onnx.numpy_helper.to_array(item) for item in model.graph.initializer}


def test_weights_beside_a_model_are_its_weights(tmp_path: Path) -> None:
    path = split(tmp_path)
    assert (tmp_path / "model.onnx.data").stat().st_size > 0
    whole = onnx.load_model_from_string(read_model_file(path))
    found, expected = numbers(whole), numbers(classifier(softmax=True))
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    made = own_model(read_model_file(path), BIRDS)
    assert made.head == own_model(classifier(softmax=True).SerializeToString(), BIRDS).head


def test_a_file_for_each_tensor_and_tensors_of_attributes_are_read(tmp_path: Path) -> None:
    path = split(tmp_path, all_tensors_to_one_file=False)
    model = onnx.load(path, load_external_data=False)
    assert len({item.external_data[0].value for item in model.graph.initializer}) > 1
    moved = model.graph.initializer.pop()  # into a node, as some exporters write constants
    made = onnx.helper.make_node("Constant", [], [moved.name], value=moved)
    model.graph.node.insert(0, made)
    path.write_bytes(model.SerializeToString())
    whole = onnx.load_model_from_string(read_model_file(path))
    constant = whole.graph.node[0].attribute[0].t
    assert constant.data_location == TensorProto.DEFAULT
    expected = numbers(classifier(softmax=True))[moved.name]
    assert np.array_equal(onnx.numpy_helper.to_array(constant), expected)


def test_one_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(classifier().SerializeToString())
    assert read_model_file(path) == path.read_bytes()
    path.write_bytes(b"no model at all")
    assert read_model_file(path) == b"no model at all"  # the rules tell what it is


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/hostname", "sub/weights", "..", ".", "", "C:\\w", "a\\b", "w\0"]
)
def test_weights_of_other_folders_are_not_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x" * 4096)
    (tmp_path / "here").mkdir()
    path = split(tmp_path / "here")
    changed(path, "location", name)
    with pytest.raises(ModelFileError, match=r"read from its own folder alone; save the model as"):
        read_model_file(path)


def test_a_link_and_a_pipe_are_no_weights(tmp_path: Path) -> None:
    path = split(tmp_path)
    data = tmp_path / "model.onnx.data"
    shutil.move(data, tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelFileError, match=r"a link, .* cp -L model\.onnx model\.onnx\.data"):
        read_model_file(path)
    data.unlink()
    os.mkfifo(data)
    with pytest.raises(ModelFileError, match="a named pipe"):
        read_model_file(path)


def test_what_is_missing_is_named_with_both_ways_out(tmp_path: Path) -> None:
    path = split(tmp_path)
    (tmp_path / "model.onnx.data").unlink()
    words = r"model\.onnx\.data: is not there, and model\.onnx has its weights in it; copy it there"
    with pytest.raises(ModelFileError, match=words + r", or .*external_data=False"):
        read_model_file(path)


def test_a_file_cut_short_and_places_that_cannot_be_are_told(tmp_path: Path) -> None:
    path = split(tmp_path)
    data = tmp_path / "model.onnx.data"
    whole = data.read_bytes()
    data.write_bytes(whole[:-1])
    with pytest.raises(ModelFileError, match="of another export, or was not copied whole"):
        read_model_file(path)
    data.write_bytes(whole)
    changed(path, "length", str(1 << 40))
    with pytest.raises(ModelFileError, match=r"has \d+ bytes, and model\.onnx reads \d+ from byte"):
        read_model_file(path)
    changed(path, "length", "3")  # the rules see that the tensor is of another size
    with pytest.raises(ModelFileError, match=r"declares \d+ numbers of type 1, and holds"):
        own_model(read_model_file(path), BIRDS)


def test_sizes_are_looked_at_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = split(tmp_path)
    with (tmp_path / "model.onnx.data").open("r+b") as file:
        file.truncate(8 << 30)  # no such bytes are on the disk
    changed(path, "length", str(4 << 30))
    with pytest.raises(ModelFileError, match=r"bytes with the weights beside it exceed 536870912"):
        read_model_file(path)
    with path.open("r+b") as file:
        file.truncate(3 << 30)
    with pytest.raises(ModelFileError, match=r"3221225472 bytes exceed 536870912"):
        read_model_file(path)
    monkeypatch.setattr(model_file, "MAX_MODEL_BYTES", 10)
    with pytest.raises(ModelFileError, match="exceed 10; export a smaller network"):
        read_model_file(split(tmp_path))
