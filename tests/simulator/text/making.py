"""A small encoder of characters without learning, and texts that it can tell apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from fleetledger.export.preprocessing_file import preprocessing_toml
from fleetledger.schemas.text import TextPreprocessing
from tests.export.networks import data, value

ALPHABET = " \nabdefgiklmnoprstu.!?;BDFGKLMNPRST"
LENGTH, LAST = 8, 3
PREPROCESSING = TextPreprocessing(
    mode="text",
    tokens="characters",
    alphabet=ALPHABET,
    length=LENGTH,
    unknown_id=1,
    input_name="tokens",
)
WIDTH = LAST * (len(ALPHABET) + 2)
GRAMMAR = {"length": LENGTH, "classes": 6, "speakers": 3, "windows": 120, "test_windows": 40}


def one_hot_encoder() -> bytes:
    """Ids (N, LENGTH) in; out one number for each of the last LAST places and each token."""
    constants = [
        numpy_helper.from_array(np.eye(len(ALPHABET) + 2, dtype=np.float32), "table"),
        numpy_helper.from_array(np.arange(LENGTH - LAST, LENGTH), "places"),
    ]
    nodes = [
        helper.make_node("Gather", ["tokens", "places"], ["last"], name="first", axis=1),
        helper.make_node("Gather", ["table", "last"], ["rows"], name="second", axis=0),
        helper.make_node("Flatten", ["rows"], ["features"], name="third", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "one hot",
        [value("tokens", ["N", LENGTH], TensorProto.INT64)],
        [value("features", ["N", WIDTH])],
        constants,
    )
    return data(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def write_encoder(folder: Path) -> Path:
    """Write the encoder and its preprocessing beside it; return the ONNX file."""
    path = folder / "one-hot.onnx"
    path.write_bytes(one_hot_encoder())
    path.with_suffix(".toml").write_text(preprocessing_toml(PREPROCESSING), encoding="utf-8")
    return path


def one_hot(text: str) -> np.ndarray:
    """The features of a text, slowly."""
    ids = [0] * LENGTH + [2 + ALPHABET.index(c) if c in ALPHABET else 1 for c in text]
    rows = np.zeros((LAST, len(ALPHABET) + 2), np.float32)
    for place, token in enumerate(ids[-LAST:]):
        rows[place, token] = 1
    return rows.reshape(-1)
