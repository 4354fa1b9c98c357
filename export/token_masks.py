"""Inputs beside the token ids of an encoder, such as BERT's, made of the ids in the file itself.

An attention mask is 1 where an id is not the one that pads, and token types are 0 throughout: a
sample is one text. Devices then have one input to fill.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from fleetledger.export.errors import ModelFileError
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.text import TextPreprocessing

_TYPES = ("token_type", "segment")
"""Parts of the names of inputs that are 0 throughout."""


def is_mask(name: str) -> bool:
    """Return whether an input of that name is a mask of tokens."""
    return "mask" in name.lower()


def made_of_ids(model: ModelProto, preprocessing: AnyPreprocessing) -> tuple[ModelProto, list[str]]:
    """Return a model that takes ids alone, and the names of the inputs that it makes of them.

    A model that takes anything else beside them is returned as it is. Raises `ModelFileError` where
    the preprocessing calls the ids by another name.
    """
    inputs = {value.name: value for value in model.graph.input}
    made = [name for name in inputs if is_mask(name) or any(p in name.lower() for p in _TYPES)]
    rest = [name for name in inputs if name not in made]
    if not isinstance(preprocessing, TextPreprocessing) or not made or len(rest) != 1:
        return model, []
    (name,) = rest
    if name != preprocessing.input_name:
        raise ModelFileError(
            f"input_name: the preprocessing says {preprocessing.input_name!r}, the model's inputs "
            f'are {list(inputs)}, of which devices fill one; set input_name = "{name}"'
        )
    result = ModelProto()
    result.CopyFrom(model)
    nodes = [node for other in made for node in _made(inputs[other], inputs[name], preprocessing)]
    own = list(result.graph.node)
    del result.graph.input[:], result.graph.node[:]
    result.graph.input.append(inputs[name])
    result.graph.node.extend([*nodes, *own])
    return result, made


def _made(
    value: ValueInfoProto, ids: ValueInfoProto, preprocessing: AnyPreprocessing
) -> list[NodeProto]:
    """Return the nodes that make an input of the ids."""
    name, element = value.name, value.type.tensor_type.elem_type
    if not is_mask(name):
        zeros = helper.make_node("Sub", [ids.name, ids.name], [f"{name}/zeros"])
        return [zeros, helper.make_node("Cast", [f"{name}/zeros"], [name], to=element)]
    pad = preprocessing.pad_id if isinstance(preprocessing, TextPreprocessing) else 0
    kind = helper.tensor_dtype_to_np_dtype(ids.type.tensor_type.elem_type)
    padding = numpy_helper.from_array(np.array(pad, kind), f"{name}/pad_id")
    return [
        helper.make_node("Constant", [], [f"{name}/pad"], value=padding),
        helper.make_node("Equal", [ids.name, f"{name}/pad"], [f"{name}/pads"]),
        helper.make_node("Not", [f"{name}/pads"], [f"{name}/counts"]),
        helper.make_node("Cast", [f"{name}/counts"], [name], to=element or TensorProto.INT64),
    ]
