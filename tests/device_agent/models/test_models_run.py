"""ONNX Runtime, the self-test and installing, with real files."""

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ActiveModel
from fleetledger.device_agent.errors import DamagedError, LoadError, SelfTestError
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.host import ModelHost
from fleetledger.device_agent.models.inference.installed_model import (
    InferenceSession,
    SessionSettings,
)
from fleetledger.device_agent.models.installer import Installer
from fleetledger.device_agent.models.model_rules.onnx_file import check_onnx
from fleetledger.device_agent.models.self_test import self_test
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.export.package import ExportedModel
from fleetledger.learning.numerics.preprocessing import preprocess
from fleetledger.learning.onnx_files.file_rules import OnnxFile
from fleetledger.schemas.values import Digest
from tests.device_agent import model_files as models
from tests.device_agent.making import GREY_8


@pytest.fixture
def blobs(tmp_path: Path) -> BlobFolder:
    return BlobFolder(tmp_path / "blobs")


@pytest.fixture
def host(blobs: BlobFolder) -> ModelHost:
    return ModelHost(blobs, SessionSettings(batch=3))


def installer(blobs: BlobFolder, host: ModelHost, slots: ModelSlots) -> Installer:
    return Installer(blobs, slots, host, lambda _: [np.zeros(GREY_8.shape, np.float32)])


def files_of(model: ExportedModel) -> tuple[bytes, bytes]:
    manifest = model.manifest
    return model.files[manifest.golden.digest], model.files[manifest.golden_scores.digest]


def test_a_file_is_held_to_the_rules_once_and_hashed_each_time(
    blobs: BlobFolder, host: ModelHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = models.exported(1), models.exported(2)
    read: list[str] = []

    def noted(path: Path, domains: frozenset[str]) -> OnnxFile:
        read.append(path.name)
        return check_onnx(path, domains)

    monkeypatch.setattr("fleetledger.device_agent.models.host.check_onnx", noted)
    for exported in (first, second):
        models.store_model(blobs, exported)
        for _ in range(2):
            host.check(exported.manifest)
            host.model(exported.manifest)
    manifests = (first.manifest, second.manifest)
    files = {file for one in manifests for file in (one.frozen.digest, one.head.digest)}
    assert sorted(read) == sorted(files)
    blobs.path(second.manifest.frozen.digest).write_bytes(b"damaged")
    with pytest.raises(DamagedError):
        host.check(second.manifest)


def test_features_and_scores_come_out_of_two_sessions(blobs: BlobFolder, host: ModelHost) -> None:
    exported = models.exported()
    models.store_model(blobs, exported)
    model = host.model(exported.manifest)
    pictures = [preprocess(models.picture(name, 1), GREY_8) for name in ("dark", "light") * 4]
    features = model.features(pictures)
    assert features.shape == (8, 64)
    assert np.array_equal(features, np.rint(features))
    np.testing.assert_allclose(
        model.scores(features), features @ models.head_weights().T, atol=1e-5
    )
    assert model.provider == host.provider == "CPUExecutionProvider"


def test_a_frozen_part_is_loaded_once_for_all_heads(blobs: BlobFolder, host: ModelHost) -> None:
    for version in (1, 2, 3, 4):
        models.store_model(blobs, models.exported(version, flipped=version % 2 == 0))
        host.model(models.exported(version, flipped=version % 2 == 0).manifest)
    assert len(host._sessions) <= 3
    assert models.exported().manifest.frozen.digest in host._sessions


def test_a_model_that_nothing_asks_for_leaves_memory_and_comes_back(blobs: BlobFolder) -> None:
    seconds = [0.0]
    host = ModelHost(blobs, SessionSettings(), clock=lambda: seconds[0])
    exported = models.exported()
    models.store_model(blobs, exported)
    images = np.stack([preprocess(models.picture("dark"), GREY_8)])
    before = host.model(exported.manifest).predict(images)
    (session, *_) = [weakref.ref(session) for session in host._sessions.values()]
    seconds[0] = 9.9
    assert not host.unload(10.0)
    seconds[0] = 10.0
    assert host.unload(10.0)
    gc.collect()
    assert session() is None
    assert (host.provider, host.left) == ("CPUExecutionProvider", ())
    assert not host.unload(10.0)
    assert np.array_equal(host.model(exported.manifest).predict(images), before)


@pytest.mark.parametrize("told", [{"provider": "CUDAExecutionProvider"}, {"left": ("CUDA: why",)}])
def test_what_another_provider_made_ready_stays_in_memory(
    blobs: BlobFolder, monkeypatch: pytest.MonkeyPatch, told: dict[str, object]
) -> None:
    host = ModelHost(blobs, SessionSettings(), clock=lambda: 0.0)
    models.store_model(blobs, models.exported())
    host.model(models.exported().manifest)
    for name, value in told.items():
        monkeypatch.setattr(InferenceSession, name, value)
    assert not host.unload(0.0)


def test_heads_run_on_the_processor_whatever_the_frozen_part_does() -> None:
    settings = SessionSettings(providers=("TensorrtExecutionProvider",), threads=3)
    assert settings.of_heads == SessionSettings(providers=("CPUExecutionProvider",), threads=3)


def test_providers_that_are_not_installed_are_passed_over(blobs: BlobFolder) -> None:
    digest = blobs.put(models.lineage().frozen)
    settings = SessionSettings(providers=("NoSuchProvider", "CPUExecutionProvider"))
    assert InferenceSession(blobs.path(digest), settings).provider == "CPUExecutionProvider"
    with pytest.raises(LoadError, match="none of NoSuchProvider is installed"):
        InferenceSession(blobs.path(digest), SessionSettings(providers=("NoSuchProvider",)))


def test_a_file_that_is_no_model_is_refused_with_the_providers_reason(blobs: BlobFolder) -> None:
    digest = blobs.put(b"no model")
    with pytest.raises(LoadError, match=f"{digest[:12]} does not load: CPUExecutionProvider: "):
        InferenceSession(blobs.path(digest), SessionSettings())


def test_an_output_that_is_missing_is_named(blobs: BlobFolder) -> None:
    session = InferenceSession(blobs.path(blobs.put(models.lineage().frozen)), SessionSettings())
    with pytest.raises(LoadError, match="scores: no output of this file"):
        session.run("scores", np.zeros((1, *GREY_8.shape), np.float32))


def test_a_good_model_passes_its_self_test(blobs: BlobFolder, host: ModelHost) -> None:
    exported = models.exported()
    models.store_model(blobs, exported)
    sample = preprocess(models.picture("dark"), GREY_8)
    self_test(host.model(exported.manifest), *files_of(exported), samples=[sample])


def test_a_head_with_other_answers_fails_the_self_test(blobs: BlobFolder, host: ModelHost) -> None:
    good, other = models.exported(1), models.exported(2, flipped=True)
    models.store_model(blobs, other)
    golden, _ = files_of(good)
    with pytest.raises(SelfTestError, match="scores of the golden batch stray by"):
        self_test(host.model(other.manifest), golden, files_of(good)[1])


def test_a_frozen_part_with_other_features_fails_the_self_test(
    blobs: BlobFolder, host: ModelHost
) -> None:
    import safetensors.numpy

    exported = models.exported()
    models.store_model(blobs, exported)
    golden = safetensors.numpy.load(files_of(exported)[0])
    golden["features"] = golden["features"][::-1].copy()
    with pytest.raises(SelfTestError, match="features of the golden batch stray by"):
        self_test(
            host.model(exported.manifest), safetensors.numpy.save(golden), files_of(exported)[1]
        )


def test_answers_that_are_not_finite_fail_the_self_test(blobs: BlobFolder, host: ModelHost) -> None:
    exported = models.exported()
    models.store_model(blobs, exported)
    model = host.model(exported.manifest)
    broken = np.full(GREY_8.shape, np.nan, np.float32)
    with pytest.raises(SelfTestError, match="infinity in the scores of all 1 image of"):
        self_test(model, *files_of(exported), samples=[broken])


def test_a_golden_batch_that_is_none_fails_the_self_test(
    blobs: BlobFolder, host: ModelHost
) -> None:
    exported = models.exported()
    models.store_model(blobs, exported)
    model = host.model(exported.manifest)
    with pytest.raises(SelfTestError, match="golden: no golden batch"):
        self_test(model, b"nothing", files_of(exported)[1])


def test_a_desired_model_becomes_active(blobs: BlobFolder, host: ModelHost, tmp_path: Path) -> None:
    slots = ModelSlots(tmp_path / "slots")
    desired = models.store_model(blobs, models.exported())
    event = installer(blobs, host, slots).install(desired)
    active = ActiveModel(1, models.exported().manifest.digest)
    assert event == inputs.ModelInstalled(7, active, None)
    assert slots.active().model == active
    again = models.store_model(blobs, models.exported(2, flipped=True))
    assert installer(blobs, host, slots).install(again).previous_version == 1


def test_a_model_that_fails_its_self_test_is_not_switched_to(
    blobs: BlobFolder, host: ModelHost, tmp_path: Path
) -> None:
    slots = ModelSlots(tmp_path / "slots")
    installer(blobs, host, slots).install(models.store_model(blobs, models.exported()))
    bad = models.exported(2, flipped=True)
    manifest = bad.manifest.model_copy(
        update={"golden_scores": models.exported().manifest.golden_scores}
    )
    files = {**bad.files, **models.exported().files}
    swapped = ExportedModel(manifest, files)
    event = installer(blobs, host, slots).install(models.store_model(blobs, swapped))
    assert isinstance(event, inputs.ModelRefused)
    assert event.rolled_back
    assert "scores of the golden batch stray" in event.reason
    assert slots.active().version == 1


def test_a_manifest_that_pins_what_was_not_offered_is_refused(
    blobs: BlobFolder, host: ModelHost, tmp_path: Path
) -> None:
    desired = models.store_model(blobs, models.exported())
    fewer = desired.model_copy(update={"files": desired.files[:-1]})
    event = installer(blobs, host, ModelSlots(tmp_path / "slots")).install(fewer)
    assert isinstance(event, inputs.ModelRefused)
    assert not event.rolled_back
    assert "which was not offered" in event.reason


def test_a_manifest_of_another_version_is_refused(
    blobs: BlobFolder, host: ModelHost, tmp_path: Path
) -> None:
    desired = models.store_model(blobs, models.exported())
    event = installer(blobs, host, ModelSlots(tmp_path / "slots")).install(
        desired.model_copy(update={"version": 9})
    )
    assert isinstance(event, inputs.ModelRefused)
    assert "of version 1, 9 was announced" in event.reason


def test_a_damaged_file_is_asked_for_again(
    blobs: BlobFolder, host: ModelHost, tmp_path: Path
) -> None:
    desired = models.store_model(blobs, models.exported())
    head = models.exported().manifest.head.digest
    blobs.path(head).write_bytes(b"damaged")
    event = installer(blobs, host, ModelSlots(tmp_path / "slots")).install(desired)
    assert event == inputs.FileDamaged(head)


def test_an_active_model_that_fails_at_start_gives_way_to_the_other_slot(
    blobs: BlobFolder, host: ModelHost, tmp_path: Path
) -> None:
    slots = ModelSlots(tmp_path / "slots")
    for model in (models.exported(1), models.exported(2, flipped=True)):
        installer(blobs, host, slots).install(models.store_model(blobs, model))
    two, one = slots.active().model, slots.other().model
    assert installer(blobs, host, slots).check_active(two) is None
    blobs.path(models.exported(2, flipped=True).manifest.head.digest).unlink()
    fresh = ModelHost(blobs, SessionSettings())
    event = installer(blobs, fresh, slots).check_active(two)
    assert (event.failed, event.active) == (two, one)
    assert "cannot be read" in event.reason
    assert slots.active().model == one


def test_without_any_model_that_works_there_is_none(
    blobs: BlobFolder, host: ModelHost, tmp_path: Path
) -> None:
    slots = ModelSlots(tmp_path / "slots")
    installer(blobs, host, slots).install(models.store_model(blobs, models.exported()))
    one = slots.active().model
    blobs.path(models.exported().manifest.frozen.digest).unlink()
    event = installer(blobs, ModelHost(blobs, SessionSettings()), slots).check_active(one)
    assert event.active is None
    assert slots.active() is None


def test_a_manifest_that_is_none_is_refused(
    blobs: BlobFolder, host: ModelHost, tmp_path: Path
) -> None:
    desired = models.store_model(blobs, models.exported())
    nonsense = blobs.put(b'{"version":1}')
    wrong = replace_manifest(desired, nonsense)
    event = installer(blobs, host, ModelSlots(tmp_path / "slots")).install(wrong)
    assert isinstance(event, inputs.ModelRefused)
    assert "manifest" in event.reason


def replace_manifest(desired, digest: Digest):
    return desired.model_copy(
        update={"manifest": desired.manifest.model_copy(update={"digest": digest})}
    )


def test_a_missing_file_of_a_model_is_damage_and_not_a_crash(
    blobs: BlobFolder, host: ModelHost
) -> None:
    with pytest.raises(DamagedError):
        host.frozen(Digest.of(b"never seen"))
