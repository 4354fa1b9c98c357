"""Files from elsewhere are judged as devices judge them: rules, then a process with limits.

What a file makes ONNX or ONNX Runtime do happens in a child of its own. A file can compute for
ever, ask for all memory there is, or crash a library; the child ends then, and nothing else does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import psutil

from fleetledger.export.backbone import ImportedBackbone
from fleetledger.export.errors import ModelFileError
from fleetledger.export.judging_messages import (
    BackboneRequest,
    GoldenFile,
    GoldenRequest,
    JudgingRequest,
    Made,
    Wanted,
    read_answer,
)
from fleetledger.export.own_model import CutModel, OwnModelRequest
from fleetledger.learning.onnx_files.file_rules import MAX_MODEL_BYTES
from fleetledger.runtime.child_limits import child_environment
from fleetledger.schemas.models import AnyPreprocessing

MOST_ANSWERED = 3 * MAX_MODEL_BYTES
"""Bytes of an answer: two halves of a file, and what is measured of them."""
_COMMAND = (sys.executable, "-m", "fleetledger.export.judging_child")
_BY_THE_CLOCK = 4
"""Times the processor's seconds after which a child is ended that sleeps or waits."""
_LAST_WORDS = 300


@dataclass(frozen=True)
class JudgingLimits:
    """What taking a file in may take."""

    seconds: int = 900
    """Of the processor."""
    memory_bytes: int | None = None
    """Beyond the libraries; None for half of the machine's."""


def judged_model(data: bytes, wanted: OwnModelRequest, limits: JudgingLimits) -> CutModel:
    """Return `own_model` of a file, made by a process with limits; raise what that raises."""
    return _ask(data, wanted, limits, CutModel)


def judged_backbone(
    data: bytes, wanted: BackboneRequest, limits: JudgingLimits
) -> ImportedBackbone:
    """Return `import_backbone` of a file, made by a process with limits; raise what that raises."""
    return _ask(data, wanted, limits, ImportedBackbone)


def judged_golden(frozen: bytes, preprocessing: AnyPreprocessing, limits: JudgingLimits) -> bytes:
    """Return `build_golden` of a frozen model, made by a process with limits; raise as that does.

    A network that was judged on some samples may still hang on others.
    """
    return _ask(frozen, GoldenRequest(preprocessing), limits, GoldenFile).golden


def _ask(
    data: bytes,
    wanted: Wanted,
    limits: JudgingLimits,
    kind: type[Made],
) -> Made:
    memory = limits.memory_bytes or int(psutil.virtual_memory().total) // 2
    request = JudgingRequest(data, wanted, limits.seconds, memory)
    with (
        tempfile.TemporaryFile() as asked,
        tempfile.TemporaryFile() as answer,
        tempfile.TemporaryFile() as words,
    ):
        asked.write(request.written())
        asked.seek(0)
        try:
            done = subprocess.run(  # noqa: S603 - our own module
                _COMMAND,
                stdin=asked,
                stdout=answer,
                stderr=words,
                cwd="/",
                env=child_environment(dict(os.environ)),
                timeout=limits.seconds * _BY_THE_CLOCK,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            raise ModelFileError(_too_long(limits.seconds * _BY_THE_CLOCK)) from error
        if done.returncode != 0:
            words.seek(max(0, words.seek(0, os.SEEK_END) - _LAST_WORDS))
            raise ModelFileError(_died(done.returncode, words.read(), limits))
        answer.seek(0)
        return read_answer(answer.read(MOST_ANSWERED), kind)


def _too_long(seconds: float) -> str:
    return (
        f"model: was not judged within {seconds:g} s; it hangs, or this machine is slow: raise "
        "[imports] seconds in coordinator.toml"
    )


def _died(code: int, words: bytes, limits: JudgingLimits) -> str:
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return _too_long(limits.seconds)
    lines = words.decode("utf-8", "replace").strip().splitlines()
    said = f"; it last said: {lines[-1]}" if lines else ""
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"model: it crashed the process that judged it ({how}){said}; export it again"
