"""What is named moves into class folders and is lost by nothing; the last steps can be undone."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fleetledger.device_agent.errors import LabelError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.models.inbox.labels import ImageLabeller
from fleetledger.device_agent.samples.sources.cache import DigestCache
from fleetledger.device_agent.samples.sources.folder import FolderSource
from fleetledger.device_agent.settings import AgentDataSettings
from fleetledger.schemas.values import Digest
from tests.device_agent.models.inbox.doubting import a_home, doubt
from tests.small_disk import small_disk


@pytest.fixture
def home(tmp_path: Path) -> AgentHome:
    return a_home(tmp_path / "home", evaluation="evaluation")


def samples(home: AgentHome, folder: str = "data") -> dict[str, list[str]]:
    """Return files by class."""
    root = home.folder / folder
    return {
        path.name: sorted(file.name for file in path.iterdir()) for path in sorted(root.iterdir())
    }


def waiting(home: AgentHome) -> int:
    return len(ImageLabeller(home).inbox.waiting())


def test_named_images_are_samples_that_the_agent_counts(home: AgentHome, tmp_path: Path) -> None:
    first, second, third = doubt(home, 0, 1, 2)
    labeller = ImageLabeller(home)
    assert labeller.class_names() == ("apple", "pear")
    step = labeller.give([first, second], "quince")
    assert (step.name, step.is_new, step.images, step.gone, step.fault) == (
        "quince",
        True,
        2,
        0,
        "",
    )
    labeller.give([third], "apple")
    assert samples(home) == {
        "apple": [f"{third}.png"],
        "pear": [],
        "quince": sorted([f"{first}.png", f"{second}.png"]),
    }
    assert sorted(path.name for path in home.inbox_folder.iterdir()) == ["lock"]
    later = (home.data_folder / "apple" / f"{third}.png").stat().st_mtime + 10
    source = FolderSource(home.data_folder, DigestCache(tmp_path / "cache.db"), lambda: later)
    counted = {image.digest: image.class_name for image in source.scan().images}
    assert counted == {first: "quince", second: "quince", third: "apple"}


def test_a_class_folder_typed_in_another_form_is_used_as_it_is(home: AgentHome) -> None:
    (home.data_folder / "cafe\u0301").mkdir()
    (image,) = doubt(home, 0)
    assert not ImageLabeller(home).give([image], "café").is_new
    assert samples(home)["cafe\u0301"] == [f"{image}.png"]
    assert "café" not in samples(home)


def test_what_another_program_took_meanwhile_is_told(home: AgentHome) -> None:
    first, second = doubt(home, 0, 1)
    labeller = ImageLabeller(home)
    assert len(labeller.inbox.waiting()) == 2
    ImageLabeller(home).throw_away([first])
    step = labeller.give([first, second], "pear")
    assert (step.images, step.gone) == (1, 1)
    assert samples(home)["pear"] == [f"{second}.png"]


def test_nothing_is_overwritten(home: AgentHome) -> None:
    (image,) = doubt(home, 0)
    other = home.data_folder / "apple" / f"{image}.png"
    other.write_bytes(b"somebody's own")
    step = ImageLabeller(home).give([image], "apple")
    assert "is another file; move it away" in step.fault
    assert (step.images, waiting(home)) == (0, 1)
    assert other.read_bytes() == b"somebody's own"


def test_a_crash_between_the_two_folders_loses_nothing_and_naming_goes_on(
    home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    (image,) = doubt(home, 0)
    labeller = ImageLabeller(home)

    def crash(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(labeller.inbox, "_remove", crash)
    with pytest.raises(KeyboardInterrupt):
        labeller.give([image], "pear")
    assert waiting(home) == 1
    assert samples(home)["pear"] == [f"{image}.png"]
    assert ImageLabeller(home).give([image], "pear").images == 1
    assert waiting(home) == 0


def test_a_full_disk_keeps_what_it_has(home: AgentHome, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = doubt(home, 0, 1)
    labeller, link = ImageLabeller(home), Path.hardlink_to

    def full(target: Path, source: Path) -> None:
        if second in source.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        link(target, source)

    monkeypatch.setattr(Path, "hardlink_to", full)
    step = labeller.give([first, second], "pear")
    assert step.images == 1
    assert "No space left on device" in step.fault
    assert "Free some space" in step.fault
    assert [image.digest for image in labeller.inbox.waiting()] == [second]


def test_class_folders_on_another_full_disk_take_nothing_and_lose_nothing(tmp_path: Path) -> None:
    home = a_home(tmp_path / "home")
    (image,) = doubt(home, 0)
    with small_disk(tmp_path / "disk", 1) as disk:
        pears = disk.folder / "pear"
        pears.mkdir()
        data = AgentDataSettings(folder=disk.folder)
        elsewhere = AgentHome(home.folder, home.settings.model_copy(update={"data": data}))
        disk.fill()
        step = ImageLabeller(elsewhere).give([image], "pear")
        assert (step.images, waiting(home)) == (0, 1)
        assert "No space left on device" in step.fault
        assert list(pears.iterdir()) == []
        disk.empty()
        assert ImageLabeller(elsewhere).give([image], "pear").images == 1
        (file,) = pears.iterdir()
        assert file.name == f"{image}.png"
        assert Digest.of(file.read_bytes()) == image
        (other,) = doubt(home, 1)
        (pears / f"{other}.png").write_bytes(b"somebody's own")
        assert "is another file" in ImageLabeller(elsewhere).give([other], "pear").fault
        assert (pears / f"{other}.png").read_bytes() == b"somebody's own"


def test_a_data_folder_that_is_not_mounted_is_not_made(home: AgentHome) -> None:
    (image,) = doubt(home, 0)
    home.data_folder.rename(home.folder / "elsewhere")
    with pytest.raises(LabelError, match="mount the disk"):
        ImageLabeller(home).give([image], "pear")
    assert not home.data_folder.exists()
    assert waiting(home) == 1


def test_the_last_steps_are_taken_back_one_by_one(home: AgentHome) -> None:
    first, second, third = doubt(home, 0, 1, 2)
    before = ImageLabeller(home).inbox.waiting()
    labeller = ImageLabeller(home)
    labeller.give([first], "quince")
    labeller.throw_away([second])
    labeller.give([third], "pear")
    assert waiting(home) == 0
    for step, count in (("pear", 1), (None, 2), ("quince", 3)):
        assert labeller.last is not None
        assert labeller.undo().name == step
        assert waiting(home) == count
    assert ImageLabeller(home).inbox.waiting() == before
    assert samples(home) == {"apple": [], "pear": []}
    with pytest.raises(LabelError, match="nothing to take back"):
        labeller.undo()


def test_what_somebody_moved_since_is_left_where_it_is(home: AgentHome) -> None:
    first, second = doubt(home, 0, 1)
    labeller = ImageLabeller(home)
    labeller.give([first, second], "pear")
    moved = home.data_folder / "apple" / "mine.png"
    (home.data_folder / "pear" / f"{first}.png").rename(moved)
    labeller.undo()
    assert moved.exists()
    assert [image.digest for image in labeller.inbox.waiting()] == [second]


def test_one_in_so_many_is_held_out_by_its_content_alone(home: AgentHome) -> None:
    images = doubt(home, *range(24))
    step = ImageLabeller(home, hold_out=4).give(images, "quince")
    held = {name.removesuffix(".png") for name in samples(home, "evaluation")["quince"]}
    assert held == {str(image) for image in images if int(image[:8], 16) % 4 == 0}
    assert len(held) == step.held_out
    assert 0 < step.held_out < 24
    assert len(samples(home)["quince"]) == 24 - step.held_out


def test_holding_out_wants_a_folder_for_it(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match="evaluation_folder"):
        ImageLabeller(a_home(tmp_path), hold_out=4)


@pytest.mark.parametrize("samples_of", ["scenes", "text", "none"])
def test_a_device_without_class_folders_of_pictures_is_refused(
    tmp_path: Path, samples_of: str
) -> None:
    home = a_home(tmp_path)
    data = home.settings.data.model_copy(update={"samples": samples_of})
    with pytest.raises(LabelError, match=f'is "{samples_of}"'):
        ImageLabeller(AgentHome(home.folder, home.settings.model_copy(update={"data": data})))


def test_no_image_is_chosen(home: AgentHome) -> None:
    with pytest.raises(LabelError, match="Choose"):
        ImageLabeller(home).give([], "pear")
