"""Files that the operator gives when a network is imported: first weights, and shared images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fleetledger.coordinator.errors import NetworkSettingsError
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.models import networks
from fleetledger.coordinator.models.first_files import FirstFiles
from fleetledger.coordinator.models.networks import prepare_network
from fleetledger.coordinator.paths import blob_folder
from fleetledger.export.errors import ModelFileError
from fleetledger.learning.networks.registry import build_network
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.rounds.assignment import RoundsAssignment
from fleetledger.methods.rounds.coordinator import COORDINATOR
from fleetledger.methods.training.network_weights import decode_weights, encode_weights
from fleetledger.schemas.values import ClassName
from tests.coordinator.shell_harness import write_home

NAMES = (ClassName("cat"), ClassName("dog"))
MLP = build_network("mlp", (1, 4, 4))


def prepare(folder: Path, **files: Path) -> Any:
    return prepare_network(folder, folder / "pixels.json", first=FirstFiles(**files))


def weights_file(folder: Path, seed: int = 5) -> Path:
    path = folder / "base.safetensors"
    path.write_bytes(encode_weights(MLP.initial(seed, NAMES), NAMES))
    return path


def images_file(folder: Path, **arrays: npt.NDArray[Any]) -> Path:
    path = folder / "shared.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_home(tmp_path, "rounds", network="mlp")
    return tmp_path


@pytest.fixture
def sharing(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A method that wants images of the operator, and keeps them as they come."""
    monkeypatch.setattr(RoundsAssignment, "needs_shared", True, raising=False)
    monkeypatch.setattr(COORDINATOR, "shared_of", lambda _, images: _plain(images))
    return home


def _plain(images: npt.NDArray[np.uint8]) -> bytes:
    return repr(images.shape).encode() + images.tobytes()


def test_a_network_begins_with_weights_that_were_trained_elsewhere(home: Path) -> None:
    file = weights_file(home)
    made = prepare(home, weights=file)
    assert made.class_names == NAMES
    kept = BlobStore(blob_folder(home)).get(made.weights.digest)
    assert kept == file.read_bytes()
    assert decode_weights(kept, MLP)[1] == NAMES
    plain = prepare(home)
    assert plain.class_names == ()
    assert made.digest != plain.digest


def test_weights_of_another_network_are_refused(home: Path) -> None:
    (home / "other").write_bytes(b"no weights")
    with pytest.raises(ContributionError):
        prepare(home, weights=home / "other")
    with pytest.raises(ModelFileError, match="cannot be read"):
        prepare(home, weights=home / "gone")


def test_whether_first_weights_suffice_is_the_methods_word(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not prepare(home, weights=weights_file(home)).first_weights_suffice
    monkeypatch.setattr(RoundsAssignment, "first_weights_suffice", True, raising=False)
    assert prepare(home, weights=weights_file(home)).first_weights_suffice


def test_a_network_that_freezes_has_no_place_for_first_weights(tmp_path: Path) -> None:
    write_home(tmp_path, "stsa")
    with (tmp_path / "coordinator.toml").open("a", encoding="utf-8") as file:
        file.write('\n[first_stage.settings]\nnetwork = "mlp"\n')
    with pytest.raises(NetworkSettingsError, match=r"leave --first-weights out"):
        prepare(tmp_path, weights=weights_file(tmp_path))


def test_shared_images_come_at_the_networks_size_and_name_the_lineage(sharing: Path) -> None:
    images = np.arange(3 * 8 * 8, dtype=np.uint8).reshape(3, 8, 8)
    made = prepare(sharing, public_images=images_file(sharing, images=images))
    kept = BlobStore(blob_folder(sharing)).get(made.extras["shared"].digest)
    assert kept.startswith(b"(3, 1, 4, 4)")
    assert made.extras["shared"].digest in made.blobs
    assert made.digest != made.weights.digest, "with other images it is another network"


def test_a_method_that_wants_images_is_not_begun_without(sharing: Path) -> None:
    with pytest.raises(NetworkSettingsError, match=r"--public-images FILE\.npz"):
        prepare(sharing)


def test_images_for_a_method_that_uses_none_are_refused(home: Path) -> None:
    file = images_file(home, images=np.zeros((2, 4, 4), np.uint8))
    with pytest.raises(NetworkSettingsError, match="leave it out"):
        prepare(home, public_images=file)


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ({"pictures": np.zeros((2, 4, 4), np.uint8)}, r"no array 'images', but \['pictures'\]"),
        ({"images": np.zeros((2, 4, 4))}, "images: float64"),
        ({"images": np.zeros((2, 4, 4, 4), np.uint8)}, r"shape \(2, 4, 4, 4\)"),
        ({"images": np.zeros((0, 4, 4), np.uint8)}, r"shape \(0, 4, 4\)"),
    ],
)
def test_a_file_that_holds_no_images_is_refused(
    sharing: Path, arrays: dict[str, npt.NDArray[Any]], why: str
) -> None:
    with pytest.raises(NetworkSettingsError, match=why):
        prepare(sharing, public_images=images_file(sharing, **arrays))
    (sharing / "text.npz").write_text("no arrays")
    with pytest.raises(NetworkSettingsError, match="cannot be read"):
        prepare(sharing, public_images=sharing / "text.npz")


def test_what_the_method_cannot_use_is_its_own_word(
    sharing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_assignment: object, _images: object) -> bytes:
        raise MethodError("shared: too few images")

    monkeypatch.setattr(COORDINATOR, "shared_of", refuse)
    with pytest.raises(MethodError, match="too few"):
        prepare(sharing, public_images=images_file(sharing, images=np.zeros((2, 4, 4), np.uint8)))


def test_a_method_that_trains_at_the_coordinator_is_refused_without_torch(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RoundsAssignment, "coordinator_trains", True, raising=False)
    monkeypatch.setattr(networks, "find_spec", lambda _: None)
    with pytest.raises(NetworkSettingsError, match="'rounds' needs torch at the coordinator"):
        prepare(home)
    monkeypatch.setattr(networks, "find_spec", lambda _: object())
    assert prepare(home).method == "rounds"
