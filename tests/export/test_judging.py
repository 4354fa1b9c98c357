"""A file from elsewhere ends the process that judges it, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ModelFileError
from fleetledger.export.frozen import plain_frozen
from fleetledger.export.golden import build_golden
from fleetledger.export.judging import (
    JudgingLimits,
    judged_backbone,
    judged_golden,
    judged_model,
)
from fleetledger.export.judging_messages import BackboneRequest, JudgingRequest
from fleetledger.export.layers import FeatureChoice
from fleetledger.export.own_model import CutModel, OwnModelRequest, own_model
from fleetledger.learning.errors import ImageError
from fleetledger.schemas.values import ClassName
from tests.export.networks import COLOUR, WIDTH, data, network, pooled_network, value
from tests.export.own_networks import PICTURES, classifier

BIRDS = OwnModelRequest(PICTURES, (ClassName("wren"), ClassName("robin"), ClassName("finch")))
LIMITS = JudgingLimits(seconds=60, memory_bytes=1 << 30)


def growing_by_data() -> ModelProto:
    """What its size depends on only a run can tell: as often as a picture has pixels, squared."""
    nodes = [
        helper.make_node("NonZero", ["image"], ["places"]),
        helper.make_node("Cast", ["places"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["numbers"], ["tall"]),
        helper.make_node("MatMul", ["tall", "numbers"], ["square"]),
        helper.make_node("ReduceSum", ["square"], ["sum"], keepdims=0),
        helper.make_node("GlobalAveragePool", ["image"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Add", ["flat", "sum"], ["scores"]),
    ]
    return network((nodes, []), value("scores", ["n", 3]), value("image", ["n", 3, 112, 112]))


def looping(rounds: int) -> ModelProto:
    """A loop that the rules bear: its rounds are constant, and each is long."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["still"]),
            helper.make_node("MatMul", ["held", "matrix"], ["made"]),
        ],
        "body",
        [
            value("round", [], TensorProto.INT64),
            value("going", [], TensorProto.BOOL),
            value("held", [1024, 1024]),
        ],
        [value("still", [], TensorProto.BOOL), value("made", [1024, 1024])],
    )
    nodes = [
        helper.make_node("Loop", ["rounds", "yes", "matrix"], ["last"], body=body),
        helper.make_node("ReduceMean", ["last"], ["mean"], keepdims=0),
        helper.make_node("GlobalAveragePool", ["image"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Add", ["flat", "mean"], ["scores"]),
    ]
    constants = [
        numpy_helper.from_array(np.array(rounds), "rounds"),
        numpy_helper.from_array(np.array(True), "yes"),
        numpy_helper.from_array(np.eye(1024, dtype=np.float32), "matrix"),
    ]
    return network((nodes, constants), value("scores", ["n", 3]))


def test_what_comes_back_is_what_the_file_becomes_here() -> None:
    model = data(classifier(softmax=True))
    judged, here = judged_model(model, BIRDS, LIMITS), own_model(model, BIRDS)
    assert isinstance(judged, CutModel)
    assert vars(judged) == vars(here)


def test_a_backbone_comes_back_with_its_layers() -> None:
    wanted = BackboneRequest(COLOUR, FeatureChoice(("flat",)))
    backbone = judged_backbone(data(classifier(softmax=True)), wanted, LIMITS)
    assert (backbone.feature_width, backbone.preprocessing) == (WIDTH, COLOUR)


def test_a_request_is_read_as_it_was_written() -> None:
    own = OwnModelRequest(PICTURES, BIRDS.class_names, samples=[b"one", b"two"], gives="scores")
    for wanted in (
        own,
        BIRDS,
        BackboneRequest(COLOUR, FeatureChoice(("flat",), mirror=True), pool=True),
    ):
        request = JudgingRequest(b"a file", wanted, 3, 1 << 20)
        read = JudgingRequest.read(request.written())
        assert vars(read.wanted) | {"samples": None} == vars(wanted) | {"samples": None}
        assert (read.data, read.seconds, read.memory_bytes) == (b"a file", 3, 1 << 20)
    assert JudgingRequest.read(JudgingRequest(b"", own, 3, 16).written()).wanted == own


def test_its_errors_come_back_as_they_are() -> None:
    with pytest.raises(ModelFileError, match="classes: 3 names for 4 scores"):
        judged_model(data(classifier(4)), BIRDS, LIMITS)
    broken = OwnModelRequest(PICTURES, BIRDS.class_names, samples=[b"no picture"])
    with pytest.raises(ImageError):
        judged_model(data(classifier()), broken, LIMITS)


def test_a_file_that_takes_too_much_memory_is_refused() -> None:
    large = PICTURES.model_copy(update={"size": (112, 112)})
    wanted = OwnModelRequest(large, BIRDS.class_names, gives="scores")
    with pytest.raises(ModelFileError, match="takes more than 1024 MiB of memory"):
        judged_model(data(growing_by_data()), wanted, LIMITS)


def test_a_file_that_computes_for_long_is_ended() -> None:
    with pytest.raises(ModelFileError, match=r"not judged within 2 s; it hangs.* \[imports\] sec"):
        judged_model(data(looping(40_000)), BIRDS, JudgingLimits(2, 1 << 30))


def test_a_golden_batch_comes_back_as_it_is_made_here() -> None:
    frozen = plain_frozen(import_backbone(data(pooled_network()), COLOUR).model)
    assert judged_golden(frozen, COLOUR, LIMITS) == build_golden(frozen, COLOUR)


def test_a_network_that_grows_with_a_picture_does_not_make_a_golden_batch_here() -> None:
    model = growing_by_data()
    model.graph.output[0].name = model.graph.node[-1].output[0] = "features"
    large = COLOUR.model_copy(update={"size": (112, 112)})
    with pytest.raises(ModelFileError, match=r"takes more than 1024 MiB of memory; export a"):
        judged_golden(data(model), large, LIMITS)
