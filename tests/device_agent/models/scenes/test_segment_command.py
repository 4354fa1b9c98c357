"""`agent segment`: masks, overlays and a legend, as files that people open."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from fleetledger.device_agent.cli.commands import app
from fleetledger.device_agent.errors import SegmentError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.segmentation import active_model, segment
from fleetledger.device_agent.models.slots import ModelSlots, Slot
from fleetledger.device_agent.samples.sources.masks import decode_mask, load_mask_classes
from fleetledger.export.package import ExportedModel
from fleetledger.learning.numerics.palette import voc_colours
from tests.device_agent import model_files as models
from tests.device_agent.models.scenes import dense
from tests.device_agent.models.scenes.dense import blocks, painted
from tests.device_agent.samples.sources.drawing import save
from tests.device_agent.scripted import write_settings

MASK = blocks(0, 1, 2, 0, height=40, width=64)


@pytest.fixture
def home(tmp_path: Path) -> AgentHome:
    return write_settings(tmp_path / "home", samples="scenes")


def activate(home: AgentHome, exported: ExportedModel) -> None:
    models.store_model(BlobFolder(home.state_folder / "blobs"), exported)
    ModelSlots(home.state_folder / "slots").install(Slot.of(exported.manifest))


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    return save(painted(MASK), tmp_path / "street.jpg", quality=95)


def run(home: AgentHome, out: Path, *pictures: Path):
    names = [str(picture) for picture in pictures]
    told = ["segment", *names, "--out", str(out), "--home", str(home.folder)]
    return CliRunner().invoke(app, told)


def test_the_mask_has_the_pictures_size_and_what_it_shows(
    home: AgentHome, picture: Path, tmp_path: Path
) -> None:
    activate(home, dense.exported())
    done = run(home, tmp_path / "out", picture)
    assert done.exit_code == 0, done.output
    assert f"{picture}: background, " in done.output
    path = tmp_path / "out" / "masks" / "street.png"
    mask = decode_mask(path.read_bytes())
    assert mask.shape == MASK.shape
    assert (mask == MASK).mean() > 0.9
    # The stripes' middles are theirs at every height.
    assert np.array_equal(mask[:, [8, 24, 40, 56]], np.tile([0, 1, 2, 0], (40, 1)))
    with Image.open(path) as image:
        assert image.mode == "P"
        assert np.array_equal(np.array(image.getpalette()).reshape(-1, 3), voc_colours()[:256])


def test_the_overlay_lays_half_a_colour_over_classes_and_none_over_background(
    home: AgentHome, picture: Path, tmp_path: Path
) -> None:
    activate(home, dense.exported())
    run(home, tmp_path / "out", picture)
    mask = decode_mask((tmp_path / "out" / "masks" / "street.png").read_bytes())
    with Image.open(tmp_path / "out" / "overlays" / "street.png") as image:
        overlay = np.asarray(image).astype(int)
    with Image.open(picture) as image:
        pixels = np.asarray(image).astype(int)
    assert np.array_equal(overlay[mask == 0], pixels[mask == 0])
    for value in (1, 2):
        half = (pixels[mask == value] + voc_colours()[value]) // 2
        assert np.array_equal(overlay[mask == value], half)


def test_the_legend_names_every_value_with_its_colour(
    home: AgentHome, picture: Path, tmp_path: Path
) -> None:
    activate(home, dense.exported(("red", "green", "blue")))
    run(home, tmp_path / "out", picture)
    path = tmp_path / "out" / "classes.toml"
    assert load_mask_classes(path).names == {1: "red", 2: "green", 3: "blue"}
    lines = path.read_text().splitlines()
    assert '1 = "red"  # #800000' in lines
    assert '3 = "blue"  # #808000' in lines


def test_what_a_crop_leaves_out_is_255(home: AgentHome, picture: Path, tmp_path: Path) -> None:
    activate(home, dense.exported(spec=dense.CROPPED))
    done = run(home, tmp_path / "out", picture)
    assert done.exit_code == 0, done.output
    mask = decode_mask((tmp_path / "out" / "masks" / "street.png").read_bytes())
    # 64 x 40 comes to 32 x 20, of which the middle 16 x 16 are seen.
    assert (mask[:4] == 255).all()
    assert (mask[36:] == 255).all()
    assert (mask[:, :16] == 255).all()
    assert (mask[:, 48:] == 255).all()
    assert (mask[4:36, 16:48] != 255).all()
    assert np.array_equal(mask[20, [24, 40]], [1, 2])


def test_a_picture_that_stands_on_its_side_is_turned_upright(
    home: AgentHome, tmp_path: Path
) -> None:
    activate(home, dense.exported())
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    lying = painted(MASK).transpose(Image.Transpose.ROTATE_90)
    path = save(lying, tmp_path / "lying.png", exif=exif)
    assert run(home, tmp_path / "out", path).exit_code == 0
    mask = decode_mask((tmp_path / "out" / "masks" / "lying.png").read_bytes())
    assert mask.shape == MASK.shape
    assert (mask == MASK).mean() > 0.9


def test_a_picture_that_does_not_decode_is_told_and_the_others_are_written(
    home: AgentHome, picture: Path, tmp_path: Path
) -> None:
    activate(home, dense.exported())
    torn = tmp_path / "torn.png"
    torn.write_bytes(b"nothing")
    done = run(home, tmp_path / "out", torn, tmp_path / "gone.png", picture)
    assert done.exit_code == 1
    assert "torn.png: image: 7 bytes are no picture" in done.output
    assert "gone.png: cannot be read" in done.output
    assert "wrote 1 of 3 masks" in done.output
    assert [path.name for path in (tmp_path / "out" / "masks").iterdir()] == ["street.png"]


def test_nothing_is_written_over(home: AgentHome, picture: Path, tmp_path: Path) -> None:
    activate(home, dense.exported())
    model = active_model(home)
    labels = tmp_path / "data" / "masks" / "street.png"
    labels.parent.mkdir(parents=True)
    labels.write_bytes(b"somebody's labels")
    with pytest.raises(SegmentError, match=r"street\.png is there already; choose another"):
        list(segment(model, [picture], tmp_path / "data"))
    assert labels.read_bytes() == b"somebody's labels"
    assert not (tmp_path / "data" / "classes.toml").exists()
    list(segment(model, [picture], tmp_path / "out"))
    with pytest.raises(SegmentError, match=r"classes\.toml is there already"):
        list(segment(model, [tmp_path / "other.png"], tmp_path / "out"))


def test_two_pictures_of_one_name_are_refused(
    home: AgentHome, picture: Path, tmp_path: Path
) -> None:
    activate(home, dense.exported())
    with pytest.raises(SegmentError, match="two are called 'street'"):
        list(segment(active_model(home), [picture, tmp_path / "street.png"], tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_told(home: AgentHome, picture: Path) -> None:
    activate(home, dense.exported())
    with pytest.raises(SegmentError, match=r"--out: .* cannot be written"):
        list(segment(active_model(home), [picture], picture))


def test_a_model_of_samples_is_refused(home: AgentHome, picture: Path, tmp_path: Path) -> None:
    activate(home, models.exported())
    done = run(home, tmp_path / "out", picture)
    assert isinstance(done.exception, SegmentError)
    assert "gives samples a class as a whole" in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_without_a_model_the_way_to_one_is_told(home: AgentHome) -> None:
    with pytest.raises(SegmentError, match="no model is active here"):
        active_model(home)


def test_a_mask_has_no_value_for_too_many_rows(
    home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    activate(home, dense.exported())
    monkeypatch.setattr("fleetledger.device_agent.models.segmentation.MAX_ROWS", 2)
    with pytest.raises(SegmentError, match="has 3 rows; a mask has values for 2"):
        active_model(home)
