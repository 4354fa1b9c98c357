"""Picture files as samples: opened late, digested by their pixels, and only once."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.schemas.values import ClassName
from fleetledger.simulator.datasets import file_digests
from fleetledger.simulator.datasets.file_digests import FileDigests
from fleetledger.simulator.datasets.files import ImageFiles
from fleetledger.simulator.datasets.samples import SampleSet, picture_digest
from fleetledger.simulator.errors import DatasetError
from tests.simulator.datasets.drawing import draw, draw_all, pixels

NAMES = (ClassName("eel"), ClassName("fox"))


def files(root: Path, *paths: str) -> ImageFiles:
    labels = np.arange(len(paths)) % 2
    return ImageFiles(root, paths, labels, NAMES, FileDigests(root), labels + 5)


@pytest.fixture
def decoded(monkeypatch) -> list[str]:
    """Names of the files that were decoded for their digests."""
    names: list[str] = []
    read = file_digests.read_picture

    def note(path: Path) -> Image.Image:
        names.append(path.name)
        return read(path)

    monkeypatch.setattr(file_digests, "read_picture", note)
    return names


def test_a_picture_is_opened_when_it_is_asked_for(tmp_path: Path):
    draw_all(tmp_path, "a.png", "b/c.png")
    samples: SampleSet = files(tmp_path, "b/c.png", "a.png", "not/there.png")
    assert np.array_equal(np.asarray(samples.picture(0)), pixels(1))
    assert np.array_equal(np.asarray(samples.picture(1)), pixels(0))
    with pytest.raises(DatasetError, match=r"there\.png: cannot be read: No such file"):
        samples.picture(2)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("1", "L"), ("L", "L"), ("LA", "L"), ("I;16", "L"), ("P", "RGB"), ("RGBA", "RGB")],
)
def test_every_usual_mode_becomes_grey_or_rgb(mode: str, expected: str, tmp_path: Path):
    Image.new("RGB", (4, 3), (200, 200, 200)).convert("L").convert(mode).save(tmp_path / "a.png")
    assert files(tmp_path, "a.png").picture(0).mode == expected


def test_a_photograph_taken_sideways_is_turned_upright(tmp_path: Path):
    exif = Image.Exif()
    exif[0x0112] = 6
    draw(tmp_path / "a.png", exif=exif)
    assert files(tmp_path, "a.png").picture(0).size == (6, 5)


def test_files_with_the_same_pixels_have_the_same_digest(tmp_path: Path):
    for name in ("a.png", "b.bmp", "c.ppm"):
        draw(tmp_path / name, seed=3)
    draw(tmp_path / "d.png", seed=4)
    samples = files(tmp_path, "a.png", "b.bmp", "c.ppm", "d.png")
    digests = [samples.digest(index) for index in range(4)]
    assert digests[0] == digests[1] == digests[2] == picture_digest(samples.picture(0))
    assert digests[3] == picture_digest(samples.picture(3)) != digests[0]


def test_a_file_is_decoded_once_for_its_digest(tmp_path: Path, decoded: list[str]):
    draw_all(tmp_path, "a.png", "b.png", "c.png")
    first = files(tmp_path, "a.png", "b.png")
    before = [first.digest(0), first.digest(1)]
    assert sorted(decoded) == ["a.png", "b.png"]
    later = files(tmp_path, "b.png", "a.png", "c.png")
    assert [later.digest(1), later.digest(0)] == before
    later.digest(2)
    assert sorted(decoded) == ["a.png", "b.png", "c.png"]


def test_a_part_knows_what_the_whole_has_learned(tmp_path: Path, decoded: list[str]):
    draw_all(tmp_path, "a.png", "b.png")
    whole = files(tmp_path, "a.png", "b.png")
    expected = whole.digest(1)
    decoded.clear()
    part = whole.take(np.array([1]))
    assert part.digest(0) == expected
    assert part.owners is not None
    assert (part.paths, part.labels.tolist(), part.owners.tolist()) == (("b.png",), [1], [6])
    assert not decoded


def test_a_file_that_changed_is_decoded_again(tmp_path: Path, decoded: list[str]):
    draw(tmp_path / "a.bmp", seed=1)
    before = files(tmp_path, "a.bmp").digest(0)
    draw(tmp_path / "a.bmp", seed=2)
    os.utime(tmp_path / "a.bmp", ns=(1, 1))
    assert files(tmp_path, "a.bmp").digest(0) != before
    assert decoded == ["a.bmp", "a.bmp"]


def test_a_damaged_picture_is_named(tmp_path: Path):
    draw(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:50])
    with pytest.raises(DatasetError, match=r"b\.png: .*damaged"):
        files(tmp_path, "a.png", "b.png").digest(0)


def test_a_damaged_memory_may_be_deleted(tmp_path: Path, own_cache: Path):
    draw(tmp_path / "a.png")
    files(tmp_path, "a.png").digest(0)
    (database,) = (own_cache / "digests").iterdir()
    database.write_bytes(b"no database at all")
    with pytest.raises(DatasetError, match="delete this file, it is only a cache"):
        files(tmp_path, "a.png").digest(0)


def test_the_fingerprint_is_that_of_names_sizes_and_labels(tmp_path: Path, decoded: list[str]):
    draw_all(tmp_path, "a.png", "b.png", "c.png")
    fingerprint = files(tmp_path, "a.png", "b.png").fingerprint
    assert files(tmp_path, "a.png", "b.png").fingerprint == fingerprint
    others = [files(tmp_path, *names) for names in (("b.png", "a.png"), ("a.png", "c.png"))]
    others.append(files(tmp_path, "a.png", "b.png").take(np.array([0])))
    assert fingerprint not in {other.fingerprint for other in others}
    with (tmp_path / "a.png").open("ab") as file:
        file.write(b"more")
    assert files(tmp_path, "a.png", "b.png").fingerprint != fingerprint
    assert not decoded
    with pytest.raises(DatasetError, match=r"gone\.png: cannot be read"):
        files(tmp_path, "gone.png").fingerprint  # noqa: B018 - a property that reads


def test_labels_that_do_not_fit_are_refused(tmp_path: Path):
    with pytest.raises(DatasetError, match="one label per file"):
        ImageFiles(tmp_path, ("a.png",), np.array([0, 1]), NAMES, FileDigests(tmp_path))
    with pytest.raises(DatasetError, match="labels: 2 to 2"):
        ImageFiles(tmp_path, ("a.png",), np.array([2]), NAMES, FileDigests(tmp_path))
