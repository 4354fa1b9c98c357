"""Files that other makers' own tools wrote are answered as by plain ONNX Runtime, or refused.

`files_of_other_tools.zip` holds them as they came: networks with random weights for pictures of
16 x 16 pixels (of skl2onnx: rows of 48 numbers), five classes, by tf2onnx 1.17 (TensorFlow 2.21),
Keras 3.15 `export`, tf2onnx of TFLite files, paddle2onnx 2.1 (Paddle 3.3), skl2onnx 1.20,
torch 2.13 (`legacy`, `dynamo`), and, of some of these, ONNX Runtime 1.32's quantiser and optimiser,
onnxconverter-common 1.16, onnxslim 0.1 and onnxoptimizer 0.4. What is refused names a way out.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from export.errors import ExportError
from export.own_model import OwnModelRequest, own_model
from learning.numerics.entropy import softmax
from schemas.models import Gives, Preprocessing
from schemas.values import ClassName
from tests.export.test_makers_exports import CONTRIB, on_a_device

FILES = zipfile.ZipFile(Path(__file__).parent / "files_of_other_tools.zip")
NAMES = sorted(name.removesuffix(".onnx") for name in FILES.namelist())
PICTURES = Preprocessing(
    mode="RGB",
    size=(16, 16),
    mean=(0.5, 0.4, 0.3),
    deviation=(0.2, 0.3, 0.4),
    input_name="image",
)


@dataclass(frozen=True)
class Refused:
    """What a file is refused with, and what then lets it in; nothing where another is needed."""

    words: str
    output: str | None = None
    gives: Gives | None = None


REFUSED: Mapping[str, Refused] = {
    **{
        f"skl_{name}_map": Refused(r"holds a map; .*options={'zipmap': False}")
        for name in ("forest", "logistic", "mlp")
    },
    **{
        f"skl_{name}_rows": Refused("'probabilities'; .*--output NAME", output="probabilities")
        for name in ("forest", "logistic", "mlp")
    },
    **{
        f"{name}_torch_legacy_vit": Refused("ONNX Runtime .* cannot load it: .*Type Error")
        for name in ("float16", "float16_io")
    },
    "paddle_argmax": Refused("--output NAME", output="fetch_name_0"),
    "paddle_two_outputs": Refused("--output NAME", output="fetch_name_1"),
    "tf2onnx_keras_two_outputs": Refused("--output NAME", output="Identity:0"),
    "tf2onnx_keras_flatten": Refused("'Erfc', of node .*; put another layer there"),
    "tf2onnx_keras_normalization": Refused("the model's inputs are .*export it with exactly one"),
    **{
        f"{name}_sigmoid{end}": Refused("several labels .*--gives prob", gives="probabilities")
        for name, end in (("torch_legacy", ""), ("torch_dynamo", ""), ("tf2onnx_keras", "_five"))
    },
}
ROUNDED = {
    **dict.fromkeys(("float16_tf2onnx_keras_residual",), 1e-3),  # three digits
    **dict.fromkeys(  # devices get the scores before they are put into eight bits
        (
            "ort_qdq_torch_legacy_softmax",
            "ort_qdq_u8s8_torch_legacy_softmax",
            "tflite_int8",
        ),
        5e-3,
    ),
}


def wanted_of(name: str) -> OwnModelRequest:
    """Return what an operator says of a file who has read its first refusal about the input."""
    given = onnx.load_from_string(FILES.read(f"{name}.onnx")).graph.input[0]
    axes = [axis.dim_value for axis in given.type.tensor_type.shape.dim]
    settings: dict[str, Any] = {"input_name": given.name}
    if axes[-1] in (3, 48):
        settings["layout"] = "NHWC"
    if axes[-1] == 48:
        settings["size"] = (4, 4)
    classes = 2 if name.endswith("sigmoid_one") else 5
    return OwnModelRequest(
        PICTURES.model_copy(update=settings),
        tuple(ClassName(f"class-{number}") for number in range(classes)),
        domains=CONTRIB,
    )


def plain(name: str, inputs: Any, output: str | None) -> Any:
    """Return the probabilities of samples, each asked alone, by plain ONNX Runtime."""
    session = onnxruntime.InferenceSession(
        FILES.read(f"{name}.onnx"), providers=["CPUExecutionProvider"]
    )
    source = session.get_inputs()[0]
    batch = source.shape[0] if isinstance(source.shape[0], int) else 1
    if len(source.shape) == 2:
        inputs = inputs.reshape(len(inputs), -1)
    inputs = inputs.astype({"tensor(float16)": np.float16}.get(source.type, np.float32))
    asked = [np.repeat(one[None], batch, 0) for one in inputs]
    names = None if output is None else [output]
    given = np.stack([session.run(names, {source.name: one})[0][0] for one in asked])
    given = given.astype(np.float64).reshape(len(inputs), -1)
    if given.shape[1] == 1:
        return np.hstack([1 - given, given])
    is_share = given.min() >= 0 and given.max() <= 1
    return given / given.sum(axis=1, keepdims=True) if is_share else softmax(given)


@pytest.mark.parametrize("name", NAMES)
def test_a_device_answers_as_plain_onnx_runtime_or_the_refusal_leads_there(
    name: str, tmp_path: Path
) -> None:
    wanted, refused = wanted_of(name), REFUSED.get(name)
    if refused is not None:
        with pytest.raises(ExportError, match=f"(?s){refused.words}"):
            own_model(FILES.read(f"{name}.onnx"), wanted)
        if refused.output is None and refused.gives is None:
            return
        wanted = replace(wanted, output=refused.output, gives=refused.gives)
    model = onnx.load_from_string(FILES.read(f"{name}.onnx"))
    inputs, shares, _ = on_a_device(model, wanted, tmp_path)
    expected = plain(name, inputs, wanted.output)
    np.testing.assert_allclose(shares, expected, atol=ROUNDED.get(name, 1e-4))


def test_there_are_as_many_as_the_docs_say() -> None:
    page = Path(__file__).parents[2] / "docs" / "push-models.md"
    assert f"{len(NAMES)} files" in page.read_text(encoding="utf-8")
    assert set(REFUSED) <= set(NAMES)
