"""Installer of models: verify, try, load, self-test, then switch; and back if that fails.

A new model is held to the rules for files, then tried in a process of its own; only after that the
agent itself loads and tests it, and counts that it does (see `probation`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ActiveModel
from fleetledger.device_agent.core.releases import ReleaseCheck, check_files
from fleetledger.device_agent.errors import (
    DamagedError,
    LoadError,
    ModelError,
    SelfTestError,
    TrialError,
    VariantError,
)
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import Inputs, InstalledModel
from fleetledger.device_agent.models.probation import Probation
from fleetledger.device_agent.models.self_test import self_test
from fleetledger.device_agent.models.slots import ModelSlots, Slot
from fleetledger.device_agent.models.trial.trial import Trial
from fleetledger.runtime.errors import SchemaError
from fleetledger.schemas.models import AnyPreprocessing, DesiredModel, Manifest
from fleetledger.schemas.variants import VariantName

_MAX_REASON = 400
"""Characters that are kept of what is wrong with a variant."""

Samples = Callable[[AnyPreprocessing], Sequence[Inputs]]
"""Gives a few preprocessed images or texts of this device."""


@dataclass(frozen=True)
class Guards:
    """What stands between a new model and the agent; without, it is loaded as it comes."""

    trial: Trial | None = None
    probation: Probation | None = None


class Installer:
    """Puts models into slots; for one thread."""

    def __init__(
        self,
        blobs: BlobFolder,
        slots: ModelSlots,
        host: ModelHost,
        samples: Samples,
        time_ns: Callable[[], int] = time.time_ns,
        guards: Guards = Guards(),
    ) -> None:
        self._blobs = blobs
        self._slots = slots
        self._host = host
        self._samples = samples
        self._time_ns = time_ns
        self._trial = guards.trial
        self._probation = guards.probation

    def read(self, desired: DesiredModel) -> inputs.Input:
        """Compare the manifest of a desired model with the files that are offered with it."""
        try:
            check_files(desired, self._host.manifest(desired.manifest.digest))
        except DamagedError as error:
            return inputs.FileDamaged(error.digest)
        except (ModelError, SchemaError) as error:
            return inputs.ModelRefused(desired.action, rolled_back=False, reason=str(error))
        return inputs.ManifestRead(desired.action)

    def install(
        self,
        desired: DesiredModel,
        check: ReleaseCheck | None = None,
        variant: VariantName | None = None,
    ) -> inputs.Input:
        """Make a desired model active, on a variant of its frozen part, or say why it is not.

        With a `check` its release is judged once more, and its files against its manifest.
        """
        refused = self._put(desired, check, variant, self._switch)
        if refused is not None:
            return refused
        other = self._slots.other()
        return inputs.ModelInstalled(
            desired.action,
            ActiveModel(desired.version, desired.manifest.digest),
            other.version if other is not None else None,
            desired.release if check is not None else None,
            other.model if other is not None else None,
            variant=variant,
        )

    def shadow(
        self,
        desired: DesiredModel,
        check: ReleaseCheck | None = None,
        variant: VariantName | None = None,
    ) -> inputs.Input:
        """Keep a desired model as candidate, tested like one that is to run; or say why not."""
        refused = self._put(desired, check, variant, self._keep)
        if refused is not None:
            return refused
        candidate = ActiveModel(desired.version, desired.manifest.digest)
        return inputs.CandidateKept(desired.action, candidate)

    def forget_candidate(self) -> inputs.Input:
        """Empty the third slot."""
        self._slots.forget_candidate()
        return inputs.CandidateForgotten()

    def _put(
        self,
        desired: DesiredModel,
        check: ReleaseCheck | None,
        variant: VariantName | None,
        into_place: Callable[[Slot], None],
    ) -> inputs.Input | None:
        """Judge and test a desired model, and put it into its place; or say why not."""
        try:
            manifest = self._host.manifest(desired.manifest.digest)
            if check is None:
                _check_offer(desired, manifest)
            else:
                check.check(desired, self._time_ns())
                check_files(desired, manifest)
            self._admit_as(desired, manifest, variant)
            into_place(Slot.of(manifest, variant))
        except DamagedError as error:
            return inputs.FileDamaged(error.digest)
        except VariantError as error:
            return _left(desired, variant, str(error))
        except (SelfTestError, TrialError) as error:
            return inputs.ModelRefused(desired.action, rolled_back=True, reason=str(error))
        except (ModelError, SchemaError) as error:
            return inputs.ModelRefused(desired.action, rolled_back=False, reason=str(error))
        return None

    def check_active(self, active: ActiveModel) -> inputs.ModelFellBack | inputs.VariantLeft | None:
        """Test the active model; go back to the other slot, or to none, while it fails.

        One that fails on a variant goes on with the reference where its file is here. In probation
        the start is counted first, and the third one goes back untested.
        """
        self._build_again()
        reason = self._count_start()
        slot = self._slots.go_back() if reason else self._slots.active()
        if reason and self._probation is not None:
            self._probation.end()
        while slot is not None:
            try:
                self.test(self._host.manifest(slot.manifest), slot.variant)
                break
            except ModelError as error:
                if slot.model == active and self._runs_on_reference(slot):
                    return self._fell_to_reference(slot, str(error))
                reason = reason or str(error)
                slot = self._slots.go_back()
        if slot is not None and slot.model == active:
            return None
        if slot is None:
            return inputs.ModelFellBack(active, None, reason)
        return inputs.ModelFellBack(active, slot.model, reason, slot.variant)

    def _runs_on_reference(self, slot: Slot) -> bool:
        """Whether a model that fails on a variant passes its test without."""
        if slot.variant is None:
            return False
        try:
            manifest = self._host.manifest(slot.manifest)
            if not self._host.has(manifest.frozen):
                return False
            self.test(manifest)
        except ModelError:
            return False
        return True

    def _fell_to_reference(self, slot: Slot, reason: str) -> inputs.VariantLeft:
        manifest = self._host.manifest(slot.manifest)
        assert slot.variant is not None
        self._slots.change_active(Slot.of(manifest))
        file = manifest.frozen_with(slot.variant).digest
        return inputs.VariantLeft(slot.variant, file, reason, slot.model)

    def lived(self) -> None:
        """Let the active model be trusted, if the agent has lived with it long enough."""
        if self._probation is not None:
            self._probation.lived()

    def active(self) -> InstalledModel | None:
        """Return the active model, loaded; raise `ModelError` if it cannot be."""
        slot = self._slots.active()
        if slot is None:
            return None
        return self._host.model(self._host.manifest(slot.manifest), slot.variant)

    def reference_of(self, model: InstalledModel) -> InstalledModel:
        """Return a model on the reference, or as it is where that file is not here."""
        manifest = model.manifest
        if model.variant is None or not self._host.has(manifest.frozen):
            return model
        return self._host.model(manifest)

    def test(self, manifest: Manifest, variant: VariantName | None = None) -> None:
        """Check every file that a model runs on, and self-test; raise `ModelError`."""
        self._host.check(manifest, variant)
        self_test(
            self._host.model(manifest, variant),
            self._blobs.read(manifest.golden.digest),
            self._blobs.read(manifest.golden_scores.digest),
            self._samples(manifest.preprocessing),
        )

    def _admit_as(
        self, desired: DesiredModel, manifest: Manifest, variant: VariantName | None
    ) -> None:
        """Admit a model; raise `VariantError` for what may be the variant's fault alone."""
        if variant is None:
            self._admit(manifest, None)
            return
        _check_variant(desired, manifest, variant)
        try:
            self._admit(manifest, variant)
        except DamagedError:
            raise
        except ModelError as error:
            raise VariantError(str(error)) from error

    def _admit(self, manifest: Manifest, variant: VariantName | None) -> None:
        """Try a model that is new, then test it here; raise `ModelError`."""
        slot, wanted = self._slots.active(), Slot.of(manifest, variant)
        if slot == wanted:
            self.test(manifest, variant)
            return
        if self._trial is not None and self._slots.candidate() != wanted:
            self._host.check(manifest, variant)
            samples = self._samples(manifest.preprocessing)
            self._trial.run(manifest.digest, slot.manifest if slot else None, samples, variant)
            self._host.reopen()
        if self._probation is None:
            self.test(manifest, variant)
            return
        self._probation.attempt(manifest.digest)
        try:
            self.test(manifest, variant)
        finally:
            # Whatever it found: the agent is still there.
            self._probation.attempted()

    def _switch(self, slot: Slot) -> None:
        self._blobs.settle()
        if self._probation is not None and slot != self._slots.active():
            self._probation.begin(slot.manifest)
        self._slots.install(slot)

    def _keep(self, slot: Slot) -> None:
        self._blobs.settle()
        self._slots.keep_candidate(slot)

    def _build_again(self) -> None:
        """Build the engine of the active model where the system was upgraded since, or it broke."""
        slot = self._slots.active()
        if self._trial is not None and slot is not None:
            self._trial.build(slot.manifest)
            self._host.reopen()

    def _count_start(self) -> str:
        """Count a start with the active model; return why it has to go, or nothing."""
        slot = self._slots.active()
        if self._probation is None or slot is None:
            return ""
        return self._probation.started(slot.manifest) or ""


def _left(desired: DesiredModel, variant: VariantName | None, reason: str) -> inputs.VariantLeft:
    offer = next(item for item in desired.variants if item.name == variant)
    return inputs.VariantLeft(offer.name, offer.frozen.digest, reason[:_MAX_REASON])


def _check_variant(desired: DesiredModel, manifest: Manifest, variant: VariantName) -> None:
    """Refuse a variant that the manifest does not pin as it was offered."""
    pinned = manifest.variant(variant)
    offered = next((item.frozen for item in desired.variants if item.name == variant), None)
    if pinned is None or offered is None or pinned.frozen.digest != offered.digest:
        raise VariantError(
            f"variants: {variant} was offered, and the manifest pins none or another one; push the "
            "model again"
        )


def _check_offer(desired: DesiredModel, manifest: Manifest) -> None:
    """Refuse a manifest that is not the one announced, or pins what was not offered."""
    if manifest.version != desired.version:
        raise LoadError(
            f"version: the manifest is of version {manifest.version}, {desired.version} was "
            "announced; push the model again"
        )
    offered = {(offer.digest, offer.size) for offer in desired.files}
    for reference in manifest.files:
        if (reference.digest, reference.size) not in offered:
            raise LoadError(
                f"files: the manifest pins {reference.digest.short}, which was not offered; push "
                "the model again"
            )
