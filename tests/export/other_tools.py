"""Files as other makers' own tools wrote them, and what an operator says of each to have it taken.

`files_of_other_tools.zip` holds them as they came: networks with random weights for pictures of
16 x 16 pixels (of skl2onnx: rows of 48 numbers), five classes, by tf2onnx 1.17 (TensorFlow 2.21),
Keras 3.15 `export`, tf2onnx of TFLite files, paddle2onnx 2.1 (Paddle 3.3), skl2onnx 1.20,
torch 2.13 (`legacy`, `dynamo`), and, of some of these, ONNX Runtime 1.32's quantiser and optimiser,
onnxconverter-common 1.16, onnxslim 0.1 and onnxoptimizer 0.4.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from fleetledger.export.errors import ExportError
from fleetledger.export.own_model import CutModel, OwnModelRequest, own_model
from fleetledger.learning.numerics.entropy import softmax
from fleetledger.schemas.models import Gives, Preprocessing
from fleetledger.schemas.values import ClassName

FILES = zipfile.ZipFile(Path(__file__).parent / "files_of_other_tools.zip")
NAMES = sorted(name.removesuffix(".onnx") for name in FILES.namelist())
PICTURES = Preprocessing(
    mode="RGB",
    size=(16, 16),
    mean=(0.5, 0.4, 0.3),
    deviation=(0.2, 0.3, 0.4),
    input_name="image",
)
MOST_STEPS = 5


@dataclass(frozen=True)
class Refused:
    """What a file is refused with, and the operator's choice where the sentence leaves one."""

    words: str
    output: str | None = None
    gives: Gives | None = None

    @property
    def is_final(self) -> bool:
        """Whether another file is needed."""
        return self.output is None and self.gives is None


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
ROUNDED: Mapping[str, float] = {
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
TOLERANCE = 1e-4


@cache
def file_of(name: str) -> bytes:
    return FILES.read(f"{name}.onnx")


def class_names(name: str) -> tuple[ClassName, ...]:
    count = 2 if name.endswith("sigmoid_one") else 5
    return tuple(ClassName(f"class-{number}") for number in range(count))


@dataclass(frozen=True)
class Taken:
    """A model that came in, by the settings that its refusals asked for."""

    model: CutModel
    wanted: OwnModelRequest
    refusals: tuple[str, ...]


def taken(name: str) -> Taken:
    """Import a file as somebody does who knows nothing of it and does what each refusal says.

    Raises the last refusal where it asks for another file, or where doing as told leads nowhere.
    """
    wanted = OwnModelRequest(PICTURES, class_names(name))
    refusals: list[str] = []
    while True:
        try:
            return Taken(own_model(file_of(name), wanted), wanted, tuple(refusals))
        except ExportError as error:
            followed = follow(str(error), wanted, REFUSED.get(name))
            if followed == wanted or len(refusals) == MOST_STEPS:
                raise
            refusals.append(str(error))
            wanted = followed


def follow(words: str, wanted: OwnModelRequest, chosen: Refused | None) -> OwnModelRequest:
    """Return what an operator asks for who has read a refusal; the same where it asks a file."""
    domain = re.search(r"of domain '([^']+)'; .*--domain", words)
    if domain:
        return replace(wanted, domains=wanted.domains | {domain[1]})
    if "--output NAME" in words and chosen is not None:
        return replace(wanted, output=chosen.output)
    if "--gives" in words and chosen is not None:
        return replace(wanted, gives=chosen.gives)
    told = re.search(r"; set (\w+ = .+)$", words)
    if not told:
        return wanted
    settings = dict(part.split(" = ", 1) for part in told[1].split(" and "))
    read: dict[str, Any] = {key: json.loads(value) for key, value in settings.items()}
    changed = Preprocessing.model_validate({**wanted.preprocessing.model_dump(), **read})
    return replace(wanted, preprocessing=changed)


def plain(name: str, inputs: Any, output: str | None) -> Any:
    """Return the probabilities of samples, each asked alone, by plain ONNX Runtime."""
    session = onnxruntime.InferenceSession(file_of(name), providers=["CPUExecutionProvider"])
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
