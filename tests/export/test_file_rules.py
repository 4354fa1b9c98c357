"""ONNX files that break a rule are refused, each with its reason and the way out."""

import re
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ModelFileError
from fleetledger.export.own_model import OwnModelRequest, own_model
from fleetledger.export.rules import check
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.onnx_files import file_rules
from fleetledger.schemas.values import ClassName
from tests.device_agent.hostile.growing_files import GROWING_FILES
from tests.export.networks import COLOUR, WIDTH, data, load, network, pooled, pooled_network, value


def refuse(model: ModelProto | bytes, message: str) -> None:
    content = model if isinstance(model, bytes) else data(model)
    with pytest.raises(ModelFileError, match=message):
        import_backbone(content, COLOUR)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x89PNG\r\n\x1a\n" + bytes(50)])
def test_a_file_that_is_not_onnx_is_refused(content: bytes) -> None:
    refuse(content, r"no ONNX model; give the \.onnx file itself")


def test_a_file_cut_in_half_is_refused() -> None:
    content = data(pooled_network())
    refuse(content[: len(content) // 2], "model: ")


@pytest.mark.parametrize("path", ["weights.bin", "/etc/passwd", "../../secret"])
def test_external_data_is_refused_wherever_it_lies(path: str) -> None:
    model = pooled_network()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = tensor.EXTERNAL
    tensor.external_data.add(key="location", value=path)
    refuse(model, "holds data in another file; save the model as one file: torch")


def test_external_data_inside_a_branch_is_refused() -> None:
    tensor = numpy_helper.from_array(np.zeros(WIDTH, np.float32), "hidden")
    tensor.external_data.add(key="location", value="hidden.bin")
    node = helper.make_node("Constant", [], ["constant"], value=tensor)
    branch = helper.make_graph([node], "branch", [], [value("constant", [WIDTH])])
    nodes, constants = pooled()
    constants.append(numpy_helper.from_array(np.array(True), "yes"))
    nodes.append(helper.make_node("If", ["yes"], ["x"], then_branch=branch, else_branch=branch))
    refuse(network((nodes, constants), value("x", [WIDTH])), "holds data in another file")


def test_an_operator_of_another_domain_is_refused_unless_it_is_allowed() -> None:
    nodes, constants = pooled()
    nodes.append(helper.make_node("Gelu", ["flat"], ["bent"], domain="com.microsoft"))
    model = network((nodes, constants), value("bent", ["batch", WIDTH]))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    refuse(model, "'Gelu' of domain 'com.microsoft'; export with standard .* --domain")
    allowed = frozenset({"", "com.microsoft"})
    assert import_backbone(data(model), COLOUR, domains=allowed).feature_width == WIDTH


def test_a_compiled_context_is_refused() -> None:
    nodes, constants = pooled()
    nodes.append(helper.make_node("EPContext", ["flat"], ["x"]))
    refuse(network((nodes, constants), value("x", None)), "'EPContext'")


def test_no_local_functions_and_no_training_information_go_out() -> None:
    model = pooled_network()
    node = helper.make_node("Relu", ["x"], ["y"])
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("own", "F", ["x"], ["y"], [node], opsets))
    with pytest.raises(ModelFileError, match="holds local functions; inline them"):
        check(data(model))
    assert import_backbone(data(model), COLOUR).feature_width == WIDTH  # and are put in their place
    model = pooled_network()
    model.training_info.add()
    refuse(model, "holds training information")


def test_nodes_nesting_and_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    content = data(pooled_network())
    monkeypatch.setattr(file_rules, "MAX_NODES", 3)
    refuse(content, "more than 3 nodes; export a smaller network")
    monkeypatch.setattr(file_rules, "MAX_MODEL_BYTES", 100)
    refuse(content, "bytes; a model has 1 to 100")


def test_deep_nesting_is_refused_before_any_library_walks_it() -> None:
    inner: Any = helper.make_graph(
        [helper.make_node("Identity", ["yes"], ["x0"])], "g", [], [value("x0", None)]
    )
    for depth in range(1, 30):
        node = helper.make_node("If", ["yes"], [f"x{depth}"], then_branch=inner, else_branch=inner)
        inner = helper.make_graph([node], "g", [], [value(f"x{depth}", None)])
        if depth > 9:
            break
    nodes, constants = pooled()
    constants.append(numpy_helper.from_array(np.array(True), "yes"))
    nodes.append(helper.make_node("If", ["yes"], ["x"], then_branch=inner, else_branch=inner))
    refuse(network((nodes, constants), value("x", None)), "nest deeper than 8")


def test_a_graph_that_the_checker_rejects_is_refused() -> None:
    model = pooled_network()
    model.graph.node[0].input[1] = "nowhere"
    refuse(model, "not valid ONNX")


def test_a_finished_file_with_newer_versions_is_refused() -> None:
    model = pooled_network(opset=21)
    with pytest.raises(ModelFileError, match="opset 21 exceed 10 and 20"):
        check(data(model))


def test_a_domain_that_no_operator_uses_is_left_out() -> None:
    model = pooled_network()
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    backbone = import_backbone(data(model), COLOUR)
    assert [entry.domain for entry in load(backbone.model).opset_import] == [""]


@pytest.mark.parametrize(("make", "words"), GROWING_FILES.values(), ids=GROWING_FILES)
def test_what_devices_refuse_for_its_growth_is_refused_before_it_is_run(
    make: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = make()

    def runs(*_: object) -> None:
        raise AssertionError("a file was loaded that should have been refused")

    monkeypatch.setattr(LoadedModel, "__init__", runs)
    with pytest.raises(ModelFileError, match=re.escape(words)):
        own_model(content, OwnModelRequest(COLOUR, (ClassName("wren"),)))
