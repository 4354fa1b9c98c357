"""Arrays in a device's folders: one file may hold many samples, each counted by its content."""

import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.device_agent.cli import doctor
from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.device_agent.kinds import ARRAY
from fleetledger.device_agent.models.inference.frames import input_of
from fleetledger.device_agent.models.training import read_images
from fleetledger.device_agent.samples import array_files
from fleetledger.device_agent.samples.array_files import read_content, samples_of
from fleetledger.device_agent.samples.images import (
    ChangedError,
    PictureFile,
    read_pictures,
    read_sample,
)
from fleetledger.device_agent.samples.sources.array_samples import ArraySamples
from fleetledger.device_agent.samples.sources.cache import DigestCache
from fleetledger.device_agent.samples.sources.folder import (
    FolderSource,
    picture_files,
    samples_below,
)
from fleetledger.learning.errors import ArrayError
from fleetledger.learning.numerics.arrays import array_content
from fleetledger.schemas.arrays import ArrayPreprocessing
from fleetledger.schemas.values import Digest

SHAPE = (2, 3)
SPEC = ArrayPreprocessing(mode="array", shape=SHAPE, input_name="window")
WINDOWS = np.arange(24, dtype=np.float32).reshape(4, *SHAPE)


class Place:
    """A data folder and the caches of the device that scans it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self.caches = folder

    def put(self, path: str, values: object) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, values) if file.suffix == ".npy" else np.savez(file, values)
        return file

    def source(self, shape: tuple[int, ...] | None = SHAPE) -> FolderSource:
        cache = DigestCache(self.caches / "digests.db")
        arrays = ArraySamples(self.caches / "arrays.db", shape)
        return FolderSource(self.folder, cache, lambda: time.time() + 60, ARRAY, arrays)

    def scan(self, shape: tuple[int, ...] | None = SHAPE) -> dict[str, Digest]:
        scanned = self.source(shape).scan()
        assert not scanned.problems
        return {image.path: image.digest for image in scanned.images}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def digest_of(values: np.ndarray) -> Digest:
    return Digest.of(array_content(values))


def test_a_file_holds_as_many_samples_as_its_first_axis_says(place: Place) -> None:
    place.put("walking/windows.npy", WINDOWS)
    place.put("resting/one.npz", WINDOWS[0])
    place.put("resting/rows.npy", WINDOWS.reshape(4, 6)[:1])
    assert place.scan() == {
        "resting/one.npz": digest_of(WINDOWS[0]),
        "resting/rows.npy#0": digest_of(WINDOWS[0].ravel()),
        **{f"walking/windows.npy#{row}": digest_of(WINDOWS[row]) for row in range(4)},
    }


def test_a_sample_is_the_same_alone_and_among_others_and_in_any_type(place: Place) -> None:
    place.put("walking/windows.npy", WINDOWS.astype(np.float64))
    place.put("walking/again.npy", np.asfortranarray(WINDOWS[2]))
    found = place.scan()
    assert found["walking/again.npy"] == found["walking/windows.npy#2"]
    assert len(set(found.values())) == 4


def test_without_a_shape_each_file_is_one_sample(place: Place) -> None:
    place.put("walking/windows.npy", WINDOWS)
    assert place.scan(shape=None) == {"walking/windows.npy": digest_of(WINDOWS)}
    with pytest.raises(ArrayError, match=r"these are 4 samples of \[2, 3\]; set `\[data\] shape"):
        read_sample(PictureFile(place.folder / "walking/windows.npy"), SPEC)


def test_a_file_that_has_not_changed_is_not_read_again(place: Place, monkeypatch) -> None:
    place.put("walking/windows.npy", WINDOWS)
    before = place.scan()
    monkeypatch.setattr(array_files, "read_array", lambda *_: pytest.fail("read again"))
    monkeypatch.setattr(array_files, "_FILES", array_files._Files())
    assert place.scan() == before


def test_what_is_gone_is_forgotten(place: Place) -> None:
    file = place.put("walking/windows.npy", WINDOWS)
    source = place.source()
    source.scan()
    file.unlink()
    assert source.scan().images == ()
    with ArraySamples(place.caches / "arrays.db", SHAPE).failures():
        assert not ArraySamples(place.caches / "arrays.db", SHAPE)._held


def test_a_file_of_another_shape_is_a_problem_that_names_both(place: Place) -> None:
    place.put("walking/windows.npy", np.zeros((4, 2, 5)))
    place.put("walking/torn.npz", WINDOWS[0]).write_bytes(b"torn")
    place.put("walking/notes.npy", WINDOWS[0]).rename(place.folder / "walking/table.csv")
    scanned = place.source().scan()
    assert scanned.images == ()
    told = "\n".join(problem.text for problem in scanned.problems)
    assert (
        "1 file of the kind .csv ('walking/table.csv') cannot be read; convert it to .npy" in told
    )
    assert "walking/torn.npz: array: the .npz file is damaged" in told
    wanted = "shape [4, 2, 5], where `[data] shape` says [2, 3]; give such arrays, or [N, 2, 3]"
    assert f"walking/windows.npy: array: {wanted}" in told


def test_samples_are_read_as_the_model_takes_them(place: Place) -> None:
    file = place.put("walking/windows.npy", WINDOWS)
    bad = WINDOWS.copy()
    bad[1, 0, 0] = np.nan
    place.put("walking/bad.npy", bad)
    spec = SPEC.model_copy(update={"mean": (1.0,), "deviation": (2.0,)})
    found = samples_below(place.folder, spec)
    assert [path.name for path in found] == [
        *(f"bad.npy#{row}" for row in range(4)),
        *(f"windows.npy#{row}" for row in range(4)),
    ]
    outcomes = list(read_pictures([PictureFile(path) for path in found], spec))
    assert outcomes[1].unusable is not None
    assert "nan at [0, 0]" in outcomes[1].unusable
    for row in range(4):
        np.testing.assert_array_equal(outcomes[4 + row].pixels, (WINDOWS[row] - 1) / 2)
    assert samples_below(file, spec) == found[4:]
    assert samples_below(place.folder / "nothing", spec) == []


def test_a_sample_that_became_another_is_not_the_one_that_was_found(place: Place) -> None:
    file = place.put("walking/windows.npy", WINDOWS)
    sample = PictureFile(Path(f"{file}#3"), digest_of(WINDOWS[3]))
    read_sample(sample, SPEC)
    np.save(file, WINDOWS[:3])
    with pytest.raises(ChangedError, match="the file has no row 3"):
        read_sample(sample, SPEC)
    np.save(file, WINDOWS[::-1])
    with pytest.raises(ChangedError, match="has changed since it was found"):
        read_sample(sample, SPEC)


def test_files_that_share_memory_give_their_own_rows(place: Place, monkeypatch) -> None:
    monkeypatch.setattr(array_files, "_KEPT_BYTES", WINDOWS.nbytes)
    files = [place.put(f"walking/{n}.npy", WINDOWS + 100 * n) for n in range(3)]
    for row in range(4):
        for number, file in enumerate(files):
            content = read_content(Path(f"{file}#{row}"))
            assert content == array_content(WINDOWS[row] + np.float32(100 * number))
    assert [len(samples_of(file, SHAPE)) for file in files] == [4, 4, 4]


def test_doctor_counts_samples_and_names_a_file_that_does_not_fit(place: Place) -> None:
    place.put("walking/windows.npy", WINDOWS)
    place.put("resting/one.npy", WINDOWS[0])
    found = doctor._folder("data folder", place.folder, ARRAY, SHAPE)
    assert found.text.endswith("5 arrays in 2 class folders")
    place.put("resting/other.npy", np.zeros(5))
    found = doctor._folder("data folder", place.folder, ARRAY, SHAPE)
    assert "other.npy: array: shape [5], where `[data] shape` says [2, 3]" in found.text


def test_a_network_is_trained_on_the_numbers_as_they_are_normalised(place: Place) -> None:
    bad = WINDOWS.copy()
    bad[0] = np.inf
    place.put("walking/windows.npy", WINDOWS)
    place.put("walking/bad.npy", bad)
    scanned = place.source().scan()
    images = [ImageToCount(one.path, one.digest, one.class_name) for one in scanned.images]
    spec = SPEC.model_copy(update={"mean": (1.0,), "deviation": (2.0,)})
    read = read_images(images, picture_files(images, place.folder), spec)
    assert read.data.inputs.dtype == np.float32
    assert [digest for digest, _ in read.unusable] == [digest_of(bad[0])]
    expected = np.concatenate([bad[1:], WINDOWS])
    np.testing.assert_array_equal(read.data.inputs, (expected - 1) / 2)
    assert read.data.class_names == ("walking",) * 7


def test_an_application_shows_a_model_arrays_files_and_rows(place: Place) -> None:
    file = place.put("walking/windows.npy", WINDOWS)
    for frame in (WINDOWS[2], WINDOWS[2].astype(np.int64), Path(f"{file}#2"), f"{file}#2"):
        np.testing.assert_array_equal(input_of(frame, SPEC), WINDOWS[2])
    with pytest.raises(ArrayError, match=r"windows\.npy: array: shape \[4, 2, 3\]; these are 4"):
        input_of(file, SPEC)
    with pytest.raises(ArrayError, match="a picture, where the model takes arrays"):
        input_of(Image.new("L", (3, 2)), SPEC)
    with pytest.raises(ArrayError, match=r"windows\.npy#9: cannot be read"):
        input_of(f"{file}#9", SPEC)
