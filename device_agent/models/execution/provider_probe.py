"""Probe of an execution provider: a model of two nodes that runs in a process of its own.

That a provider is listed proves nothing, since a wheel for another GPU lists it, too. The model is
run in a process of its own, because a driver that does not fit can end the one that asks it.
`python -m fleetledger.device_agent.models.execution.provider_probe PROVIDER` is that process; it
answers in JSON.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, ValidationError

from fleetledger.runtime.child_limits import child_environment
from fleetledger.runtime.onnx_runtime import onnx_runtime
from fleetledger.runtime.strict import Strict

COMMAND = (sys.executable, "-m", "fleetledger.device_agent.models.execution.provider_probe")
SECONDS = 120.0
"""For one provider: TensorRT builds an engine even of two nodes."""
_LONGEST_REASON = 300
_ERRORS_ONLY = 3

PROBE = base64.b64decode(
    "CAg6kAEKJgoBeAoBdxIBYyIEQ29udioVCgxrZXJuZWxfc2hhcGVAAUABoAEHCgwKAWMSAXkiBFJlbHUSBXByb2JlKhcI"
    "AggBCAEIARABIggAAABAAACAv0IBd1obCgF4EhYKFAgBEhAKAggBCgIIAQoCCAIKAggCYhsKAXkSFgoUCAESEAoCCAEK"
    "AggCCgIIAgoCCAJCBAoAEA0="
)
"""A convolution `x` (1, 1, 2, 2) by 2 and by -1, and a ReLU behind it: `y` (1, 2, 2, 2)."""
_ASKED = np.array([[[[1, -2], [3, -4]]]], np.float32)
_EXPECTED = np.array([[[[2, 0], [6, 0]], [[0, 2], [0, 4]]]], np.float32)


class ProbeAnswer(Strict):
    """What became of the two nodes."""

    ran: tuple[str, ...] = ()
    """The execution providers that computed nodes, by ONNX Runtime's own record of the run."""
    milliseconds: float = Field(default=0.0, ge=0)
    """Of a second run."""
    failed: str = ""
    """Why it does not run; empty where it does."""


def probe(name: str, command: Sequence[str] = COMMAND, seconds: float = SECONDS) -> ProbeAnswer:
    """Run the two nodes on one provider, in a process of its own."""
    try:
        child = subprocess.run(  # noqa: S603 - the agent's own command
            [*command, name],
            capture_output=True,
            timeout=seconds,
            check=False,
            cwd="/",
            env=child_environment(dict(os.environ)),
        )
    except subprocess.TimeoutExpired:
        return ProbeAnswer(failed=f"does not answer within {seconds:g} s")
    except OSError as error:
        return ProbeAnswer(failed=f"cannot be tried: {error.strerror}")
    try:
        return ProbeAnswer.model_validate_json(child.stdout)
    except ValidationError:
        how = f"signal {-child.returncode}" if child.returncode < 0 else f"{child.returncode}"
        return ProbeAnswer(failed=f"ends the process that asks it: {how}{_last(child.stderr)}")


def run_probe(runtime: Any, name: str, folder: Path) -> ProbeAnswer:  # noqa: ANN401 - untyped
    """Run the two nodes on one provider; ONNX Runtime's record of it goes into `folder`."""
    options = runtime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "probe")
    # Two nodes remain two.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = _ERRORS_ONLY
    try:
        session = runtime.InferenceSession(PROBE, options, providers=[name], enable_fallback=0)
        session.disable_fallback()  # older ones know no `enable_fallback`
        (values,) = session.run(["y"], {"x": _ASKED})
        began = time.perf_counter()
        session.run(["y"], {"x": _ASKED})
        taken = time.perf_counter() - began
        ran = _providers_in(Path(session.end_profiling()))
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's share no base; this is the answer
        return ProbeAnswer(failed=_first_line(error))
    if not np.array_equal(values, _EXPECTED):
        return ProbeAnswer(ran=ran, failed="gives wrong numbers")
    return ProbeAnswer(ran=ran, milliseconds=taken * 1000)


def _providers_in(profile: Path) -> tuple[str, ...]:
    """Return the providers whose kernels are in a record of ONNX Runtime's profiler."""
    events = json.loads(profile.read_text(encoding="utf-8"))
    found = {
        str(event["args"]["provider"])
        for event in events
        if event.get("cat") == "Node" and event.get("args", {}).get("provider")
    }
    return tuple(sorted(found))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:_LONGEST_REASON]


def _last(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return f"; it last said: {lines[-1][-_LONGEST_REASON:]}" if lines else ""


def main(name: str) -> None:
    """Answer on what was standard output; libraries print to standard error instead."""
    answer_to = os.dup(1)
    os.dup2(2, 1)
    runtime = onnx_runtime()
    with tempfile.TemporaryDirectory() as folder:
        answer = run_probe(runtime, name, Path(folder))
    os.write(answer_to, answer.model_dump_json().encode())


if __name__ == "__main__":
    main(sys.argv[1])
