"""Devices that can are told where large files lie by HTTPS; all others as ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pydantic import ValidationError

from fleetledger.coordinator.errors import BlobError
from fleetledger.coordinator.program.file_server import FileServer
from fleetledger.coordinator.program.file_urls import FileUrls, file_urls
from fleetledger.coordinator.settings import CoordinatorSettings, FilesSection, load
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.models import DesiredModel
from fleetledger.schemas.offers import HTTPS, Offer
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.transport.block_source import BlockSource
from tests.device_agent.making import desired as desired_message

DEVICE = DeviceId("camera-1")
LARGE, SMALL = BlockSource(bytes(70_000)).offer, BlockSource(b"small").offer
DESIRED = desired_message(7, 1).model_copy(update={"manifest": SMALL, "files": (LARGE, SMALL)})


class Signing(MemoryFileSystem):
    """A store that signs URLs, as S3's does."""

    protocol = "signing"
    signed: list[tuple[str, int]] = []

    def sign(self, path: str, expiration: int = 100, **_: Any) -> str:
        self.signed.append((path, expiration))
        place = path.partition("://")[2]
        return f"https://store.example.org/{place}?expires={expiration}&number={len(self.signed)}"


@pytest.fixture(autouse=True)
def signing() -> type[Signing]:
    fsspec.register_implementation("signing", Signing, clobber=True)
    Signing.signed.clear()
    return Signing


class Served:
    """A block exchange that serves anything."""

    def serve(self, data: BlockSource) -> Offer:
        return data.offer


def server(urls: FileUrls | None, *features: str) -> FileServer:
    return FileServer(Served(), _Content, urls, lambda device: features)  # type: ignore[arg-type]


class _Content:
    """Blobs of the two files."""

    class store:  # noqa: N801 - stands for the attribute
        @staticmethod
        def local_path(_: Digest) -> None:
            return None

    def get(self, digest: Digest) -> bytes:
        return bytes(70_000) if digest == LARGE.digest else b"small"


def urls_in(body: DesiredModel) -> dict[Digest, str]:
    return {item.digest: item.url for item in body.urls}


def test_large_files_are_told_under_a_prefix_as_blobs_lie_there() -> None:
    urls = file_urls(FilesSection(url="https://files.example.org/orchard/blobs/"), lambda: 0.0)
    told = server(urls, HTTPS).offered(DESIRED, DEVICE)
    assert isinstance(told, DesiredModel)
    place = f"https://files.example.org/orchard/blobs/{LARGE.digest[:2]}/{LARGE.digest}"
    assert urls_in(told) == {LARGE.digest: place}
    assert told.model_copy(update={"urls": ()}) == DESIRED


def test_nothing_changes_for_those_who_cannot_and_where_nothing_is_set() -> None:
    urls = file_urls(FilesSection(url="https://files.example.org/blobs"), lambda: 0.0)
    assert server(urls, "numpy").offered(DESIRED, DEVICE) is DESIRED
    assert file_urls(FilesSection(), lambda: 0.0) is None
    assert server(None, HTTPS).offered(DESIRED, DEVICE) is DESIRED
    assert "urls" not in DESIRED.model_dump(mode="json"), "older agents know the message"


def test_signed_urls_are_told_again_for_half_of_their_life(signing: type[Signing]) -> None:
    now = [0.0]
    files = FilesSection(store="signing://bucket/blobs", seconds=600)
    urls = file_urls(files, lambda: now[0])
    assert urls is not None
    first = urls.url(DEVICE, LARGE.digest)
    assert first is not None
    assert first.startswith(
        f"https://store.example.org/bucket/blobs/{LARGE.digest[:2]}/{LARGE.digest}?expires=600"
    )
    now[0] = 299.0
    assert urls.url(DEVICE, LARGE.digest) == first
    now[0] = 301.0
    assert urls.url(DEVICE, LARGE.digest) != first
    assert [seconds for _, seconds in signing.signed] == [600, 600]


def test_a_store_that_signs_nothing_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    urls = file_urls(FilesSection(store="memory://bucket/blobs"), lambda: 0.0)
    assert urls is not None
    for _ in range(3):
        assert server(urls, HTTPS).offered(DESIRED, DEVICE) is DESIRED
    assert len([record for record in caplog.records if "signs no URLs" in record.message]) == 1


def test_a_url_that_no_device_would_ask_is_not_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Signing, "sign", lambda *_, **__: "http://store.example.org/blob")
    urls = file_urls(FilesSection(store="signing://bucket/blobs"), lambda: 0.0)
    assert server(urls, HTTPS).offered(DESIRED, DEVICE) is DESIRED
    assert "is not told" in caplog.text


def test_settings_name_one_place_by_https(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="both are given"):
        FilesSection(url="https://files.example.org", store="s3://bucket")
    (tmp_path / "coordinator.toml").write_text(
        'fleet = "orchard"\n[files]\nurl = "http://files.example.org"\n', encoding="utf-8"
    )
    with pytest.raises(SettingsError, match="url"):
        load(tmp_path)
    with pytest.raises(BlobError, match="cannot be opened"):
        file_urls(FilesSection(store="nonsense://bucket"), lambda: 0.0)
    assert CoordinatorSettings.model_validate({"fleet": "orchard"}).files == FilesSection()


def test_a_file_that_cannot_be_read_is_a_problem_until_it_is_back() -> None:
    class Damaged(_Content):
        lost = True

        def get(self, digest: Digest) -> bytes:
            if self.lost and digest == LARGE.digest:
                raise BlobError(f"blob {digest.short}: nobody holds it")
            return super().get(digest)

    blobs = Damaged()
    files = FileServer(Served(), lambda: blobs)  # type: ignore[arg-type, return-value]
    with pytest.raises(BlobError):
        files.offered(DESIRED, DEVICE)
    (problem,) = files.problems()
    assert problem.hinders
    assert "bring it back from a mirror" in problem.text
    assert not files.found_again()
    blobs.lost = False
    assert files.found_again()
    assert list(files.problems()) == []
    assert files.offered(DESIRED, DEVICE) == DESIRED
