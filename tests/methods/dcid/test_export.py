"""Exported models answer as the settings say: by the head, or by the nearest class mean."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnxruntime

from fleetledger.export.network import export_network
from fleetledger.methods.dcid.coordinator import COORDINATOR
from fleetledger.methods.dcid.model import decode_general
from fleetledger.schemas.models import Preprocessing
from tests.methods.dcid import slow
from tests.methods.dcid.making import DEVIATION, EVERY, MEAN, Fleet, after_two_sessions, samples
from tests.methods.dcid.pictures import PICTURES

pytestmark = pytest.mark.torch

SIGHT = Preprocessing(mode="L", size=(8, 8), mean=MEAN, deviation=DEVIATION, input_name="pictures")


def learned(**settings) -> Fleet:
    return after_two_sessions(2, rate=0.02, **settings)


def scores(fleet: Fleet, images: np.ndarray) -> np.ndarray:
    """What the two exported files say, one after the other."""
    network, arrays, _ = COORDINATOR.network_of(fleet.of, fleet.weights)
    files = export_network(network, arrays, SIGHT)
    trunk = onnxruntime.InferenceSession(files.trunk)
    inputs = (images.astype(np.float32) / 255 - MEAN[0]) / np.float32(DEVIATION[0])
    (features,) = trunk.run(None, {"pictures": inputs.astype(np.float32)})
    return np.asarray(files.head.expected(features))


@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_by_the_head(head):
    fleet = learned(head=head)
    images = samples(40, *EVERY, seed=77).inputs
    model = decode_general(fleet.weights, fleet.of.network)
    expected = slow.logits(fleet.of.network, model.arrays, PICTURES, images)
    assert np.abs(scores(fleet, images) - expected).max() < 1e-4


@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_by_the_nearest_mean_of_exemplars(head):
    fleet = learned(head=head, evaluation="nearest-mean")
    images = samples(40, *EVERY, seed=77).inputs
    model = decode_general(fleet.weights, fleet.of.network)
    nearest = []
    for feature in slow.features(fleet.of.network, model.arrays, PICTURES, images):
        unit = feature / np.linalg.norm(feature)
        nearest.append(int(np.argmin([np.linalg.norm(unit - mean) for mean in model.rows])))
    assert scores(fleet, images).argmax(axis=1).tolist() == nearest
