"""A model of somebody's own, one ONNX file, as the pair of files that devices run.

    frozen.onnx   preprocessed sample -> features: what comes before the cut
    head.onnx     features -> scores: what comes after it

What answers for a sample as a whole has scores (N, C), a number for each class, and features in one
row. What answers for pixels has scores (N, C, H, W) of the picture's size. What is raw has an
output of any fixed shape that nobody here reads. Scores are logits: of a file that puts out
probabilities, `export.meaning` says where they lie or how they are made.

Nothing of the file is believed: both halves are run, and so is the file as it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, helper, numpy_helper
from PIL import Image

from fleetledger.export.cut import VALUES, Cutting
from fleetledger.export.errors import ModelFileError, ParityError
from fleetledger.export.golden import (
    build_dense_golden,
    build_golden,
    golden_inputs,
    write_golden_scores,
)
from fleetledger.export.graph import clean, nested_graphs, nodes_of, tensors_of, write
from fleetledger.export.incoming import (
    Values,
    check_input,
    feeds_of,
    flat_pictures,
    free_batch,
    in_range,
    in_usual_shape,
    remarks_on_rows,
    samples_at_once,
    with_usual_types,
)
from fleetledger.export.input_kinds import input_kind
from fleetledger.export.meaning import SAME, Meaning, meaning_of
from fleetledger.export.network_head import NETWORK_RULES
from fleetledger.export.noise import noise_inputs
from fleetledger.export.one_by_one import answer_of, remarks_on_batch
from fleetledger.export.own_halves import CutValue, OwnFiles
from fleetledger.export.own_output import (
    check_output,
    choose_output,
    declare_output,
    with_classes_first,
)
from fleetledger.export.parity import DEFAULT_TOLERANCE, require_parity
from fleetledger.export.preprocessing_file import remarks_on_units
from fleetledger.export.rules import STANDARD_DOMAINS, read_model
from fleetledger.export.runtime import LoadedModel, describe_runtime
from fleetledger.export.segmentation import MAX_MAP_NUMBERS
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.schemas.models import (
    BACKGROUND,
    FEATURES,
    MAX_FEATURES,
    MAX_RAW_NUMBERS,
    SCORES,
    SMALL_SCORES,
    Answers,
    AnyPreprocessing,
    Gives,
    Parity,
    Preprocessing,
)
from fleetledger.schemas.values import ClassName

Inputs = npt.NDArray[Any]
_RESERVED = frozenset({SCORES, SMALL_SCORES, "probabilities"})


@dataclass(frozen=True)
class OwnModelRequest:
    """What a file is to be taken for."""

    preprocessing: AnyPreprocessing
    class_names: tuple[ClassName, ...]
    """In the order of the scores; of a raw output the names of its numbers, or none."""
    answers: Answers = "sample"
    output: str | None = None
    """The output that counts; the only one where left out."""
    split: str | None = None
    """The value, or the node that makes it, at which the network is cut; found where left out."""
    samples: Sequence[bytes | Image.Image] = ()
    """Free to travel to every device, for the golden batch; made up where left out."""
    domains: frozenset[str] = STANDARD_DOMAINS
    gives: Gives | None = None
    """What its numbers are; looked at where left out."""


@dataclass(frozen=True, eq=False)
class CutModel:
    """A model as devices get it, and what a manifest says of it."""

    frozen: bytes
    head: bytes
    golden: bytes
    golden_scores: bytes
    feature_width: int
    output_shape: tuple[int, ...]
    """Of a raw output, behind the samples; else empty."""
    parity: Parity
    tolerance: float
    cut: str
    """The value that it was cut at, as the file calls it."""
    gives: Gives | None
    """What the file puts out; None of a raw output."""
    remarks: tuple[str, ...]
    """What its numbers mean, and what the operator should know beside that; a sentence each."""


@dataclass(frozen=True)
class _Network:
    """A network that was let in, and what it gives."""

    model: ModelProto
    cutting: Cutting
    axes: tuple[int, ...]
    """Of the output, behind the samples."""
    meaning: Meaning | None
    """None of a raw output."""
    remarks: tuple[str, ...]
    own_output: str
    """The output that counts, as the file calls it."""
    classes_last: bool
    """Whether the file puts the classes of pixels behind their places."""

    @property
    def output(self) -> str:
        """The value that the head ends with."""
        return self.model.graph.output[0].name if self.meaning is None else self.meaning.value

    @property
    def least_tolerance(self) -> float:
        """Difference of scores that a self-test has to bear."""
        return 0.0 if self.meaning is None else self.meaning.least_tolerance

    @property
    def of_output(self) -> tuple[int, ...]:
        """Axes of that value, behind the samples."""
        return self.axes if self.meaning is None else self.meaning.axes


def own_model(data: bytes, wanted: OwnModelRequest) -> CutModel:
    """Return the model in an ONNX file; equal arguments give equal bytes on the same runtime.

    Raises `ModelFileError` naming what is wrong with the file, its names or its cut and what to do
    about it, and `ParityError` where the pair does not give what the file gives.
    """
    network = _let_in(data, wanted)
    cut, remarks = _cut_of(network, wanted)
    network = replace(network, remarks=(*network.remarks, *remarks))
    try:
        return _cut_model(data, network, cut, wanted)
    except ParityError:
        if wanted.split is not None or cut.name == network.output:
            raise
    whole = replace(network, remarks=(*network.remarks, _WHOLE))
    return _cut_model(data, whole, _measured(network, network.output, wanted), wanted)


_WHOLE = (
    "cut before its last layer it rounds otherwise, as files of eight-bit integers can; so all of "
    "it is the frozen part, which devices fetch anew with each version"
)


def _cut_model(data: bytes, network: _Network, cut: CutValue, wanted: OwnModelRequest) -> CutModel:
    frozen, head = _halves(network, cut, wanted)
    golden = _golden(frozen, wanted)
    inputs = golden_inputs(golden)
    scores, small = _run_pair(frozen, head, inputs, wanted)
    original = _original(data, network, inputs, wanted)
    limits = NETWORK_RULES.for_scores(scores)
    enlarged = small is not None and network.axes[1:] != scores.shape[2:]
    given = small if small is not None and enlarged else scores
    parity = _compared(given, original, network.meaning)
    require_parity(parity, _allowed(network.meaning, limits.parity_tolerance), _OWN_PARITY)
    return CutModel(
        frozen=frozen,
        head=head,
        golden=golden,
        golden_scores=write_golden_scores(scores)
        if small is None
        else write_golden_scores(small, SMALL_SCORES),
        feature_width=int(np.prod(cut.axes)) if wanted.answers == "sample" else cut.features[0],
        output_shape=network.axes if wanted.answers == "raw" else (),
        parity=parity,
        tolerance=max(limits.device_tolerance, network.least_tolerance),
        cut=cut.name,
        gives=None if network.meaning is None else network.meaning.gives,
        remarks=network.remarks,
    )


_OWN_PARITY = "export it in float32, or with another opset"


def _let_in(data: bytes, wanted: OwnModelRequest) -> _Network:
    model = clean(in_range(read_model(data, wanted.domains)))
    _check_numbers(model)
    in_a_row = remarks_on_rows(model, wanted.preprocessing)
    model = in_usual_shape(model, wanted.preprocessing)
    check_input(model, wanted.preprocessing, (VALUES,))
    if wanted.preprocessing.input_name in _RESERVED:
        raise ModelFileError(
            f"input_name: {wanted.preprocessing.input_name!r} is a name of the head's outputs; "
            "rename the input, for example to 'image'"
        )
    others = choose_output(model, wanted.output)
    check_output(model, "--output", others, whole=wanted.answers == "raw")
    own_output = model.graph.output[0].name
    model = with_usual_types(model, wanted.preprocessing)
    model, given = _freed(model, wanted)
    came = given.shape[1:]
    if wanted.answers == "pixels" and isinstance(wanted.preprocessing, Preprocessing):
        size, classes = wanted.preprocessing.size, len(wanted.class_names)
        given = with_classes_first(model, given, size, classes)
    axes = given.shape[1:]
    if not np.isfinite(given).all():
        raise ModelFileError(
            "output: NaN or infinite for an ordinary sample; check mean, deviation and divide_by "
            "in the preprocessing, and the weights"
        )
    _check_axes(axes, wanted)
    flat = flat_pictures(model, wanted.preprocessing)
    remarks = (
        *remarks_on_batch(model),
        *in_a_row,
        *flat.remarks,
        *remarks_on_units(wanted.preprocessing),
    )
    cutting = Cutting(model.graph)
    if wanted.answers == "raw":
        told = "the file's numbers are passed on as they are"
        return _Network(model, cutting, axes, None, (told, *remarks), own_output, False)
    inputs = [*_looked_at(wanted), *flat.answered]
    meaning = meaning_of(model, cutting, inputs, len(wanted.class_names), wanted.gives)
    last = len(came) == 3 and came != axes
    return _Network(model, cutting, axes, meaning, (meaning.told, *remarks), own_output, last)


def _looked_at(wanted: OwnModelRequest) -> list[Inputs]:
    """Return what the meaning of an output is seen on: made-up and the operator's samples."""
    count = _LOOKED_AT if wanted.answers == "sample" else _LOOKED_AT_OF_PIXELS
    own = [preprocess(sample, wanted.preprocessing) for sample in wanted.samples[:count]]
    return [*noise_inputs(wanted.preprocessing, count), *own]


def _check_numbers(model: ModelProto) -> None:
    """Refuse weights that are no numbers."""
    for graph in nested_graphs(model.graph):
        for tensor in tensors_of(graph):
            if tensor.data_type not in _FLOATS:
                continue
            if np.isnan(numpy_helper.to_array(tensor)).any():
                raise ModelFileError(
                    f"model: tensor {tensor.name!r} holds NaN; its training went wrong, export "
                    "weights of before"
                )


_LOOKED_AT, _LOOKED_AT_OF_PIXELS = 8, 2
"""Made-up samples, and at most the operator's own, that outputs are looked at on."""
_FLOATS = frozenset({1, 10, 11})
"""float32, float16 and float64 by their numbers in ONNX."""


def _freed(model: ModelProto, wanted: OwnModelRequest) -> tuple[ModelProto, Values]:
    """Return the network for any number of samples, or for one, with what it gives of some."""
    try:
        return free_batch(model, wanted.preprocessing)
    except ModelFileError as error:
        if any(node.op_type == "NonMaxSuppression" for node in nodes_of(model.graph)):
            raise ModelFileError(
                "output: 'NonMaxSuppression' gives as many rows as a picture has objects; say "
                "--output NAME of a value before it that has all boxes, or export the boxes before "
                "it, of a fixed number, and choose among them in your program"
            ) from error
        axes = model.graph.input[0].type.tensor_type.shape.dim
        if wanted.answers == "sample" or axes[0].dim_value != 1:
            raise  # devices give whole samples in batches
    name, inputs = wanted.preprocessing.input_name, noise_inputs(wanted.preprocessing, 2)
    loaded = LoadedModel(write(model))
    given = [next(iter(loaded.run({name: each[np.newaxis]}).values())) for each in inputs]
    if any(
        one.dtype != np.float32 or one.shape != given[0].shape or one.shape[:1] != (1,)
        for one in given
    ):
        raise ModelFileError(
            f"output: {given[0].dtype} of shapes {', '.join(str(one.shape) for one in given)} for "
            "two samples, one by one; give float32 of one shape that begins with 1"
        )
    return model, np.concatenate(given)


def _check_axes(axes: tuple[int, ...], wanted: OwnModelRequest) -> None:
    """Raise `ModelFileError` where an output is not of the shape that its answers have."""
    if wanted.answers == "raw":
        if not axes or np.prod(axes) > MAX_RAW_NUMBERS:
            raise ModelFileError(
                f"output: shape {axes} per sample; a raw output has an axis behind the samples and "
                f"at most {MAX_RAW_NUMBERS} numbers"
            )
        return
    if wanted.answers == "pixels":
        _check_pixels(axes, wanted)
        return
    if not axes or np.prod(axes) != axes[0]:
        raise ModelFileError(
            f"output: shape {axes} per sample, a score for each class was expected; a model that "
            "gives every pixel a class has --answers pixels, any other output --answers raw"
        )
    _check_names(axes[0], wanted)


def _check_pixels(axes: tuple[int, ...], wanted: OwnModelRequest) -> None:
    preprocessing, names = wanted.preprocessing, wanted.class_names
    if not isinstance(preprocessing, Preprocessing):
        raise ModelFileError(
            f"answers: 'pixels' is for pictures; leave it out for {input_kind(preprocessing).nouns}"
        )
    if len(axes) != 3 or any(
        side % small for side, small in zip(preprocessing.size, axes[1:], strict=True)
    ):
        raise ModelFileError(
            f"output: shape {axes} per picture; a model of pixels gives scores (classes, height, "
            f"width) of {preprocessing.size} pixels, or of a whole part of it along both sides"
        )
    _check_names(axes[0], wanted)
    if names[0] != BACKGROUND:
        raise ModelFileError(
            f"classes: {names[0]!r} comes first; the first score of a pixel is that of no class, "
            f"and its name is {BACKGROUND!r}"
        )
    if np.prod(axes[:1] + preprocessing.size) > MAX_MAP_NUMBERS:
        raise ModelFileError(
            f"preprocessing.size: scores of one picture would be more than {MAX_MAP_NUMBERS} "
            "numbers; give the network smaller pictures"
        )


def _check_names(scores: int, wanted: OwnModelRequest) -> None:
    """Raise `ModelFileError` unless there is a name for each score, or two for one."""
    names, of = wanted.class_names, " of a pixel" if wanted.answers == "pixels" else ""
    also = f", {BACKGROUND!r} among them" if of else ""
    if scores == 1 and len(names) == 1:
        first = BACKGROUND if of else "good"
        second = "object" if names[0] == BACKGROUND else names[0]
        raise ModelFileError(
            f"classes: one name, {names[0]!r}, for one number{of}: a class alone is always 100 % "
            "sure. Give two names, first that of a low number and then that of a high one, such "
            f"as {first!r} and {str(second)!r}; or say --answers raw"
        )
    if scores != len(names) and (scores, len(names)) != (1, 2):
        counted = "score" if scores == 1 else "scores"
        told = "name" if len(names) == 1 else "names"
        raise ModelFileError(
            f"classes: {len(names)} {told} for {scores} {counted}{of}; give one name a line for "
            f"each score, in their order{also}"
        )


def _cut_of(network: _Network, wanted: OwnModelRequest) -> tuple[CutValue, tuple[str, ...]]:
    """Return where to cut: where it was said, or before the last layer that can be cut off.

    A cut that leaves most of a network in the head is none, since devices run heads on the
    processor; that is told.
    """
    cutting, output = network.cutting, network.output
    if wanted.split is not None:
        name = cutting.value(wanted.split)
        cutting.after(name, output)
        return _measured(network, name, wanted), ()
    for name in cutting.cuts(output):
        try:
            cut = _measured(network, name, wanted)
        except ModelFileError:
            continue
        if cutting.has_small_end(name, output):
            return cut, ()
        try:
            return _measured(network, output, wanted), (_EARLY.format(name=name),)
        except ModelFileError:  # too many rows to be a frozen part's
            return cut, ()
    return _measured(network, output, wanted), ()


_EARLY = (
    "its paths meet at {name!r} for the last time, and most of it lies behind that; devices run "
    "heads on the processor, so all of it is the frozen part, which they fetch anew with each "
    "version; `--split NODE` cuts it elsewhere"
)


def _measured(network: _Network, name: str, wanted: OwnModelRequest) -> CutValue:
    """Return a value with its axes; raise `ModelFileError` where they are no features'."""
    model = ModelProto()
    model.CopyFrom(network.model)
    del model.graph.output[:]
    model.graph.output.append(helper.make_empty_tensor_value_info(name))
    inputs = noise_inputs(wanted.preprocessing, 1)
    if name == network.cutting.source:
        value = inputs
    else:
        value = LoadedModel(write(model)).run({network.cutting.source: inputs})[name]
    axes = value.shape[1:]
    fits = {
        "sample": bool(axes) and 1 <= np.prod(axes) <= MAX_FEATURES,
        "pixels": len(axes) == 3 and axes[0] <= MAX_FEATURES and np.prod(axes) <= MAX_MAP_NUMBERS,
        "raw": bool(axes) and np.prod(axes) <= MAX_MAP_NUMBERS,
    }
    if value.dtype != np.float32 or value.shape[:1] != (1,) or not fits[wanted.answers]:
        raise ModelFileError(
            f"split: {name!r} is {value.dtype} of shape {value.shape} for one sample; "
            f"{_FEATURES_OF[wanted.answers]}"
        )
    return CutValue(name, axes)


_FEATURES_OF = {
    "sample": f"features are float32, at most {MAX_FEATURES} of a sample",
    "pixels": f"features of pixels are float32 (1, M, h, w), at most {MAX_MAP_NUMBERS} numbers",
    "raw": f"features are float32 (1, ...), at most {MAX_MAP_NUMBERS} numbers",
}


def _halves(network: _Network, cut: CutValue, wanted: OwnModelRequest) -> tuple[bytes, bytes]:
    cutting, output, axes = network.cutting, network.output, network.of_output
    files = OwnFiles(network.model, wanted.domains, network.meaning)
    whole = wanted.answers == "sample"
    frozen = files.frozen(cutting.before(cut.name), cutting.source, cut, in_a_row=whole)
    half = cutting.after(cut.name, output)
    if whole:
        return frozen, files.scores(half, cut, output, axes, len(wanted.class_names))
    if wanted.answers == "raw":
        return frozen, files.raw(half, cut, output, axes)
    assert isinstance(wanted.preprocessing, Preprocessing)
    return frozen, files.pixels(half, cut, output, axes, wanted.preprocessing.size)


def _golden(frozen: bytes, wanted: OwnModelRequest) -> bytes:
    if wanted.answers == "sample":
        return build_golden(frozen, wanted.preprocessing, wanted.samples)
    return build_dense_golden(wanted.preprocessing, wanted.samples)


def _run_pair(
    frozen: bytes, head: bytes, inputs: Inputs, wanted: OwnModelRequest
) -> tuple[Values, Values | None]:
    """Return the scores of inputs, and of pixels the small ones: both halves as devices run them.

    Whole samples are run as a batch, all else one by one.
    """
    first, last, name = LoadedModel(frozen), LoadedModel(head), wanted.preprocessing.input_name
    batches = [inputs] if wanted.answers == "sample" else [each[np.newaxis] for each in inputs]
    given = [last.run({FEATURES: first.run({name: batch})[FEATURES]}) for batch in batches]
    scores = np.concatenate([one[SCORES] for one in given])
    if not np.isfinite(scores).all():
        raise ModelFileError(
            "scores: NaN or infinite for the golden batch; check the preprocessing and the weights"
        )
    if wanted.answers != "pixels":
        return scores, None
    return scores, np.concatenate([one[SMALL_SCORES] for one in given])


def _original(data: bytes, network: _Network, inputs: Inputs, wanted: OwnModelRequest) -> Values:
    """Return what the file as it came gives of inputs, one by one."""
    output, came = network.own_output, clean(read_model(data, wanted.domains))
    count = samples_at_once(came, wanted.preprocessing) or 1
    shown = read_model(data, wanted.domains)
    if all(value.name != output for value in shown.graph.output):
        declare_output(shown, output)
    loaded = LoadedModel(write(shown))
    given = [
        answer_of(loaded.run(feeds, [output])[output], count)
        for feeds in feeds_of(came, wanted.preprocessing, inputs)
    ]
    found = np.stack(given).astype(np.float32)
    return np.moveaxis(found, -1, 1) if network.classes_last else found


def _allowed(meaning: Meaning | None, of_scores: float) -> float:
    """Return the largest difference of what the file gives and the pair."""
    if meaning is None or meaning.gives == "scores":
        return of_scores
    return DEFAULT_TOLERANCE + (SAME if meaning.rounded else 0.0)


def _compared(scores: Values, original: Values, meaning: Meaning | None) -> Parity:
    """Return how closely the pair follows the file, in the numbers that the file gives."""
    if meaning is None:
        found, original = scores, original.reshape(scores.shape)
    else:
        found, original = meaning.compared(scores, original)
    same = np.ones(len(found)) if meaning is None else found.argmax(1) == original.argmax(1)
    return Parity(
        max_absolute_difference=float(np.abs(found - original).max()),
        agreement=float(same.mean()),
        samples=same.size,
        runtime=describe_runtime(),
    )
