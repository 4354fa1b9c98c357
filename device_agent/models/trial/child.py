"""`python -m fleetledger.device_agent.models.trial.child`: try the model that standard input names.

The answer is one JSON document on what was standard output; whatever libraries print there goes to
standard error instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fleetledger.device_agent.errors import ModelError
from fleetledger.device_agent.home.memory import frugal_allocation, release_memory, resident_bytes
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.execution.engines import EngineStore
from fleetledger.device_agent.models.execution.providers import CPU, TENSORRT
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import (
    InstalledModel,
    SessionSettings,
    describe_runtime,
)
from fleetledger.device_agent.models.self_test import golden_inputs, self_test
from fleetledger.device_agent.models.trial.durations import Clocks, measure_runs
from fleetledger.device_agent.models.trial.messages import (
    BUILT,
    MAX_REASON,
    ReceivedTrial,
    TrialAnswer,
    TrialRequest,
    read_request,
)
from fleetledger.runtime.child_limits import contain, limit, limit_processor
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.values import Digest


def main() -> None:
    """Read a request, try the model, write the answer."""
    answer_to = os.dup(1)
    os.dup2(2, 1)
    contain()
    frugal_allocation()
    asked = read_request(sys.stdin.buffer)
    answer = try_model(asked, lambda: os.write(answer_to, BUILT))
    os.write(answer_to, answer.model_dump_json().encode())


def try_model(asked: ReceivedTrial, built: Callable[[], object]) -> TrialAnswer:
    """Load, test and measure a model within the limits of the request.

    `built` is called once an engine is there that was to be built, or TensorRT was left.
    """
    request = asked.request
    first = request.cpu_seconds if request.engines is None else request.engines.cpu_seconds
    try:
        _, available = describe_runtime()
        on_gpu = any(name in available for name in request.providers if name != CPU)
        limit(request.memory_bytes, first, on_gpu=on_gpu)
        return _tried(asked, Clocks(processor=None) if on_gpu else Clocks(), built)
    except FleetledgerError as error:
        return TrialAnswer(refused=str(error)[:MAX_REASON])
    except MemoryError:
        return TrialAnswer(refused=f"model: takes more than {request.memory_bytes >> 20} MiB")


def _tried(asked: ReceivedTrial, clocks: Clocks, built: Callable[[], object]) -> TrialAnswer:
    request = asked.request
    blobs = BlobFolder(Path(request.blobs), durable=False)
    host = ModelHost(blobs, _settings(request))
    manifest = host.manifest(request.manifest)
    golden = blobs.read(manifest.golden.digest)
    if request.engines is not None and request.engines.builds is not None:
        _build(host.model(manifest, request.variant), golden, request.batch)
        # What is tried is the engine as it lies on the disk, where others will find it.
        host = ModelHost(blobs, _settings(request))
        host.frozen(manifest.frozen_with(request.variant).digest)
        limit_processor(request.cpu_seconds)
        built()
    model = host.model(manifest, request.variant)
    self_test(model, golden, blobs.read(model.manifest.golden_scores.digest), asked.samples)
    resident = _resident_bytes()
    former = _former(host, blobs, request, manifest.lineage)
    measured = measure_runs(_run(model, golden), former, _resident_bytes, clocks)
    return TrialAnswer(
        provider=model.provider,
        left=tuple(reason[:MAX_REASON] for reason in model.left),
        seconds=measured.seconds,
        former_seconds=measured.former_seconds,
        slower=measured.slower,
        grown_bytes=measured.grown_bytes,
        runs=measured.runs,
        resident_bytes=resident,
    )


def _build(model: InstalledModel, golden: bytes, batch: int) -> None:
    """Have TensorRT build an engine for one sample and for the largest batch, if it is used.

    ONNX Runtime builds at a run whose batch the engine does not cover, and widens it then. A model
    of pixels is always asked about one picture.
    """
    sample = golden_inputs(golden)[:1]
    model.features(sample)
    if batch > 1 and not model.of_pixels and model.provider == TENSORRT:
        model.features(np.repeat(sample, batch, axis=0))


def _settings(request: TrialRequest) -> SessionSettings:
    store, engines = None, request.engines
    if engines is not None:
        environment = engines.environment
        store = EngineStore(Path(engines.folder), lambda: environment, engines.builds)
    return SessionSettings(
        request.providers, request.threads, request.batch, frozenset(request.domains), store
    )


def _former(
    host: ModelHost, blobs: BlobFolder, request: TrialRequest, lineage: Digest
) -> Callable[[], Any] | None:
    """Return a run of the former model on its own golden sample.

    None where it does not run, or is of another lineage: a larger network may take its time.
    """
    if request.former is None:
        return None
    try:
        manifest = host.manifest(request.former)
        if manifest.lineage != lineage:
            return None
        model = host.model(manifest, request.former_variant)
        run = _run(model, blobs.read(model.manifest.golden.digest))
        run()
    except ModelError:
        return None
    return run


def _run(model: InstalledModel, golden: bytes) -> Callable[[], Any]:
    """Return a run of one golden sample through both parts."""
    sample = golden_inputs(golden)[:1]
    if model.of_pixels:
        return partial(model.pixel_scores, sample[0])
    if model.is_raw:
        return partial(model.raw_output, sample[0])
    return lambda: model.scores(model.features(sample))


def _resident_bytes() -> int:
    release_memory()
    return resident_bytes()


if __name__ == "__main__":
    main()
