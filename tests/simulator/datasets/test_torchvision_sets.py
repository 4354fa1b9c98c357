"""torchvision's data sets, read from files of its layouts that are made up here."""

import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fleetledger.runtime.pip_command import pip_install
from fleetledger.simulator.datasets.loading import DataSettings, load_split
from fleetledger.simulator.errors import DatasetError
from tests.simulator.datasets.drawing import pixels


@pytest.fixture
def trusting(monkeypatch) -> None:
    """Let torchvision take our files for the published ones, whose digests they lack."""
    from fleetledger.export.torchvision_network import torchvision_module

    for module in ("cifar", "omniglot"):
        there = torchvision_module(f"datasets.{module}")
        monkeypatch.setattr(there, "check_integrity", lambda path, md5=None: Path(path).is_file())


def load(name: str, root: Path, **settings):
    return load_split(DataSettings(set=name, root=str(root), **settings), seed=0)


def write_cifar(folder: Path, files: dict[str, str], names: dict[str, list[str]]) -> None:
    """Write pickled batches of four images each, as the published archives hold them."""
    folder.mkdir()
    for number, (file, key) in enumerate(files.items()):
        batch = {"data": pixels(number, 4, 3072), key: [1, 0, 1, 0]}
        (folder / file).write_bytes(pickle.dumps(batch))
    (meta,) = names
    (folder / meta).write_bytes(
        pickle.dumps({"label_names": names[meta]} | {"fine_label_names": names[meta]})
    )


@pytest.mark.torchvision
@pytest.mark.usefixtures("trusting")
def test_cifar100_is_read_with_its_names(tmp_path: Path):
    files = {"train": "fine_labels", "test": "fine_labels"}
    write_cifar(tmp_path / "cifar-100-python", files, {"meta": ["apple", "aquarium_fish"]})
    split = load("cifar100", tmp_path)
    assert split.train.class_names == ("apple", "aquarium_fish")
    for part, seed in ((split.train, 0), (split.test, 1)):
        planes = pixels(seed, 4, 3072)[2].reshape(3, 32, 32)
        assert np.array_equal(np.asarray(part.picture(2)), planes.transpose(1, 2, 0))
        assert part.labels.tolist() == [1, 0, 1, 0]


@pytest.mark.torchvision
@pytest.mark.usefixtures("trusting")
def test_cifar10_is_read_from_all_its_batches(tmp_path: Path):
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    files = dict.fromkeys(names, "labels")
    write_cifar(tmp_path / "cifar-10-batches-py", files, {"batches.meta": ["bird", "cat"]})
    split = load("cifar10", tmp_path)
    assert (len(split.train), len(split.test)) == (20, 4)
    last = pixels(4, 4, 3072)[3].reshape(3, 32, 32).transpose(1, 2, 0)
    assert np.array_equal(np.asarray(split.train.picture(19)), last)


@pytest.mark.torchvision
def test_fashion_mnist_is_grey_and_its_names_are_folder_names(tmp_path: Path):
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for number, part in enumerate(("train", "t10k")):
        images = pixels(number, 3, 28, 28)
        header = np.array([0x0803, 3, 28, 28], ">i4").tobytes()
        (raw / f"{part}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        labels = np.array([0x0801, 3], ">i4").tobytes() + bytes([0, 9, 4])
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(labels)
    split = load("fashion-mnist", tmp_path)
    assert split.train.class_names[0] == "T-shirt-top"
    assert len(split.train.class_names) == 10
    assert np.array_equal(np.asarray(split.test.picture(1)), pixels(1, 3, 28, 28)[1])
    assert split.test.labels.tolist() == [0, 9, 4]


def write_omniglot(root: Path) -> None:
    for part, alphabets in (("background", ("Greek", "Latin")), ("evaluation", ("Angelic",))):
        folder = root / "omniglot-py" / f"images_{part}"
        for alphabet in alphabets:
            for character in (1, 2):
                place = folder / alphabet / f"character{character:02}"
                place.mkdir(parents=True)
                for drawer in range(1, 5):
                    ink = np.full((105, 105), drawer % 2 == 0)
                    Image.fromarray(ink).save(place / f"07{character:02}_{drawer:02}.png")
        with zipfile.ZipFile(f"{folder}.zip", "w"):
            pass


@pytest.mark.torchvision
@pytest.mark.usefixtures("trusting")
def test_omniglots_owner_is_the_drawer_in_the_files_name(tmp_path: Path):
    write_omniglot(tmp_path)
    split = load("omniglot", tmp_path, test_share=0.25)
    assert split.train.class_names == tuple(
        f"{alphabet}-character{number:02}"
        for alphabet in ("Greek", "Latin", "Angelic")
        for number in (1, 2)
    )
    assert np.bincount(split.test.labels).tolist() == [1] * 6
    assert split.train.owners is not None
    assert set(split.train.owners.tolist()) <= {1, 2, 3, 4}
    for index in range(len(split.train)):
        path = split.train.paths[index]
        assert path.endswith(f"_{split.train.owners[index]:02}.png")
        assert f"/{split.train.class_names[split.train.labels[index]].replace('-', '/')}/" in path
    picture = split.train.picture(0)
    assert (picture.mode, picture.size) == ("L", (105, 105))


@pytest.mark.torchvision
@pytest.mark.usefixtures("trusting")
def test_an_archive_that_was_not_unpacked_is_told(tmp_path: Path):
    folder = tmp_path / "omniglot-py"
    folder.mkdir()
    for part in ("background", "evaluation"):
        (folder / f"images_{part}" / "Greek").mkdir(parents=True)
        (folder / f"images_{part}.zip").write_bytes(b"")
    with pytest.raises(DatasetError, match=r"unpack images_background\.zip"):
        load("omniglot", tmp_path)


@pytest.mark.torchvision
@pytest.mark.parametrize(
    ("name", "kind", "folder"),
    [
        ("cifar10", "CIFAR10", "cifar-10-batches-py/"),
        ("cifar100", "CIFAR100", "cifar-100-python/"),
        ("fashion-mnist", "FashionMNIST", "FashionMNIST/raw/"),
        ("omniglot", "Omniglot", "omniglot-py/"),
    ],
)
def test_a_missing_data_set_names_its_files_and_the_command(name, kind, folder, tmp_path: Path):
    with pytest.raises(DatasetError) as caught:
        load(name, tmp_path)
    told = str(caught.value)
    assert folder in told
    command = re.search(r'python -c "(.+download=True\))"', told)
    assert command is not None
    compile(command[1], "told", "exec")
    assert f"{kind}('{tmp_path}'" in command[1]


@pytest.mark.torchvision
def test_damaged_files_are_refused(tmp_path: Path):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    for name in ("train", "test", "meta"):
        (folder / name).write_bytes(b"others than published")
    with pytest.raises(DatasetError, match="not there or damaged"):
        load("cifar100", tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "fashion-mnist", "omniglot"])
def test_without_torch_the_way_out_is_told(name: str, tmp_path: Path):
    program = f"""
import sys
sys.modules["torch"] = None
from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.errors import DatasetError
from fleetledger.simulator.scenario.model import DataSettings
try:
    load_split(DataSettings(set={name!r}, root={str(tmp_path)!r}), 0)
except DatasetError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert pip_install("train") in done.stdout
    assert "set = 'npz'" in done.stdout
