"""The models in memory: each file is loaded once, and only what is in use stays loaded."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fleetledger.device_agent.errors import LoadError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.memory import release_memory
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.execution.engines import engines_in
from fleetledger.device_agent.models.execution.providers import CPU
from fleetledger.device_agent.models.inference.installed_model import (
    Frozen,
    InferenceSession,
    InstalledModel,
    SessionSettings,
    describe_runtime,
)
from fleetledger.device_agent.models.model_rules.onnx_file import check_onnx
from fleetledger.device_agent.models.model_rules.pinned_files import check_pinned
from fleetledger.learning.onnx_files.file_rules import OnnxFile
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import Digest
from fleetledger.schemas.variants import VariantName

_KEPT = 3
"""Sessions that stay loaded: one frozen part, the head in use, and the head being tested; of a
device that contributes and runs on a variant, two frozen parts and the head in use."""


def sessions_of(home: AgentHome) -> SessionSettings:
    """Return how the owner has sessions made."""
    settings = home.settings.model
    return SessionSettings(
        settings.providers,
        settings.threads,
        settings.batch,
        frozenset(settings.domains),
        engines_in(home.engines_folder, lambda: describe_runtime()[0]),
    )


@dataclass(frozen=True)
class _Unloaded:
    """What is known of a frozen part that was in memory."""

    provider: str
    left: tuple[str, ...] = ()


class ModelHost:
    """Loads models from the blob folder; for one thread."""

    def __init__(
        self,
        blobs: BlobFolder,
        settings: SessionSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` tells seconds."""
        self._blobs = blobs
        self._settings = settings
        self._clock = clock
        self._used = clock()
        self._sessions: dict[Digest, InferenceSession] = {}
        self._files: dict[Digest, OnnxFile] = {}
        self._last: Frozen | _Unloaded | None = None

    @property
    def provider(self) -> str | None:
        """The execution provider of the last frozen part that was asked for."""
        return self._last.provider if self._last is not None else None

    @property
    def left(self) -> tuple[str, ...]:
        """Which providers that frozen part has left for the next one, and why."""
        return self._last.left if self._last is not None else ()

    def frozen(self, digest: Digest) -> Frozen:
        """Return a frozen part; raise `ModelError` or `MissingError`."""
        session = self._session(digest, self._settings, frozen=digest)
        frozen = Frozen(session, self._settings.batch)
        self._last = frozen
        return frozen

    def unload(self, seconds: float) -> bool:
        """Let models go that nobody asked for in so many seconds; return whether any went.

        Those on a processor alone: what another provider made ready, or was left by, is dear.
        """
        last = self._last
        if not isinstance(last, Frozen) or last.provider != CPU or last.left:
            return False
        if self._clock() - self._used < seconds:
            return False
        self._last = _Unloaded(last.provider)
        self._sessions.clear()
        return True

    def reopen(self) -> None:
        """Have what left a provider loaded anew, because that may be fit by now."""
        left = [digest for digest, session in self._sessions.items() if session.left]
        for digest in left:
            del self._sessions[digest]

    def model(self, manifest: Manifest, variant: VariantName | None = None) -> InstalledModel:
        """Return a whole model, on a variant of its frozen part or on the reference.

        Raises `ModelError` or `MissingError`.
        """
        return InstalledModel(
            manifest,
            self.frozen(manifest.frozen_with(variant).digest),
            self._session(manifest.head.digest, self._settings.of_heads),
            variant,
        )

    def has(self, file: FileReference) -> bool:
        """Whether a file is in the blob folder."""
        return self._blobs.path(file.digest).exists()

    def check(self, manifest: Manifest, variant: VariantName | None = None) -> None:
        """Hold the files of a manifest to the rules, before any is loaded.

        Raises `DamagedError` for a file that is not whole, and `RuleError`.
        """
        for reference in manifest.files_with(variant):
            self._blobs.check(reference.digest)
        check_pinned(manifest, self._blobs.path, self._declared, variant)

    def manifest(self, digest: Digest) -> Manifest:
        """Read a manifest; raise `DamagedError`, or `LoadError` if it is none."""
        try:
            return Manifest.read(self._blobs.read(digest))
        except SchemaError as error:
            raise LoadError(f"manifest {digest.short}: {error}") from error

    def read(self, digest: Digest) -> bytes:
        """Return a file that is no model; raise `DamagedError`."""
        return self._blobs.read(digest)

    def _declared(self, digest: Digest) -> OnnxFile:
        """Return what a file declares that keeps to the rules, or raise `RuleError`.

        Bytes that have this digest are read once: they are whole, and say the same each time.
        """
        declared = self._files.pop(digest, None)
        if declared is None:
            declared = check_onnx(self._blobs.path(digest), self._settings.domains)
        self._files[digest] = declared
        while len(self._files) > _KEPT:
            del self._files[next(iter(self._files))]
        return declared

    def _give_back(self) -> None:
        """Return what loading has freed."""
        release_memory()

    def _session(
        self, digest: Digest, settings: SessionSettings, frozen: Digest | None = None
    ) -> InferenceSession:
        """Return a loaded file, the most recently used last."""
        self._used = self._clock()
        session = self._sessions.pop(digest, None)
        if session is None:
            while len(self._sessions) >= _KEPT:
                del self._sessions[next(iter(self._sessions))]
            path = self._blobs.check(digest)
            self._declared(digest)
            session = InferenceSession(path, settings, frozen)
            if frozen is not None:  # a head frees next to nothing
                self._give_back()
        self._sessions[digest] = session
        return session
