"""The report in a run's folder: every file, and a page that stands alone."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.headline import metric_of
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.report.files import write_report
from fleetledger.simulator.report.pictures.gallery import GALLERY
from tests.simulator.fake_run import Shape, write_fake_run

TITLE = "Shapes <script>alert('x')</script> & \"more\""
SHAPE = Shape(
    stages=3,
    devices=6,
    joining=2,
    rounds=2,
    looks=True,
    detection=True,
    pooled=True,
    changes={
        "title": TITLE,
        "description": "First paragraph.\n\nSecond <b>paragraph</b>.",
        "published": [{"label": "<i>STSA</i>", "accuracy": [90, 80, 70], "source": "Table 1"}],
    },
)
NOT_THERE = {"classes.png", "exposure.png"}
OF_SAMPLES = [picture for picture in GALLERY if picture.file not in NOT_THERE]
"""Those that a run without masks and rollout has, if everything else is there."""
VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Checks that tags are closed, and collects text, attributes and sections."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        held = dict(attrs)
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset")]
        if "id" in held:
            assert held["id"] not in self.names
            self.names.add(held["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResults, list[Path]]:
    folder = tmp_path_factory.mktemp("run")
    results = write_fake_run(folder, SHAPE)
    return folder, results, write_report(folder, results)


@pytest.fixture(scope="module")
def page(run) -> Page:
    return Page((run[0] / "report.html").read_text(encoding="utf-8"))


def test_every_file_is_there_and_named(run):
    folder, results, written = run
    names = ["results.json", "results.csv", "devices.csv", "novelty_checks.csv"]
    names += [picture.file for picture in OF_SAMPLES] + ["report.html"]
    assert [path.name for path in written] == names
    assert all(path.parent == folder and path.stat().st_size > 0 for path in written)
    assert RunResults.read(folder) == results


def test_every_picture_is_a_png_that_fills_a_page(run):
    for path in run[2]:
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert image.format == "PNG"
                assert min(image.size) > 300


def test_the_page_stands_alone(page: Page, run):
    for link in page.links:
        assert link.startswith(("#", "data:image/png;base64,")), link
    assert len([link for link in page.links if link.startswith("data:")]) == len(OF_SAMPLES)
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    text = (run[0] / "report.html").read_text(encoding="utf-8")
    outside = re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)
    assert not re.search(r"https?:|//[a-z]|url\(|@import", outside)


def test_links_within_the_page_lead_somewhere(page: Page):
    assert {link[1:] for link in page.links if link.startswith("#")} <= page.names


def test_every_number_is_on_the_page(page: Page, run):
    results = run[1]
    for name in results.summary:
        assert metric_of(name).title in page.text
        assert metric_of(name).meaning in page.text
    for picture in OF_SAMPLES:
        assert picture.title in page.text
        assert picture.caption in page.text


def test_names_are_escaped_and_readable(page: Page):
    assert TITLE in page.text
    assert "<i>STSA</i>" in page.text
    assert "Second <b>paragraph</b>." in page.text
    assert not {"script", "i"} & set(page.tags)


def test_scenario_machine_command_and_notes_are_on_the_page(page: Page, run):
    for line in (run[0] / "scenario.toml").read_text(encoding="utf-8").splitlines():
        assert line in page.text
    assert "x86_64, a machine of dreams" in page.text
    assert "fleetledger simulate scenario.toml" in page.text
    assert "A device came late; its data were counted in this stage. (seed 1, stage 2;" in page.text


@pytest.mark.usefixtures("dots")
def test_sections_of_what_was_not_there_are_left_out(tmp_path: Path):
    results = write_fake_run(tmp_path, Shape(stages=1, devices=1, seeds=(1,)))
    written = write_report(tmp_path, results)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "detection" not in page.names
    assert "Rounds" not in page.text
    assert "Published" not in page.text
    assert "matrix.png" not in [path.name for path in written]


@pytest.mark.usefixtures("dots")
def test_a_report_is_written_again_over_an_older_one(tmp_path: Path):
    results = write_fake_run(tmp_path, SHAPE)
    written = write_report(tmp_path, results)
    before = {path: path.read_bytes() for path in written}
    for path in written:
        path.write_bytes(b"of before")
    assert write_report(tmp_path, results) == written
    assert {path: path.read_bytes() for path in written} == before


@pytest.mark.parametrize("content", [None, '{"stage": 1}\n'])
def test_records_that_are_missing_or_wrong_are_named(tmp_path: Path, content: str | None):
    results = write_fake_run(tmp_path, Shape(stages=1, devices=1, seeds=(1,)))
    path = tmp_path / "seed-1" / "stages.jsonl"
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(RunError, match=r"stages\.jsonl"):
        write_report(tmp_path, results)
    assert (tmp_path / "results.json").exists()
