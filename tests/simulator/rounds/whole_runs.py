"""Whole runs without a screen, and a check of what they answered."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import onnxruntime
from rich.console import Console

from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import Manifest
from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.scenario.model import Scenario


def quiet() -> Console:
    return Console(file=StringIO(), width=100)


def check_answers(scenario: Scenario, seed: Path) -> None:
    """Compare the answers of stage 2 with those of the exported files, image by image."""
    manifest = Manifest.read((seed / "model" / "manifest.json").read_bytes())
    frozen = onnxruntime.InferenceSession(seed / "model" / "frozen.onnx")
    head = onnxruntime.InferenceSession(seed / "model" / "head.onnx")
    test = load_split(scenario.data, 1).test
    answers = Answers.load(seed / "predictions.npz")
    asked = np.flatnonzero(answers.asked(2))
    assert len(asked) == 40
    for index in asked:
        pixels = preprocess(test.picture(int(index)), manifest.preprocessing)[np.newaxis]
        (features,) = frozen.run(None, {frozen.get_inputs()[0].name: pixels})
        scores = head.run(None, {head.get_inputs()[0].name: features})[0]
        name = manifest.class_names[int(scores.argmax())]
        assert test.class_names[answers.predictions[1, index]] == name
