"""The agent's side of a trial: it asks, watches the process, and judges what comes back."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil
from pydantic import ValidationError

from device_agent.errors import TrialError
from device_agent.inference import Inputs, SessionSettings
from device_agent.store.blobs import BlobFolder
from device_agent.trial.limits import trial_environment
from device_agent.trial.messages import (
    MAX_ANSWER_BYTES,
    TrialAnswer,
    TrialRequest,
    write_request,
)
from device_agent.trial.watching import ChildOutcome, TrialLimits, run_child
from schemas.values import Digest
from schemas.variants import VariantName

log = logging.getLogger("device_agent.trial")

VariantOf = Callable[[Digest], "VariantName | None"]
COMMAND = (sys.executable, "-m", "device_agent.trial.child")
NOTICEABLE_SECONDS = 0.01
"""Of one sample: what is slower by less is not too slow, whatever it is a multiple of."""
LEAK_BYTES = 64 << 20
_LIBRARIES_BYTES = 512 << 20
"""More than Python, NumPy and ONNX Runtime are resident with."""


@dataclass(frozen=True)
class TrialSettings:
    """What a model may take while it is tried."""

    seconds: float = 300.0
    memory_bytes: int | None = None
    """Beyond the libraries; None for half of the machine's."""
    slowdown: float = 2.5
    """How many times the former model's time it may take."""


class Trial:
    """Tries models in processes of their own; for one thread."""

    def __init__(
        self,
        blobs: BlobFolder,
        sessions: SessionSettings,
        settings: TrialSettings,
        command: Sequence[str] = COMMAND,
        variant_of: VariantOf = lambda _: None,
    ) -> None:
        """`variant_of` tells on which variant a model in a slot runs, by its manifest."""
        self._blobs = blobs
        self._sessions = sessions
        self._settings = settings
        self._command = command
        self._variant_of = variant_of

    def run(
        self,
        manifest: Digest,
        former: Digest | None,
        samples: Sequence[Inputs],
        variant: VariantName | None = None,
    ) -> TrialAnswer:
        """Try a model whose files are here, beside the former one; return what it took.

        Raises `TrialError` in words if the process died, hung or took too much, if the model gave
        wrong answers, or is too slow.
        """
        answer = self._ask(self._request(manifest, former, variant), samples)
        judge(answer, self._settings)
        return answer

    def weigh(self, manifest: Digest) -> int | None:
        """Return the resident bytes of a process that has tested one model; None if it cannot."""
        try:
            answer = self._ask(self._request(manifest, None, self._variant_of(manifest)), ())
        except TrialError as error:
            log.warning("a model's memory is not known: %s", error)
            return None
        return answer.resident_bytes if answer.refused is None else None

    def _ask(self, request: TrialRequest, samples: Sequence[Inputs]) -> TrialAnswer:
        # In memory, because samples of this device have no place in a folder for everybody.
        with os.fdopen(os.memfd_create("trial"), "w+b") as file:
            write_request(file, request, samples)
            file.seek(0)
            bounds = TrialLimits(
                self._settings.seconds,
                request.memory_bytes + _LIBRARIES_BYTES,
                MAX_ANSWER_BYTES,
            )
            outcome = run_child(self._command, trial_environment(dict(os.environ)), file, bounds)
        return read_outcome(outcome, self._settings)

    def _request(
        self, manifest: Digest, former: Digest | None, variant: VariantName | None
    ) -> TrialRequest:
        allowed = self._settings.memory_bytes
        if allowed is None:
            allowed = int(psutil.virtual_memory().total) // 2
        return TrialRequest(
            blobs=str(self._blobs.folder.absolute()),
            manifest=manifest,
            former=former,
            variant=variant,
            former_variant=None if former is None else self._variant_of(former),
            providers=self._sessions.providers,
            threads=self._sessions.threads,
            batch=self._sessions.batch,
            domains=tuple(sorted(self._sessions.domains)),
            memory_bytes=allowed,
            cpu_seconds=max(1, int(self._settings.seconds * self._sessions.threads)),
        )


def read_outcome(outcome: ChildOutcome, settings: TrialSettings) -> TrialAnswer:
    """Return what the process answered; raise `TrialError` if it did not."""
    if outcome.code < 0:
        raise TrialError(_died(-outcome.code, settings))
    said = f"; it last said: {outcome.last_words}" if outcome.last_words else ""
    if outcome.code > 0:
        raise TrialError(
            f"trial: the process that tried the model ended with exit code {outcome.code}{said}"
        )
    try:
        return TrialAnswer.model_validate_json(outcome.answer)
    except ValidationError as error:
        raise TrialError(
            f"trial: the process that tried the model answered nonsense, {outcome.answer[:40]!r}"
            f"{said}"
        ) from error


def judge(answer: TrialAnswer, settings: TrialSettings) -> None:
    """Raise `TrialError` for a model that was refused, leaves memory behind, or is too slow."""
    if answer.refused is not None:
        raise TrialError(answer.refused)
    if answer.grown_bytes > LEAK_BYTES:
        raise TrialError(
            f"trial: memory grew by {answer.grown_bytes >> 20} MiB in {answer.runs} runs of the "
            "model; it leaks"
        )
    former, slower = answer.former_seconds, answer.slower
    if former is None or slower is None or answer.seconds - former < NOTICEABLE_SECONDS:
        return
    if slower > settings.slowdown:
        raise TrialError(
            f"trial: the model takes {answer.seconds * 1000:.1f} ms for a sample, "
            f"{slower:.1f} times as long as the former one; [model] slowdown in "
            f"agent.toml allows {settings.slowdown:g}"
        )


def _died(number: int, settings: TrialSettings) -> str:
    if number == signal.SIGXCPU:
        return (
            f"trial: the model took more than {settings.seconds:g} s of processor time; it hangs, "
            "or this device is slow: raise [model] trial_seconds in agent.toml"
        )
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unknown"
    return f"trial: the model crashed the process that tried it: signal {number} ({name})"
