"""Files made to do harm are refused before anything loads them, and nothing else is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.models.inference.installed_model import InferenceSession
from fleetledger.device_agent.models.trial.trial import Trial
from fleetledger.learning.errors import GraphFileError
from fleetledger.learning.onnx_files.file_rules import read_onnx
from fleetledger.schemas.file_reference import FileReference
from fleetledger.transport.part_file import PartFile
from tests.device_agent.hostile.golden_files import GOLDEN_FILES
from tests.device_agent.hostile.growing_files import GROWING_FILES
from tests.device_agent.hostile.onnx_files import ONNX_FILES, Make
from tests.device_agent.hostile.place import Place, good, with_file


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("device"))


@pytest.fixture
def nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(*_: object) -> None:
        raise AssertionError("a file was loaded that should have been refused")

    monkeypatch.setattr(InferenceSession, "__init__", loads)
    monkeypatch.setattr(Trial, "run", loads)


def refuse(place: Place, which: str, data: bytes) -> str:
    before = place.snapshot()
    event = place.install(with_file(which, data))
    assert isinstance(event, inputs.ModelRefused), event
    assert place.snapshot() == before
    active = place.slots.active()
    assert active is not None
    assert active.version == 1
    assert len(event.reason) < 500, "a reason is for people"
    return event.reason


@pytest.mark.usefixtures("nothing_is_loaded")
@pytest.mark.parametrize(("make", "words"), ONNX_FILES.values(), ids=ONNX_FILES)
def test_a_hostile_network_is_refused_before_it_is_loaded(
    place: Place, make: Make, words: str
) -> None:
    assert words in refuse(place, "frozen", make())


def test_a_program_of_a_device_is_refused_whatever_domains_the_owner_allows() -> None:
    domains = frozenset({"com.microsoft", ""})
    for name in ("EPContext", "EPContext of Microsoft's domain"):
        make, _ = ONNX_FILES[name]
        with pytest.raises(GraphFileError, match="'EPContext' holds a program of a device"):
            read_onnx(make(), domains)


@pytest.mark.usefixtures("nothing_is_loaded")
@pytest.mark.parametrize(("make", "words"), GROWING_FILES.values(), ids=GROWING_FILES)
def test_a_small_network_that_would_make_terabytes_or_never_end_is_refused(
    place: Place, make: Make, words: str
) -> None:
    assert words in refuse(place, "frozen", make())


@pytest.mark.usefixtures("nothing_is_loaded")
@pytest.mark.parametrize(("make", "words"), GOLDEN_FILES.values(), ids=GOLDEN_FILES)
def test_a_hostile_golden_file_is_refused_before_it_is_read(
    place: Place, make: Make, words: str
) -> None:
    assert words in refuse(place, "golden", make())


def test_there_are_enough_of_them() -> None:
    assert len(ONNX_FILES) + len(GOLDEN_FILES) >= 60


@pytest.mark.usefixtures("nothing_is_loaded")
def test_a_file_that_is_larger_than_its_manifest_says_is_refused(place: Place) -> None:
    model = good()
    shorter = FileReference(digest=model.manifest.head.digest, size=model.manifest.head.size - 1)
    manifest = model.manifest.model_copy(update={"head": shorter})
    desired = place.store(type(model)(manifest, model.files))
    offers = tuple(
        offer.model_copy(update={"size": shorter.size}) if offer.digest == shorter.digest else offer
        for offer in desired.files
    )
    event = place.installer().install(desired.model_copy(update={"files": offers}))
    assert isinstance(event, inputs.ModelRefused)
    assert "by the manifest" in event.reason


def test_a_good_model_is_installed_where_they_were_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    event = place.install(good())
    assert isinstance(event, inputs.ModelInstalled)
    assert event.active.version == 2


@pytest.mark.parametrize("kind", ["symlink", "hard link", "pipe"])
def test_what_is_no_file_of_its_own_in_the_folder_is_dropped_and_fetched_again(
    tmp_path: Path, kind: str
) -> None:
    place = Place(tmp_path)
    desired = place.store(good())
    head = good().manifest.head.digest
    path, secret = place.blobs.path(head), place.outside / "secret"
    path.unlink()
    if kind == "symlink":
        # To the right bytes, so that only its being a link can tell.
        (place.outside / "head").write_bytes(good().files[head])
        path.symlink_to(place.outside / "head")
    elif kind == "hard link":
        os.link(secret, path)
    else:
        os.mkfifo(path)
    before = place.snapshot()
    assert place.installer().install(desired) == inputs.FileDamaged(head)
    assert not os.path.lexists(path)
    assert place.snapshot() == before


@pytest.mark.parametrize("link", ["symlink", "hard link"])
@pytest.mark.parametrize("ending", [".part", ".new"])
def test_what_arrives_is_never_written_through_a_link(
    tmp_path: Path, link: str, ending: str
) -> None:
    place = Place(tmp_path)
    desired = place.store(good())
    offer = next(item for item in desired.files if item.digest == good().manifest.head.digest)
    path = place.blobs.path(offer.digest)
    data = path.read_bytes()
    path.unlink()
    trap = path.with_name(path.name + ending)
    if link == "symlink":
        trap.symlink_to(place.outside / "secret")
    else:
        os.link(place.outside / "secret", trap)
    before = place.snapshot()
    if ending == ".part":
        part = PartFile(offer, path)
        part.write(0, data)
        part.finish()
    else:
        place.blobs.put(data)
    assert path.read_bytes() == data
    assert place.snapshot() == before
