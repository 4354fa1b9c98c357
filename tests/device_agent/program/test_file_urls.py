"""A device that is told URLs keeps none of them, and follows those that its owner allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.program.capabilities import find_capabilities
from fleetledger.device_agent.program.file_urls import HeardUrls, https_rules, reported_capabilities
from fleetledger.device_agent.settings import FilesSettings
from fleetledger.schemas.offers import HTTPS, FileUrl
from fleetledger.schemas.values import BootId, Digest
from fleetledger.transport.errors import BlockError, TlsError
from tests.device_agent import making
from tests.device_agent import model_files as models
from tests.device_agent.scripted import write_settings

BOOT = BootId.fresh()
A, B = Digest.of(b"a"), Digest.of(b"b")


def told(digest: Digest, number: int = 1) -> FileUrl:
    return FileUrl(digest=digest, url=f"https://files.example.org/{number}")


def desired(*urls: FileUrl) -> inputs.DesiredArrived:
    body = making.desired(7, 1).model_copy(update={"urls": urls})
    return inputs.DesiredArrived(BOOT, body)


def test_rules_and_records_hear_nothing_of_urls() -> None:
    heard = HeardUrls()
    assert heard.noted(desired(told(A))) == desired()
    assert heard.of(A) == "https://files.example.org/1"
    assignment = models.assignment("dark", "light")
    offered = assignment.model_copy(update={"urls": (told(B),)})
    assert heard.noted(inputs.Assigned(BOOT, offered)) == inputs.Assigned(BOOT, assignment)
    assert (heard.of(A), heard.of(B)) == (told(A).url, told(B).url)
    assert heard.noted(inputs.Ticked()) == inputs.Ticked()


def test_newer_urls_take_the_place_of_those_before() -> None:
    heard = HeardUrls()
    heard.noted(desired(told(A, 1), told(B, 1)))
    heard.noted(desired(told(A, 2)))
    assert (heard.of(A), heard.of(B)) == (told(A, 2).url, None)


def test_an_owner_allows_all_hosts_some_or_none(tmp_path: Path) -> None:
    every = https_rules(write_settings(tmp_path / "every"))
    assert every is not None
    assert every.allowed("https://anywhere.example.org/file").hostname == "anywhere.example.org"
    some = https_rules(write_settings(tmp_path / "some", '[files]\nhosts = ["Files.example.org"]'))
    assert some is not None
    assert some.allowed("https://files.example.org:8443/file?x=y").port == 8443
    for url in (
        "https://anywhere.example.org/file",
        "http://files.example.org/file",
        "https://files.example.org@anywhere.example.org/file",
        "https://user@files.example.org/file",
        "https:///file",
        "https://[nonsense/file",
        "https://files.example.org/a b",
        "https://files.example.org/" + "x" * 3000,
    ):
        with pytest.raises(BlockError):
            some.allowed(url)
    assert https_rules(write_settings(tmp_path / "none", "[files]\nhttps = false")) is None


def test_certificates_are_those_of_the_agents_folder_and_tried_at_its_start(tmp_path: Path) -> None:
    with pytest.raises(TlsError, match=r"files\.ca_file: .*/home/ca.pem"):
        https_rules(write_settings(tmp_path / "home", '[files]\nca_file = "ca.pem"'))


def test_the_coordinator_is_told_whether_urls_are_of_use() -> None:
    found = find_capabilities()
    assert HTTPS in reported_capabilities(found, FilesSettings()).features
    assert HTTPS not in reported_capabilities(found, FilesSettings(https=False)).features
