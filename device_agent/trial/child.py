"""`python -m device_agent.trial.child`: tries the model that standard input names, and answers.

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

from device_agent.errors import ModelError
from device_agent.host import ModelHost
from device_agent.inference import InstalledModel, SessionSettings, describe_runtime
from device_agent.memory import frugal_allocation, give_back, resident_bytes
from device_agent.self_test import golden_inputs, self_test
from device_agent.store.blobs import BlobFolder
from device_agent.trial.limits import contain, limit
from device_agent.trial.measuring import Clocks, measure_runs
from device_agent.trial.messages import (
    MAX_REASON,
    ReceivedTrial,
    TrialAnswer,
    TrialRequest,
    read_request,
)
from schemas.errors import FleetledgerError

_CPU = "CPUExecutionProvider"


def main() -> None:
    """Read a request, try the model, write the answer."""
    answer_to = os.dup(1)
    os.dup2(2, 1)
    contain()
    frugal_allocation()
    asked = read_request(sys.stdin.buffer)
    answer = try_model(asked)
    os.write(answer_to, answer.model_dump_json().encode())


def try_model(asked: ReceivedTrial) -> TrialAnswer:
    """Load, test and measure a model within the limits of the request."""
    request = asked.request
    try:
        _, available = describe_runtime()
        on_gpu = any(name in available for name in request.providers if name != _CPU)
        limit(request.memory_bytes, request.cpu_seconds, on_gpu=on_gpu)
        return _tried(asked, Clocks(processor=None) if on_gpu else Clocks())
    except FleetledgerError as error:
        return TrialAnswer(refused=str(error)[:MAX_REASON])
    except MemoryError:
        return TrialAnswer(refused=f"model: takes more than {request.memory_bytes >> 20} MiB")


def _tried(asked: ReceivedTrial, clocks: Clocks) -> TrialAnswer:
    request = asked.request
    blobs = BlobFolder(Path(request.blobs), durable=False)
    host = ModelHost(blobs, _settings(request))
    model = host.model(host.manifest(request.manifest), request.variant)
    golden = blobs.read(model.manifest.golden.digest)
    self_test(model, golden, blobs.read(model.manifest.golden_scores.digest), asked.samples)
    resident = _resident_bytes()
    former = _former(host, blobs, request)
    measured = measure_runs(_run(model, golden), former, _resident_bytes, clocks)
    return TrialAnswer(
        provider=model.provider,
        seconds=measured.seconds,
        former_seconds=measured.former_seconds,
        slower=measured.slower,
        grown_bytes=measured.grown_bytes,
        runs=measured.runs,
        resident_bytes=resident,
    )


def _settings(request: TrialRequest) -> SessionSettings:
    return SessionSettings(
        request.providers, request.threads, request.batch, frozenset(request.domains)
    )


def _former(host: ModelHost, blobs: BlobFolder, request: TrialRequest) -> Callable[[], Any] | None:
    """Return a run of the former model on its own golden sample; None where it does not run."""
    if request.former is None:
        return None
    try:
        model = host.model(host.manifest(request.former), request.former_variant)
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
    give_back()
    return resident_bytes()


if __name__ == "__main__":
    main()
