"""What is not documented fails here: verbs, options, messages, topics, methods, pages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from fleetledger import command_line
from fleetledger.schemas.catalogue import CATALOGUE
from fleetledger.schemas.topics import DOWN_LEAVES, UP_LEAVES
from tests.rooms import ROOMS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LONGEST_README = 130
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Return every command below `command` with its full name, and groups that work alone."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    if command.invoke_without_command:
        yield path, command
    for name, member in below.items():
        if member.hidden:
            continue
        yield from commands(member, f"{path} {name}")


def all_commands() -> list[tuple[str, Any]]:
    found = [("fleetledger version", typer.main.get_command(command_line.app).commands["version"])]  # type: ignore[attr-defined]
    for verb in command_line.VERBS:
        found += commands(command_line.load(verb), f"fleetledger {verb}")
    return found


def markdown_files() -> list[Path]:
    folders = ("docs", "methods", "benchmarks")
    return sorted(ROOT.glob("*.md")) + [
        path for folder in folders for path in sorted((ROOT / folder).rglob("*.md"))
    ]


def test_every_command_and_every_option_is_documented() -> None:
    text = page("commands.md")
    missing = []
    for name, command in all_commands():
        if f"`{name}" not in text:
            missing.append(name)
        for parameter in command.params:
            missing += [
                f"{name} {option}"
                for option in parameter.opts
                if option.startswith("--") and not re.search(rf"{option}(?![\w-])", text)
            ]
    assert not missing, f"describe in docs/commands.md: {missing}"


def test_every_documented_command_exists() -> None:
    written = set(re.findall(r"^\| `(fleetledger [a-z]+(?: [a-z-]+)?)", page("commands.md"), re.M))
    assert written == {name for name, _ in all_commands()}


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.kind)
def test_every_message_is_documented(entry: Any) -> None:
    assert f"`{entry.kind}`" in page("protocol/README.md")
    assert (DOCS / "protocol" / f"{entry.kind}.schema.json").exists()


def test_every_topic_is_documented() -> None:
    text = page("protocol/README.md")
    topics = [f"`up/<device>/{leaf}`" for leaf in UP_LEAVES]
    topics += [f"`down/<device>/{leaf}`" for leaf in DOWN_LEAVES]
    assert not [topic for topic in topics if topic not in text]


def test_every_method_is_in_the_index() -> None:
    methods = [path.parent.name for path in (ROOT / "methods").glob("*/messages.py")]
    assert methods
    for method in methods:
        assert f"(../methods/{method}/README.md)" in page("README.md")


def test_the_readme_is_short_and_leads_to_what_it_has_no_room_for() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_README
    for heading in ("Try it", "Install", "Which method", "Measured"):
        assert f"\n## {heading}\n" in text
    for page_of in (
        "docs/README.md",
        "docs/measured.md",
        "docs/tutorials/a-fleet-in-ten-minutes.md",
    ):
        assert f"]({page_of})" in text


def test_every_figure_of_the_readme_stands_on_the_page_of_figures() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    figures = re.findall(r"^\| [^|]+ \| (.*\d.*) \|$", text.partition("## Measured")[2], re.M)
    known = page("measured.md")
    assert figures
    assert not [n for row in figures for n in re.findall(r"\d+\.?\d*", row) if n not in known]


def test_every_method_of_the_readme_has_its_use() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.partition("## Which method")[2].partition("## ")[0]
    folders = {path.parent.name for path in (ROOT / "methods").glob("*/messages.py")}
    of_statistics = {"stsa", "fedncm", "fed3r", "fedcof"}  # on pages of docs/methods
    assert not [
        name for name in folders - of_statistics if f"methods/{name}/README.md" not in table
    ]
    assert "docs/methods/stsa.md" in table
    assert "docs/methods/baselines.md" in table


def test_the_documentation_begins_with_the_tutorials() -> None:
    links = LINK.findall(page("README.md"))
    tutorials = {f"tutorials/{path.name}" for path in (DOCS / "tutorials").glob("*.md")}
    assert set(links[: len(tutorials)]) == tutorials


def test_every_page_is_in_an_index() -> None:
    indices = [DOCS / "README.md", DOCS / "decisions" / "README.md"]
    linked = {
        (index.parent / link).resolve()
        for index in indices
        for link in LINK.findall(index.read_text())
    }
    pages = {path.resolve() for path in DOCS.rglob("*.md")} - {DOCS / "README.md"}
    assert not [path.name for path in sorted(pages - linked)]


def test_every_room_is_on_the_page_about_architecture() -> None:
    text = page("architecture.md")
    assert not [room for room in ROOMS if f"| `{room}` |" not in text]


@pytest.mark.parametrize("path", markdown_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_link_leads_nowhere(path: Path) -> None:
    links = LINK.findall(FENCED.sub("", path.read_text(encoding="utf-8")))
    inside = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert not [link for link in inside if not (path.parent / link).exists()]


@pytest.mark.parametrize("path", sorted((DOCS / "decisions").glob("0*.md")), ids=lambda p: p.stem)
def test_every_decision_is_dated_and_says_context_options_and_outcome(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# {path.stem[:4]}: ")
    assert re.search(r"^20\d\d-\d\d-\d\d, (accepted|replaced by \d{4})$", text, re.M)
    headings = re.findall(r"^## (.+)$", text, re.M)
    assert headings == ["Context", "Options", "Outcome"]
