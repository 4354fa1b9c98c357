"""Bundles: what is in them, who is believed, and that nothing of a network is needed."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.command_line import app
from fleetledger.coordinator.bundles.bundle_maker import BundleOrder, make_bundle
from fleetledger.coordinator.bundles.targets import TARGETS, TargetName
from fleetledger.coordinator.bundles.wheels import Wheelhouse
from fleetledger.coordinator.errors import BundleError
from fleetledger.runtime.bundle_installer import (
    InstallerError,
    check_machine,
    check_not_older,
    is_signed_says_openssl,
    read_keys,
    unpack,
)
from fleetledger.schemas.keys import KeyName, SigningKey
from fleetledger.schemas.roots import RootDocument, SignedRoot
from fleetledger.schemas.values import FleetId
from tests.coordinator.bundles.small_wheels import (
    FLEETLEDGER,
    release_key,
    small_index,
    use_only,
    without_a_network,
    write_wheel,
)

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
MACHINE = {"x86_64": TargetName.X86_64, "aarch64": TargetName.AARCH64}[os.uname().machine]
Order = Callable[..., BundleOrder]
Signed = tuple[Path, SigningKey]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    small_index(folder)
    return folder


@pytest.fixture
def order(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Order:
    shutil.copytree(index, tmp_path / "index")
    wheel = tmp_path / "index" / FLEETLEDGER
    use_only(tmp_path / "index", monkeypatch)
    return lambda target=MACHINE, **more: BundleOrder(wheel, target, tmp_path / "out", **more)


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return release_key(tmp_path)


@pytest.fixture(scope="module")
def signed(index: Path, tmp_path_factory: pytest.TempPathFactory) -> Signed:
    """A bundle for this machine, and the key by which it is believed."""
    folder = tmp_path_factory.mktemp("signed")
    key = release_key(folder)
    with pytest.MonkeyPatch.context() as patch:
        use_only(index, patch)
        return make_bundle(BundleOrder(index / FLEETLEDGER, MACHINE, folder / "out"), key), key


def opened(bundle: Path, key: SigningKey, folder: Path) -> set[str]:
    folder.mkdir()
    unpack(bundle, read_keys(key.verify_key), folder)
    return {path.name.split("-")[0] for path in (folder / "wheels").iterdir()}


def altered(bundle: Path, change: Callable[[str, bytes], tuple[str, bytes]], folder: Path) -> Path:
    """Write a bundle again into `folder` with other members."""
    out = folder / "altered.bundle"
    with tarfile.open(bundle) as source, tarfile.open(out, "w") as target:
        for member in source:
            data = source.extractfile(member)
            assert data is not None
            name, content = change(member.name, data.read())
            fresh = tarfile.TarInfo(name)
            fresh.size = len(content)
            target.addfile(fresh, io.BytesIO(content))
    return out


def test_all_that_the_target_needs_is_in_it(order: Order, key: SigningKey, tmp_path: Path) -> None:
    newer = make_bundle(order(python="3.12"), key)
    older = make_bundle(order(TargetName.AARCH64, python="3.10"), key)
    assert newer.name == f"fleetledger-9.9-{MACHINE.value}-py312.bundle"
    assert opened(newer, key, tmp_path / "a") == {"fleetledger", "small_part", "onnxruntime"}
    assert "for_old_pythons" in opened(older, key, tmp_path / "b")


def test_an_extra_is_in_it_where_it_is_asked_for(
    order: Order, key: SigningKey, tmp_path: Path
) -> None:
    bundle = make_bundle(order(extras=("serve",)), key)
    assert "small_server" in opened(bundle, key, tmp_path / "a")
    with pytest.raises(BundleError, match="--extra train: the wheel has none of that name"):
        make_bundle(order(extras=("train",)), key)


def test_a_jetson_has_the_runtime_that_was_fetched_by_hand(
    order: Order, key: SigningKey, tmp_path: Path
) -> None:
    name = "onnxruntime_gpu-1.23.0-cp310-cp310-linux_aarch64.whl"
    runtime = write_wheel(tmp_path, name, "small_part", onnxruntime="")
    bundle = make_bundle(order(TargetName.JETPACK6, runtime=runtime), key)
    assert bundle.name.endswith("-jetpack6-py310.bundle")
    found = opened(bundle, key, tmp_path / "a")
    assert "onnxruntime_gpu" in found
    assert "onnxruntime" not in found


def test_a_runtime_of_an_index_of_its_own_is_all_that_comes_from_there(
    order: Order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = order(TargetName.JETPACK6)
    index, house = tmp_path / "jetson", tmp_path / "house"
    for name in ("onnxruntime_gpu-1.23.0", "small_part-7.0"):
        project = index / name.partition("-")[0].replace("_", "-")
        tag = "cp310-cp310-linux_aarch64" if name.startswith("onnx") else "py3-none-any"
        write_wheel(project, f"{name}-{tag}.whl", "small_part>=1")
        links = "".join(f'<a href="{file.name}">{file.name}</a>' for file in project.iterdir())
        (project / "index.html").write_text(f"<html><body>{links}</body></html>")
    monkeypatch.delenv("PIP_NO_INDEX")
    target = replace(TARGETS[TargetName.JETPACK6], runtime_index=index.as_uri())
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "empty").as_uri())

    Wheelhouse(house, target, "3.10").gather(asked.wheel, None)

    found = {(name, version) for name, version, _ in Wheelhouse(house, target, "3.10").pins()}
    assert found == {
        ("fleetledger", "9.9"),
        ("small-part", "1.0"),
        ("for-old-pythons", "2.0"),
        ("onnxruntime-gpu", "1.23.0"),
    }


def test_the_same_wheels_give_the_same_bytes(order: Order, signed: Signed) -> None:
    bundle, key = signed
    assert make_bundle(order(), key).read_bytes() == bundle.read_bytes()


def test_what_no_index_has_is_named(order: Order, key: SigningKey, tmp_path: Path) -> None:
    (tmp_path / "index" / "small_part-1.0-py3-none-any.whl").unlink()
    with pytest.raises(BundleError, match="small_part"):
        make_bundle(order(), key)


def test_a_wheel_of_something_else_is_refused(
    order: Order, key: SigningKey, tmp_path: Path
) -> None:
    other = write_wheel(tmp_path, "other-1.0-py3-none-any.whl")
    with pytest.raises(BundleError, match="is other; give the wheel of fleetledger"):
        make_bundle(BundleOrder(other, MACHINE, tmp_path), key)


def test_a_wheel_that_was_exchanged_is_found(signed: Signed, tmp_path: Path) -> None:
    bundle, key = signed

    def exchange(name: str, data: bytes) -> tuple[str, bytes]:
        return name, data + b"x" if "small_part" in name else data

    with pytest.raises(InstallerError, match=r"small_part.* is not what was signed"):
        opened(altered(bundle, exchange, tmp_path), key, tmp_path / "a")


def test_a_manifest_that_was_altered_is_found(signed: Signed, tmp_path: Path) -> None:
    bundle, key = signed

    def later(name: str, data: bytes) -> tuple[str, bytes]:
        return name, data.replace(b'"9.9"', b'"9.8"') if name == "bundle.json" else data

    with pytest.raises(InstallerError, match="do not use it"):
        opened(altered(bundle, later, tmp_path), key, tmp_path / "a")


@pytest.mark.parametrize("name", ["../evil.whl", "/etc/evil", "wheels/../../x.whl", "wheels/x.py"])
def test_a_member_of_another_name_is_refused(signed: Signed, tmp_path: Path, name: str) -> None:
    bundle, key = signed

    def rename(former: str, data: bytes) -> tuple[str, bytes]:
        return name if "small_part" in former else former, data

    with pytest.raises(InstallerError, match="is no part of a bundle"):
        opened(altered(bundle, rename, tmp_path), key, tmp_path / "a")


def test_a_file_that_nobody_signed_is_refused(signed: Signed, tmp_path: Path) -> None:
    bundle, key = signed

    def rename(former: str, data: bytes) -> tuple[str, bytes]:
        return former.replace("small_part", "other_part"), data

    with pytest.raises(InstallerError, match="other files than were signed"):
        opened(altered(bundle, rename, tmp_path), key, tmp_path / "a")


def test_another_key_is_not_believed(signed: Signed, tmp_path: Path) -> None:
    bundle, _ = signed
    other = SigningKey.fresh(KeyName("mill/release"))
    with pytest.raises(InstallerError, match="ask whoever made the bundle"):
        opened(bundle, other, tmp_path / "a")


def test_the_release_keys_of_a_root_are_believed(tmp_path: Path, key: SigningKey) -> None:
    roots = SigningKey.fresh(KeyName("mill/root"))
    document = RootDocument(
        fleet=FleetId("mill"),
        version=1,
        root_keys=(roots.verify_key,),
        threshold=1,
        release_keys=(key.verify_key,),
    )
    file = tmp_path / "root.json"
    file.write_bytes(SignedRoot(document=document).signed_by(roots).canonical_bytes())
    assert read_keys(str(file)) == {key.verify_key.key_hash.hex(): key.verify_key.public}


@pytest.mark.parametrize("text", ["nothing", "a+b+c", "{}"])
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)
    with pytest.raises(InstallerError, match="--key"):
        read_keys(str(tmp_path / "key"))


def test_openssl_says_the_same_as_the_library(key: SigningKey) -> None:
    signature, public = key.sign("", b"message"), key.verify_key.public
    assert is_signed_says_openssl(b"message", signature, public)
    assert not is_signed_says_openssl(b"massage", signature, public)


def test_a_bundle_for_another_machine_is_refused(signed: Signed, tmp_path: Path) -> None:
    bundle, key = signed
    (tmp_path / "a").mkdir()
    manifest = unpack(bundle, read_keys(key.verify_key), tmp_path / "a")
    check_machine(manifest, HERE, os.uname().machine)
    with pytest.raises(InstallerError, match=rf"for Python {re.escape(HERE)} .* and here is"):
        check_machine(manifest, "3.9", os.uname().machine)


@pytest.mark.parametrize(
    ("there", "comes", "refused"),
    [("0.2.0", "0.1.9", True), ("0.10.0", "0.9.1", True), ("0.1.9", "0.2.0", False)],
)
def test_a_bundle_that_is_older_than_what_is_there_is_refused(
    signed: Signed, tmp_path: Path, there: str, comes: str, refused: bool
) -> None:
    bundle, key = signed
    (tmp_path / "scratch").mkdir()
    manifest = unpack(bundle, read_keys(str(key.verify_key)), tmp_path / "scratch")
    info = tmp_path / "into/lib/python3.11/site-packages" / f"fleetledger-{there}.dist-info"
    info.mkdir(parents=True)
    with pytest.raises(InstallerError, match="say --older") if refused else nullcontext():
        check_not_older(replace(manifest, version=comes), tmp_path / "into")
    check_not_older(replace(manifest, version=there), tmp_path / "into")


def test_it_is_installed_without_a_network_by_the_installer_beside_it(
    signed: Signed, tmp_path: Path
) -> None:
    (bundle, key), into = signed, tmp_path / "opt"
    installer = bundle.with_name("install-bundle.py")
    words = (str(installer), str(bundle), "--key", key.verify_key, "--into", str(into))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    for _ in range(2):  # a second time over the first
        command = without_a_network(sys.executable, "-I", *words)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    assert done.stdout == f"fleetledger 9.9 is in {into}\n"
    program = [into / "bin" / "fleetledger"]
    ran = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "fleetledger 9.9 works\n"


def test_the_command_makes_and_verifies(order: Order, key: SigningKey, tmp_path: Path) -> None:
    asked = order()
    words = ["bundle", "make", str(asked.wheel), "--target", MACHINE.value, "--out", str(asked.out)]
    done = CliRunner().invoke(app, [*words, "--key", str(tmp_path / "release.pem")])
    assert done.exit_code == 0, done.output
    (bundle,) = asked.out.glob("*.bundle")

    done = CliRunner().invoke(app, ["bundle", "verify", str(bundle), "--key", key.verify_key])

    assert done.exit_code == 0
    assert "is as it was signed: fleetledger 9.9" in " ".join(done.output.split())
    with tarfile.open(bundle) as archive:
        member = archive.extractfile("bundle.json")
        assert member is not None
        assert json.loads(member.read())["target"] == MACHINE.value
