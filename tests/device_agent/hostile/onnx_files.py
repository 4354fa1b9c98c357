"""ONNX files that somebody made to do harm, or that broke: each with words of its refusal."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tests.device_agent.hostile.place import file_of

Make = Callable[[], bytes]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field, as protobuf writes it."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def frozen() -> ModelProto:
    return onnx.load_model_from_string(file_of("frozen"))


def edited(edit: Callable[[ModelProto], object]) -> Make:
    def make() -> bytes:
        model = frozen()
        edit(model)
        return model.SerializeToString()

    return make


def raw(*extra: bytes) -> Make:
    """The good file with bytes of no library behind it."""
    return lambda: file_of("frozen") + b"".join(extra)


def external(location: str) -> TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return tensor


def branch(*nodes: NodeProto, tensors: tuple[TensorProto, ...] = ()) -> GraphProto:
    last = nodes[-1].output[0] if nodes else "w"
    output = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
    return helper.make_graph(nodes, "inner", [], [output], tensors)


def choice(inner: GraphProto, name: str = "chosen") -> NodeProto:
    return helper.make_node("If", ["yes"], [name], then_branch=inner, else_branch=inner)


def add_node(node: NodeProto) -> Make:
    return edited(lambda model: model.graph.node.append(node))


def add_tensor(tensor: TensorProto) -> Make:
    return edited(lambda model: model.graph.initializer.append(tensor))


def functions(count: int) -> Make:
    """Functions that call each other in a row: public files of this kind crash runtimes."""

    def edit(model: ModelProto) -> None:
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("deep", 1)]
        for number in range(count):
            domain = "deep" if number + 1 < count else ""
            called = f"f{number + 1}" if domain else "Identity"
            node = helper.make_node(called, ["x"], ["y"], domain=domain)
            model.functions.append(
                helper.make_function("deep", f"f{number}", ["x"], ["y"], [node], opsets)
            )

    return edited(edit)


def nested_choices(depth: int) -> Make:
    def make() -> bytes:
        graph = branch(helper.make_node("Constant", [], ["c"], value_float=1.0))
        for number in range(depth):
            node = helper.make_node("If", ["yes"], [f"out{number}"])
            node.attribute.append(helper.make_attribute("then_branch", graph))
            graph = branch(node)
        return add_node(graph.node[0])()

    return make


def nested_loops(depth: int) -> Make:
    """Built from the inside by hand: protobuf's own writer would refuse the depth."""

    def make() -> bytes:
        graph = b""
        for _ in range(depth):
            attribute = field(1, b"body") + field(6, graph)
            graph = field(1, field(4, b"Loop") + field(5, attribute))
        return wrapped(graph)

    return make


def nested_types(depth: int) -> Make:
    def make() -> bytes:
        kind = b""
        for _ in range(depth):
            kind = field(4, field(1, kind))
        return wrapped(field(11, field(1, b"x") + field(2, kind)))

    return make


def wrapped(graph: bytes) -> bytes:
    """A model of a graph that is given as bytes."""
    return b"\x08\x09" + field(7, graph)


def declared(name: str, *dims: int, data: bytes = b"") -> TensorProto:
    return TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, raw_data=data)


def many_nodes(model: ModelProto) -> None:
    node = model.graph.node[0]
    model.graph.node.extend([node] * 20_001)


def metadata(model: ModelProto) -> None:
    model.training_info.add().algorithm.name = "t"


def huge_value(model: ModelProto) -> None:
    shape = [1 << 20, 1 << 11]
    value = helper.make_tensor_value_info("v", TensorProto.FLOAT, shape)
    model.graph.value_info.append(value)


def big_sparse(model: ModelProto) -> None:
    values = numpy_helper.from_array(np.ones(1, np.float32), "s")
    indices = numpy_helper.from_array(np.zeros(1, np.int64), "s_indices")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [1 << 40]))


def rename_input(model: ModelProto) -> None:
    model.graph.input[0].name = "other"


def input_type(model: ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE


def input_shape(model: ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 800


def second_input(model: ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [1]))


def other_width(model: ModelProto) -> None:
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 63


def rename_output(model: ModelProto) -> None:
    model.graph.output[0].name = "pixels"


def zip_bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inputs.npy", bytes(50_000_000))
    return file.getvalue()


class Bomb:
    """Runs a command when somebody unpickles it."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return (exec, ("raise SystemExit('unpickled')",))


def pickled() -> bytes:
    return pickle.dumps(Bomb())


ELSEWHERE = "another file"
FUNCTION = "local functions"
ONNX_FILES: dict[str, tuple[Make, str]] = {
    "external data beside the folder": (add_tensor(external("../../outside/secret")), ELSEWHERE),
    "external data at an absolute path": (add_tensor(external("/etc/passwd")), ELSEWHERE),
    "external data in a nested graph": (
        add_node(choice(branch(tensors=(external("../secret"),)))),
        ELSEWHERE,
    ),
    "external data in an attribute": (
        add_node(helper.make_node("Constant", [], ["c"], value=external("../secret"))),
        ELSEWHERE,
    ),
    "data elsewhere without saying where": (
        add_tensor(TensorProto(name="w", data_location=TensorProto.EXTERNAL)),
        ELSEWHERE,
    ),
    "a tensor in segments": (
        add_tensor(TensorProto(name="w", segment=TensorProto.Segment(begin=0, end=9))),
        "in segments",
    ),
    "EPContext of Microsoft's domain": (
        add_node(helper.make_node("EPContext", [], ["c"], domain="com.microsoft")),
        "EPContext",
    ),
    "EPContext": (add_node(helper.make_node("EPContext", [], ["c"])), "EPContext"),
    "a custom domain": (
        add_node(helper.make_node("Run", [], ["c"], domain="evil.ops")),
        "domain 'evil.ops'",
    ),
    "a custom domain in a nested graph": (
        add_node(choice(branch(helper.make_node("Run", [], ["c"], domain="evil.ops")))),
        "domain 'evil.ops'",
    ),
    "a custom domain that is only imported": (
        edited(lambda model: model.opset_import.append(helper.make_opsetid("evil.ops", 1))),
        "domain 'evil.ops'",
    ),
    "one local function": (functions(1), FUNCTION),
    "a thousand local functions deep": (functions(1000), FUNCTION),
    "training information": (edited(metadata), "training information"),
    "nine graphs deep": (nested_choices(9), "nest deeper than 8"),
    "two thousand loops deep": (nested_loops(2000), "nest deeper than 8"),
    "five thousand types deep": (nested_types(5000), "nest deeper than 40"),
    "too many nodes": (edited(many_nodes), "more than 20000 nodes"),
    "two gigabytes declared, none there": (
        add_tensor(declared("w", 1 << 15, 1 << 14)),
        "more than 268435456 numbers",
    ),
    "a gigabyte declared, none there": (
        add_tensor(declared("w", 1 << 14, 1 << 14)),
        "holds nothing",
    ),
    "dimensions whose product overflows": (
        add_tensor(declared("w", 1 << 62, 1 << 62)),
        "more than 268435456 numbers",
    ),
    "an overflow behind an empty axis": (
        add_tensor(declared("w", 0, 1 << 62)),
        "more than 268435456 numbers",
    ),
    "a negative dimension": (add_tensor(declared("w", -1, 4)), "negative axis"),
    "less data than declared": (add_tensor(declared("w", 4, data=bytes(12))), "declares 4 numbers"),
    "more data than declared": (add_tensor(declared("w", 4, data=bytes(20))), "declares 4 numbers"),
    "a value of two gigabytes": (edited(huge_value), "more than 268435456 numbers"),
    "a sparse tensor of a terabyte": (edited(big_sparse), "sparse tensor"),
    "a tensor of an unknown type": (
        add_tensor(TensorProto(name="w", data_type=99, dims=[1], raw_data=b"1234")),
        "of type 99",
    ),
    "cut in the middle": (lambda: file_of("frozen")[: len(file_of("frozen")) // 2], "declares"),
    "with zeros behind it": (raw(bytes(16)), "number 0"),
    "with a field that nobody knows": (raw(field(99, b"x")), "unknown field 99"),
    "a number of eleven bytes": (raw(b"\x28" + b"\xff" * 10 + b"\x01"), "more than ten bytes"),
    "a number of more than 64 bits": (raw(b"\x28" + b"\xff" * 9 + b"\x7f"), "more than 64 bits"),
    "a number without end": (raw(b"\x28\xff"), "middle of a number"),
    "a field beyond the end": (raw(varint(6 << 3 | 2), varint(1 << 40)), "where 0 are left"),
    "a group": (raw(varint(6 << 3 | 3)), "wire type 3"),
    "a second graph, to be merged": (raw(field(7, b"")), "stands twice"),
    "a domain of the wrong wire type": (
        lambda: wrapped(field(1, field(4, b"Relu") + varint(7 << 3) + b"\x01")),
        "wire type 0",
    ),
    "a million fields": (lambda: wrapped(b"\x72\x00" * 1_100_000), "more than 1000000 fields"),
    "a name of a megabyte": (
        lambda: wrapped(field(1, field(4, b"A" * (1 << 20)))),
        "a name of 1048576 bytes",
    ),
    "no nodes": (lambda: wrapped(b""), "is no ONNX model"),
    "a pickle": (pickled, "refused before it was loaded"),
    "an archive that grows a thousandfold": (zip_bomb, "refused before it was loaded"),
    "a program for ONNX Runtime's mobile reader": (
        lambda: b"\x18\x00\x00\x00ORTM" + bytes(64),
        "refused before it was loaded",
    ),
    "a tensor file": (lambda: file_of("golden"), "refused before it was loaded"),
    "another input's name": (edited(rename_input), "its inputs are ['other']"),
    "an input of another type": (edited(input_type), "'input' is of type 11"),
    "an input of another shape": (edited(input_shape), "of shape (None, 1, 800, 8)"),
    "a second input": (edited(second_input), "its inputs are ['input', 'more']"),
    "an output of another width": (edited(other_width), "a width of 64 was expected"),
    "no features": (edited(rename_output), "no output 'features'"),
}
