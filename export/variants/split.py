"""A frozen part cut where its map begins, and put together again.

Everything from there on is what `export.frozen` has put behind the backbone: its nodes and numbers
have names of their own, and go through a change of the backbone untouched. So the map of a variant
is that of the reference, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from fleetledger.export.builder import float_value
from fleetledger.export.errors import ModelFileError
from fleetledger.export.graph import BATCH, clean, write
from fleetledger.export.rules import STANDARD_DOMAINS, check
from fleetledger.schemas.models import FEATURES

MAP_PREFIX = "map/"
"""Before every name that `export.frozen` gives."""


@dataclass(frozen=True, eq=False)
class SplitFrozen:
    """A frozen part as a backbone, float32 features (N, width) of samples, and what follows."""

    backbone: ModelProto
    source: str
    """The backbone's output, which the map takes."""
    nodes: tuple[NodeProto, ...]
    constants: tuple[TensorProto, ...]
    output: ValueInfoProto

    def joined_with(self, backbone: ModelProto) -> bytes:
        """Return a frozen part with another backbone before the same map.

        Raises `ModelFileError` if the backbone has another output, or breaks a rule for files.
        """
        names = [value.name for value in backbone.graph.output]
        if names != [self.source]:
            raise ModelFileError(f"variant: its outputs are {names}, not {self.source!r}")
        model = clean(backbone)
        nodes = _in_order(model.graph)
        del model.graph.node[:]
        model.graph.node.extend((*nodes, *self.nodes))
        model.graph.initializer.extend(self.constants)
        del model.graph.output[:]
        model.graph.output.append(self.output)
        data = write(model)
        check(data, STANDARD_DOMAINS)
        return data


def split_frozen(frozen: bytes) -> SplitFrozen:
    """Cut a frozen part of statistics before its map; raise `ModelFileError` where it has none."""
    model = check(frozen, STANDARD_DOMAINS)
    graph = model.graph
    tail = tuple(node for node in graph.node if node.name.startswith(MAP_PREFIX))
    constants = tuple(item for item in graph.initializer if item.name.startswith(MAP_PREFIX))
    own = {name for node in tail for name in node.output} | {item.name for item in constants}
    sources = {name for node in tail for name in node.input} - own
    outputs = [value.name for value in graph.output]
    if len(sources) != 1 or outputs != [FEATURES]:
        raise ModelFileError(
            "frozen: no map of this house follows one backbone in it, so there is nothing that "
            "could stay exact; import the backbone with `fleetledger model import-backbone FILE "
            "--preprocessing FILE`"
        )
    (source,) = sources
    backbone = ModelProto()
    backbone.CopyFrom(model)
    _keep(backbone, source)
    return SplitFrozen(backbone, source, tail, constants, graph.output[0])


def _in_order(graph: GraphProto) -> list[NodeProto]:
    """Return the nodes so that each follows what it takes; tools put some at the end of the list.

    Raises `ModelFileError` for nodes that wait for each other.
    """
    made = {name for node in graph.node for name in node.output}
    known, waiting, ordered = {""}, list(graph.node), list[NodeProto]()
    while waiting:
        rest: list[NodeProto] = []
        for node in waiting:
            if all(name in known or name not in made for name in node.input):
                known.update(node.output)
                ordered.append(node)
            else:
                rest.append(node)
        if len(rest) == len(waiting):
            raise ModelFileError("variant: its nodes wait for each other; leave it out")
        waiting = rest
    return ordered


def _keep(model: ModelProto, source: str) -> None:
    """Leave of a frozen part what is before the map."""
    graph = model.graph
    nodes = [node for node in graph.node if not node.name.startswith(MAP_PREFIX)]
    constants = [item for item in graph.initializer if not item.name.startswith(MAP_PREFIX)]
    del graph.node[:], graph.initializer[:], graph.output[:]
    graph.node.extend(nodes)
    graph.initializer.extend(constants)
    graph.output.append(float_value(source, BATCH, "width"))
    for number, node in enumerate(graph.node):
        node.name = node.name or f"unnamed_{number}"
