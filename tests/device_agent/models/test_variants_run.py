"""Models run on a variant of their frozen part, and on the reference where it does not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ActiveModel
from fleetledger.device_agent.errors import MissingError, SelfTestError
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import SessionSettings
from fleetledger.device_agent.models.inference.leases import take_lease
from fleetledger.device_agent.models.inference.published import PublishedModels
from fleetledger.device_agent.models.inference.running_model import RunningModel
from fleetledger.device_agent.models.installer import Guards, Installer
from fleetledger.device_agent.models.slots import ModelSlots, Slot
from fleetledger.device_agent.models.variants import wanted_variants
from fleetledger.device_agent.program.device_jobs import guards_of
from fleetledger.device_agent.settings import ModelSettings
from fleetledger.learning.numerics.detection import DetectionRules
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.variants import VARIANT_NAMES, VariantName, VariantOffer
from tests.device_agent import model_files as models
from tests.device_agent.models import variant_models

EACH = pytest.mark.parametrize("name", VARIANT_NAMES)


class Place:
    """A device's files, slots and models."""

    def __init__(self, folder: Path, *, tried: bool = False) -> None:
        self.folder = folder
        self.blobs = BlobFolder(folder / "blobs")
        self.slots = ModelSlots(folder / "slots")
        self.host = ModelHost(self.blobs, SessionSettings())
        guards = Guards()
        if tried:
            guards = guards_of(ModelSettings(), self.blobs, self.slots, SessionSettings())
        self.installer = Installer(
            self.blobs,
            self.slots,
            self.host,
            lambda _: list(variant_models.samples(0, 2)),
            guards=guards,
        )

    def install(self, version: int, variant: VariantName | None) -> inputs.Input:
        model = variant_models.exported(version)
        names = [] if variant is None else [variant]
        desired = variant_models.store(self.blobs, model, *names, reference=variant is None)
        return self.installer.install(desired, variant=variant)

    def broken(self, version: int = 1) -> Manifest:
        """Return a manifest, kept here, whose int8 gives wrong answers."""
        model = variant_models.exported(version)
        file = FileReference.of(variant_models.wrong())
        fp16, int8 = model.manifest.variants
        variants = (fp16, int8.model_copy(update={"frozen": file}))
        manifest = model.manifest.model_copy(update={"variants": variants})
        variant_models.store(self.blobs, model)
        self.blobs.put(variant_models.wrong())
        self.blobs.put(manifest.canonical_bytes())
        return manifest


@EACH
def test_a_model_is_installed_without_the_reference_file(tmp_path: Path, name: VariantName) -> None:
    place = Place(tmp_path)
    event = place.install(1, name)
    assert isinstance(event, inputs.ModelInstalled), event
    assert event.variant == name
    manifest = variant_models.exported().manifest
    assert not place.blobs.path(manifest.frozen.digest).exists()
    assert place.slots.active() == Slot.of(manifest, name)
    assert place.slots.variant_of(manifest.digest) == name
    model = place.installer.active()
    assert model is not None
    assert (model.variant, model.told) == (name, f"{name} on CPUExecutionProvider")
    scores = model.predict(variant_models.samples(1000, 40))
    assert np.array_equal(scores.argmax(axis=1), np.arange(40) % 2)


def test_a_trial_tries_the_variant_in_a_process_of_its_own(tmp_path: Path) -> None:
    place = Place(tmp_path, tried=True)
    assert isinstance(place.install(1, None), inputs.ModelInstalled)
    event = place.install(2, "int8")
    assert isinstance(event, inputs.ModelInstalled), event
    assert event.former == ActiveModel(1, variant_models.exported(1).manifest.digest)


def test_a_variant_that_gives_wrong_answers_is_left_and_what_ran_runs_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.install(1, None)
    manifest = place.broken(2)
    offer = VariantOffer(
        name="int8",
        frozen=models.offer_of(variant_models.wrong()),
        replaces=manifest.frozen.digest,
    )
    desired = models.desired_of(manifest, variant_models.exported(2)).model_copy(
        update={"variants": (offer,)}
    )
    event = place.installer.install(desired, variant="int8")
    assert isinstance(event, inputs.VariantLeft), event
    assert "int8 on CPUExecutionProvider" in event.reason
    assert event.runs is None
    active = place.slots.active()
    assert active is not None
    assert active.version == 1


def test_a_variant_that_was_not_offered_as_pinned_is_left(tmp_path: Path) -> None:
    place = Place(tmp_path)
    desired = variant_models.store(place.blobs, variant_models.exported(), "int8")
    wrong = tuple(
        item.model_copy(update={"frozen": models.offer_of(b"another file")})
        for item in desired.variants
    )
    event = place.installer.install(desired.model_copy(update={"variants": wrong}), variant="int8")
    assert isinstance(event, inputs.VariantLeft), event
    assert "pins none or another one" in event.reason


def test_a_file_that_is_not_here_is_fetched_again_and_no_fault_of_the_variant(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    desired = variant_models.store(place.blobs, variant_models.exported())
    event = place.installer.install(desired, variant="int8")
    int8 = variant_models.exported().manifest.frozen_with("int8")
    assert event == inputs.FileDamaged(int8.digest)


def test_a_variant_that_fails_at_a_start_gives_way_to_the_reference_where_that_is_here(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    manifest = place.broken()
    place.blobs.put(variant_models.frozen())
    place.slots.install(Slot.of(manifest, "int8"))
    active = ActiveModel(1, manifest.digest)
    event = place.installer.check_active(active)
    assert isinstance(event, inputs.VariantLeft), event
    assert (event.name, event.runs) == ("int8", active)
    assert place.slots.active() == Slot.of(manifest)
    assert place.installer.check_active(active) is None


def test_without_the_reference_it_goes_back_to_the_former_model(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.install(1, "fp16")
    manifest = place.broken(2)
    place.slots.install(Slot.of(manifest, "int8"))
    event = place.installer.check_active(ActiveModel(2, manifest.digest))
    assert isinstance(event, inputs.ModelFellBack), event
    assert event.active is not None
    assert (event.active.version, event.variant) == (1, "fp16")


def test_going_over_to_another_variant_keeps_the_way_back(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.install(1, "fp16")
    place.install(2, "fp16")
    place.install(2, "int8")
    assert place.slots.active() == Slot.of(variant_models.exported(2).manifest, "int8")
    assert place.slots.other() == Slot.of(variant_models.exported(1).manifest, "fp16")


def test_a_variant_passes_by_its_own_tolerance_and_not_by_the_references(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.install(1, "int8")
    manifest = variant_models.exported().manifest
    strict = [item.model_copy(update={"feature_tolerance": 1e-9}) for item in manifest.variants]
    changed = manifest.model_copy(update={"variants": tuple(strict)})
    with pytest.raises(SelfTestError, match="features of the golden batch stray"):
        place.installer.test(changed, "int8")


def test_detection_asks_the_reference_where_its_file_is_here(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.install(1, "int8")
    model = place.installer.active()
    assert model is not None
    assert place.installer.reference_of(model) is model
    place.blobs.put(variant_models.frozen())
    assert place.installer.reference_of(model).variant is None


def test_applications_get_the_variant_and_see_which_one_it_is(tmp_path: Path) -> None:
    place = Place(tmp_path)
    published = PublishedModels(tmp_path, place.blobs, place.slots)
    place.install(1, None)
    published.follow(thorough=True)
    with RunningModel(tmp_path, SessionSettings(), DetectionRules()) as running:
        first = running.loaded()
        assert first.variant is None
        place.install(1, "int8")
        published.follow(thorough=True)
        second = running.loaded()
        assert second.variant == "int8"
        assert second.lineage != first.lineage, "embeddings of two variants are not comparable"
        assert running.version == 1
        picture = tmp_path / "light.png"
        picture.write_bytes(models.picture("light", 77))
        assert running.classify(picture).name == "light"
    manifest = variant_models.exported().manifest
    lease = take_lease(tmp_path)
    assert lease.folder.name.endswith("-int8")
    frozen = (lease.folder / "frozen.onnx").read_bytes()
    assert frozen == variant_models.variants()["int8"]
    assert Manifest.read((lease.folder / "manifest.json").read_bytes()) == manifest


def test_a_manifest_that_pins_no_such_variant_is_refused_before_any_file_is_fetched(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    model = variant_models.exported()
    desired = variant_models.store(place.blobs, model)
    assert place.installer.read(desired) == inputs.ManifestRead(7)
    wrong = tuple(
        item.model_copy(update={"frozen": models.offer_of(b"another file")})
        for item in desired.variants
    )
    event = place.installer.read(desired.model_copy(update={"variants": wrong}))
    assert isinstance(event, inputs.ModelRefused)
    assert "the manifest pins none such" in event.reason
    alone = desired.model_copy(update={"variants": desired.variants[1:]})
    assert place.installer.read(alone) == inputs.ManifestRead(7), "fewer may be offered"


@pytest.mark.parametrize(
    ("variant", "available", "wanted"),
    [
        ("reference", ["CUDAExecutionProvider"], ()),
        ("int8", ["CUDAExecutionProvider"], ("int8",)),
        ("auto", ["CPUExecutionProvider"], ("int8",)),
        ("auto", ["AzureExecutionProvider", "CPUExecutionProvider"], ("int8",)),
        ("auto", ["TensorrtExecutionProvider", "CPUExecutionProvider"], ("fp16",)),
        ("auto", None, ()),
    ],
)
def test_settings_choose_by_what_the_machine_has(
    monkeypatch: pytest.MonkeyPatch, variant: Any, available: list[str] | None, wanted: Any
) -> None:
    def describe() -> tuple[str, tuple[str, ...]]:
        if available is None:
            raise MissingError("onnxruntime: not installed")
        return "1", tuple(available)

    monkeypatch.setattr("fleetledger.device_agent.models.variants.describe_runtime", describe)
    assert wanted_variants(ModelSettings(variant=variant)) == wanted
