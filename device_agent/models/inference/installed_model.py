"""Models in ONNX Runtime: the frozen part and the head as two sessions in a row.

ONNX Runtime is imported when the first model is loaded, because a device without one must start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fleetledger.device_agent.errors import LoadError, MissingError
from fleetledger.device_agent.models.execution.engines import EngineStore
from fleetledger.device_agent.models.execution.providers import (
    CPU,
    TENSORRT,
    ProvenSession,
    Provider,
)
from fleetledger.runtime.onnx_runtime import onnx_runtime
from fleetledger.runtime.progress import working_at
from fleetledger.schemas.models import FEATURES, NOVELTY, SCORES, SMALL_SCORES, Manifest
from fleetledger.schemas.values import Digest
from fleetledger.schemas.variants import VariantName

Floats = npt.NDArray[np.float32]
Inputs = npt.NDArray[Any]
"""What preprocessing makes: float32 of pictures, int64 of texts."""
_ERRORS_ONLY = 3


@dataclass(frozen=True)
class SessionSettings:
    """How sessions are made: providers in the order in which they are tried, threads of each."""

    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    threads: int = 1
    batch: int = 8
    """Images per run."""
    domains: frozenset[str] = frozenset()
    """Operator domains that the owner allows beside the standard one."""
    engines: EngineStore | None = None
    """Engines of TensorRT that were built here; None where each session builds its own."""
    bound: bool = False
    """Whether inputs and outputs of a run are bound to the provider's own memory (I/O binding)."""

    @property
    def of_heads(self) -> SessionSettings:
        """The same on the processor: a head is small, and no engine is built of each new one."""
        return replace(self, providers=(CPU,), engines=None)

    def providers_for(self, frozen: Digest | None, available: Sequence[str]) -> list[Provider]:
        """Return the providers to try for a frozen part, with its engine; None for a head."""
        engines = self.engines if TENSORRT in available else None
        return [
            engines.provider(frozen, self.batch)
            if name == TENSORRT and engines is not None and frozen is not None
            else Provider(name)
            for name in self.providers
        ]


class InferenceSession:
    """One ONNX file, loaded."""

    def __init__(self, path: Path, settings: SessionSettings, frozen: Digest | None = None) -> None:
        """Load the file with the first provider that works; `frozen` names a frozen part.

        Raises `MissingError` without an ONNX Runtime, `LoadError` if no provider takes the file.
        """
        working_at(path)
        runtime = _runtime()
        providers = settings.providers_for(frozen, runtime.get_available_providers())
        self._proven = ProvenSession(
            runtime, path, providers, lambda: _options(runtime, settings), bound=settings.bound
        )
        session = self._proven.session
        self._input: str = session.get_inputs()[0].name
        self._outputs = {item.name: item.shape for item in session.get_outputs()}

    @property
    def provider(self) -> str:
        """The execution provider in use; it may be another one after the first run."""
        return self._proven.provider

    @property
    def left(self) -> tuple[str, ...]:
        """Which providers were left for the next one, and why."""
        return self._proven.left

    def width(self, output: str) -> int:
        """Return the width of an output (N, width) or, of pixels, (N, width, h, w).

        Raises `LoadError` if the file does not say it.
        """
        shape = self._outputs.get(output, ())
        width = shape[1] if len(shape) > 1 else None
        if not isinstance(width, int):
            raise LoadError(f"{output}: this file says no width of it; export it again")
        return width

    def has(self, output: str) -> bool:
        """Whether the file has an output of this name."""
        return output in self._outputs

    def run(self, output: str, batch: Inputs) -> Floats:
        """Return one output for a batch; raise `LoadError` where the run fails."""
        (value,) = self.run_all((output,), batch)
        return value

    def run_all(self, outputs: Sequence[str], batch: Inputs) -> tuple[Floats, ...]:
        """Return outputs of one run for a batch; raise `LoadError` where it fails."""
        for output in outputs:
            if output not in self._outputs:
                raise LoadError(
                    f"{output}: no output of this file ({', '.join(self._outputs)}); export it "
                    "again"
                )
        working_at("the model")
        values = self._proven.run(outputs, {self._input: batch})
        return tuple(np.asarray(value, dtype=np.float32) for value in values)


class Frozen:
    """The part of a model that never changes within a lineage: images or texts in, features out."""

    def __init__(self, session: InferenceSession, batch: int) -> None:
        self._session = session
        self._batch = batch

    @property
    def provider(self) -> str:
        """The execution provider in use."""
        return self._session.provider

    @property
    def left(self) -> tuple[str, ...]:
        """Which providers were left for the next one, and why."""
        return self._session.left

    @property
    def width(self) -> int:
        """The number of features M; raises `LoadError` if the file does not say it."""
        return self._session.width(FEATURES)

    def no_features(self) -> Floats:
        """Return the features (0, M) of no sample."""
        return np.empty((0, self.width), np.float32)

    def features(self, images: Sequence[Inputs] | Inputs) -> Floats:
        """Return the features (N, M) of preprocessed samples (N, ...), a few at a time."""
        batches = range(0, len(images), self._batch)
        parts = [
            self._session.run(FEATURES, np.asarray(images[i : i + self._batch])) for i in batches
        ]
        return np.concatenate(parts)


class SampleScores(NamedTuple):
    """What a model says of some samples."""

    scores: Floats
    """(N, C), a column per class name of the manifest."""
    novelty: Floats | None
    """(N,), from 0 to 1; None where the model does not tell it."""
    features: Floats
    """(N, M), by which samples are alike."""


@dataclass(frozen=True, eq=False)
class PixelScores:
    """What a model of pixels says of one picture: a plane for each class name of the manifest."""

    large: Floats
    """(C, H, W), of each pixel of the model's input."""
    small: Floats
    """(C, h, w), of which the large ones are made."""


class InstalledModel:
    """A whole model: frozen part and head, with the manifest that pins them."""

    def __init__(
        self,
        manifest: Manifest,
        frozen: Frozen,
        head: InferenceSession,
        variant: VariantName | None = None,
    ) -> None:
        """Put the parts together; `frozen` is of the manifest's `variant`, or its reference."""
        self.manifest = manifest
        self.variant = variant
        """The variant of the frozen part; None for the reference."""
        self._frozen = frozen
        self._head = head
        self.on_answer: Callable[[int, float], None] = lambda _samples, _seconds: None
        """Told how many samples were answered, and in how many seconds."""

    @property
    def provider(self) -> str:
        """The execution provider of the frozen part."""
        return self._frozen.provider

    @property
    def left(self) -> tuple[str, ...]:
        """Which providers the frozen part has left for the next one, and why."""
        return self._frozen.left

    @property
    def tolerance(self) -> float:
        """The largest difference to a golden score that the self-test accepts."""
        variant = self.manifest.variant(self.variant)
        return self.manifest.tolerance if variant is None else variant.tolerance

    @property
    def told(self) -> str:
        """What runs it, in words: the provider, and the variant where it is one."""
        return self.provider if self.variant is None else f"{self.variant} on {self.provider}"

    @property
    def of_pixels(self) -> bool:
        """Whether it gives each pixel a class, rather than a sample as a whole."""
        return self.manifest.answers == "pixels"

    @property
    def is_raw(self) -> bool:
        """Whether its output is for a program of the owner's, and gives nothing a class."""
        return self.manifest.answers == "raw"

    @property
    def tells_novelty(self) -> bool:
        """Whether it says how new a sample is."""
        return self._head.has(NOVELTY)

    def raw_output(self, sample: Inputs) -> Floats:
        """Return what a raw model gives of one preprocessed sample, of the manifest's shape.

        Raises `LoadError` if the model does not run, or gives another shape.
        """
        began = time.perf_counter()
        output: Floats = self._head.run(SCORES, self._frozen.features(sample[np.newaxis]))[0]
        if output.shape != self.manifest.output_shape:
            raise LoadError(
                f"scores: {output.shape} of one sample, {self.manifest.output_shape} was expected; "
                "export it again"
            )
        self.on_answer(1, time.perf_counter() - began)
        return output

    def features(self, images: Sequence[Inputs] | Inputs) -> Floats:
        """Return the features (N, M) of preprocessed samples; raise `LoadError`."""
        return self._frozen.features(images)

    def scores(self, features: Floats) -> Floats:
        """Return the scores (N, C) of features, a column per class name of the manifest."""
        return self._head.run(SCORES, features)

    def score(self, features: Floats) -> SampleScores:
        """Return the scores (N, C) of features, and how new their samples are, where it tells."""
        if not self.tells_novelty:
            return SampleScores(self.scores(features), None, features)
        scores, novelty = self._head.run_all((SCORES, NOVELTY), features)
        return SampleScores(scores, novelty.reshape(len(scores)), features)

    def predict(self, images: Sequence[Inputs] | Inputs) -> Floats:
        """Return the scores (N, C) of preprocessed samples; raise `LoadError`."""
        return self.score_samples(images).scores

    def score_samples(self, images: Sequence[Inputs] | Inputs) -> SampleScores:
        """Return what `score` says of preprocessed samples; raise `LoadError`."""
        began = time.perf_counter()
        scored = self.score(self.features(images))
        self.on_answer(len(images), time.perf_counter() - began)
        return scored

    def pixel_scores(self, picture: Inputs) -> PixelScores:
        """Return what a model of pixels says of one preprocessed picture; raise `LoadError`.

        One at a time: the scores of a picture of 513 x 513 pixels and 151 classes are 159 MB.
        """
        began = time.perf_counter()
        features = self._frozen.features(picture[np.newaxis])
        large, small = self._head.run_all((SCORES, SMALL_SCORES), features)
        rows = len(self.manifest.class_names)
        if large.shape[:2] != (1, rows) or small.shape[:2] != (1, rows) or large.ndim != 4:
            raise LoadError(
                f"scores: {large.shape} and {small.shape} of one picture, {rows} planes were "
                "expected; export it again"
            )
        self.on_answer(1, time.perf_counter() - began)
        return PixelScores(large[0], small[0])


def describe_runtime() -> tuple[str, tuple[str, ...]]:
    """Return ONNX Runtime's version and its providers; raise `MissingError` without one."""
    runtime = _runtime()
    return str(runtime.__version__), tuple(runtime.get_available_providers())


def _options(runtime: Any, settings: SessionSettings) -> Any:  # noqa: ANN401 - untyped
    options = runtime.SessionOptions()
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    # The arena keeps the largest batch's memory for good; without it a run is a little slower and
    # a 112-pixel MobileNetV2 holds 24 MB less afterwards (benchmarks/speed/agent_memory).
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = _ERRORS_ONLY
    return options


def _runtime() -> Any:  # noqa: ANN401 - a module without type information
    try:
        return onnx_runtime()
    except ImportError as error:
        raise MissingError(
            "onnxruntime: not installed; `fleetledger agent doctor` names the command for this "
            "device"
        ) from error
