"""The rules for the files that a manifest pins, together: each is of its kind, and they fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fleetledger.device_agent.errors import RuleError
from fleetledger.device_agent.models.model_rules.golden_file import GoldenTensor, check_golden
from fleetledger.learning.onnx_files.file_rules import OnnxFile, OnnxValue
from fleetledger.schemas.models import (
    FEATURES,
    GOLDEN_INPUTS,
    NOVELTY,
    SCORES,
    SMALL_SCORES,
    Manifest,
)
from fleetledger.schemas.values import Digest
from fleetledger.schemas.variants import VariantName

_ELEMENTS = {"float32": 1, "int64": 7}
"""Numbers of types in ONNX."""


def check_pinned(
    manifest: Manifest,
    path_of: Callable[[Digest], Path],
    declared: Callable[[Digest], OnnxFile],
    variant: VariantName | None = None,
) -> None:
    """Hold the four files of a manifest to the rules; raise `RuleError`. Nothing is loaded.

    The frozen one is that of a `variant`, or the reference's; `declared` holds an ONNX file to its.
    """
    for reference in manifest.files_with(variant):
        found = path_of(reference.digest).stat().st_size
        if found != reference.size:
            raise RuleError(
                f"file {reference.digest.short}: has {found} bytes, and {reference.size} by the "
                "manifest; push the model again"
            )
    _check_frozen(manifest, declared(manifest.frozen_with(variant).digest))
    _check_head(manifest, declared(manifest.head.digest))
    for digest, expected in _golden(manifest).items():
        check_golden(path_of(digest), expected)


def _check_frozen(manifest: Manifest, file: OnnxFile) -> None:
    made = manifest.preprocessing
    _check_input("frozen.onnx", file, made.input_name, made.dtype, made.shape)
    _check_output("frozen.onnx", file, FEATURES, manifest.feature_width)


def _check_head(manifest: Manifest, file: OnnxFile) -> None:
    if manifest.answers == "raw":
        _check_raw_head(manifest, file)
        return
    behind = (None, None) if manifest.answers == "pixels" else ()
    _check_input("head.onnx", file, FEATURES, "float32", (manifest.feature_width, *behind))
    names = (SCORES, SMALL_SCORES) if manifest.answers == "pixels" else (SCORES,)
    for name in names:
        _check_output("head.onnx", file, name, len(manifest.class_names))
    if any(value.name == NOVELTY for value in file.outputs):
        _check_output("head.onnx", file, NOVELTY, 1)


def _check_raw_head(manifest: Manifest, file: OnnxFile) -> None:
    """Hold a head to its output's shape; its features may have any number of axes."""
    axes = file.inputs[0].axes if file.inputs else None
    behind: tuple[int | None, ...] = (None,) * (len(axes or ()) - 2)
    _check_input("head.onnx", file, FEATURES, "float32", (manifest.feature_width, *behind))
    _check_output("head.onnx", file, SCORES, manifest.output_shape[0])


def _check_input(
    what: str, file: OnnxFile, name: str, dtype: str, shape: tuple[int | None, ...]
) -> None:
    """Raise `RuleError` unless the one input is of this name, type and shape behind the batch."""
    names = [value.name for value in file.inputs]
    if names != [name]:
        raise RuleError(f"{what}: its inputs are {names}, {name!r} was expected; export it again")
    _check_type(what, file.inputs[0], dtype)
    axes = file.inputs[0].axes
    if axes is None:
        return
    fits = len(axes) == len(shape) + 1 and all(
        found is None or expected is None or found == expected
        for found, expected in zip(axes[1:], shape, strict=True)
    )
    if not fits:
        raise RuleError(
            f"{what}: its input {name!r} is of shape {axes}, {('N', *shape)} was expected; export "
            "it again"
        )


def _check_output(what: str, file: OnnxFile, name: str, width: int) -> None:
    value = next((value for value in file.outputs if value.name == name), None)
    if value is None:
        raise RuleError(f"{what}: it has no output {name!r}; export it again")
    _check_type(what, value, "float32")
    axes = value.axes
    if axes is not None and (len(axes) < 2 or axes[1] not in (None, width)):
        raise RuleError(
            f"{what}: its output {name!r} is of shape {axes}, a width of {width} was expected; "
            "export it again"
        )


def _check_type(what: str, value: OnnxValue, dtype: str) -> None:
    if value.element != _ELEMENTS[dtype]:
        raise RuleError(
            f"{what}: {value.name!r} is of type {value.element}, {dtype} was expected; export it "
            "again"
        )


def _golden(manifest: Manifest) -> dict[Digest, dict[str, GoldenTensor]]:
    """Return what the two golden files of a manifest hold."""
    made, classes = manifest.preprocessing, len(manifest.class_names)
    inputs = {GOLDEN_INPUTS: GoldenTensor(made.dtype, made.shape)}
    if manifest.answers == "pixels":
        scores = {SMALL_SCORES: GoldenTensor("float32", (classes, None, None))}
        return {manifest.golden.digest: inputs, manifest.golden_scores.digest: scores}
    if manifest.answers == "raw":
        scores = {SCORES: GoldenTensor("float32", manifest.output_shape)}
        return {manifest.golden.digest: inputs, manifest.golden_scores.digest: scores}
    features = {FEATURES: GoldenTensor("float32", (manifest.feature_width,))}
    return {
        manifest.golden.digest: inputs | features,
        manifest.golden_scores.digest: {SCORES: GoldenTensor("float32", (classes,))},
    }
