"""Finds the commands that docs, texts of the program and templates show, and parses each."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer

from fleetledger import command_line
from tests.rooms import ROOMS
from tests.test_architecture import ROOT
from tests.test_docs import markdown_files

PROGRAM = "fleetledger"
FENCE = re.compile(r"^ *```(?P<kind>\w*)\n(?P<text>.*?)^ *```$", re.M | re.S)
SHELLS = {"", "sh", "console", "bash"}
INDENTED = re.compile(r"(?:^ {4,}\S.*\n?)+", re.M)
SPAN = re.compile(r"`([^`]+)`")
PLACEHOLDER = re.compile(r".*(?:[A-Z]{2,}|…|\.\.\.|[{<$]).*|[A-Z]", re.S)
"""A word that stands for another: DEVICE, FILE…, $KEY."""
VALUE = "VALUE"
"""Stands for what the program puts in."""
SAMPLE = "7"
"""A value that numbers, names and files may have."""


@dataclass(frozen=True)
class ShownCommand:
    """A command line, where it is shown, and whether somebody could type it as it stands."""

    place: str
    line: str
    whole: bool
    """False for a mention, such as `fleetledger model push`, which may leave arguments out."""

    @property
    def words(self) -> list[str]:
        """The words after the program's name."""
        return shlex.split(self.line, comments=self.whole)[1:]


def in_docs() -> Iterator[ShownCommand]:
    """Return the commands of all pages: in blocks as they are typed, elsewhere as mentions."""
    for path in markdown_files():
        place, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        for block in FENCE.finditer(text):
            if block["kind"] in SHELLS:
                yield from _typed(place, block["text"])
        rest = FENCE.sub("", text)
        for lines in INDENTED.findall(rest):
            yield from _typed(place, lines)
        yield from _mentioned(place, INDENTED.sub("", rest))


def in_program() -> Iterator[ShownCommand]:
    """Return the commands in texts and templates of the program."""
    for path in sorted(ROOT.glob("*.py")) + [
        file for package in ROOMS for file in sorted((ROOT / package).rglob("*.py"))
    ]:
        for text in texts_of(path):
            yield from _mentioned(str(path.relative_to(ROOT)), text)
    for path in sorted((ROOT / "coordinator").rglob("*.html")):
        text = re.sub(r"{{.*?}}", _expression, path.read_text(encoding="utf-8"), flags=re.S)
        place = str(path.relative_to(ROOT))
        for found in re.findall(r"fleetledger [a-z][^<>`|]*", text.replace("&gt;", "|")):
            yield ShownCommand(place, found.replace("\\\n", " "), whole=True)


def _expression(found: re.Match[str]) -> str:
    """Return what a template's expression shows, where that is a command."""
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"|~ *(\w[\w.]*)', found[0])
    if not parts or not parts[0][0].startswith(f"{PROGRAM} "):
        return VALUE
    return (
        "".join(text.replace('\\"', '"') or VALUE for text, _ in parts).replace("%s", VALUE) + "|"
    )


@cache
def texts_of(path: Path) -> tuple[str, ...]:
    """Return the texts of a module; what is put into one is `VALUE`."""
    found: list[str] = []

    class Texts(ast.NodeVisitor):
        def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
            parts = (
                part.value if isinstance(part, ast.Constant) else VALUE for part in node.values
            )
            found.append("".join(map(str, parts)))

        def visit_Constant(self, node: ast.Constant) -> None:
            if isinstance(node.value, str):
                found.append(node.value)

    text = path.read_text(encoding="utf-8")
    if PROGRAM in text:
        Texts().visit(ast.parse(text))
    return tuple(found)


def _typed(place: str, text: str) -> Iterator[ShownCommand]:
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r"\||&&|;|&$|[<>]", line.partition(" #")[0]):
            found = re.match(
                r"(?:.*[$#(] *|.*\b[A-Z_]+=\S+ +|.*\bsudo .*|\s*)?(?:\S*/)?(fleetledger .+)", part
            )
            if found and re.match(r"fleetledger (--?\w|[a-z])", found[1]):
                yield ShownCommand(place, found[1].rstrip(" )"), whole=True)


def _mentioned(place: str, text: str) -> Iterator[ShownCommand]:
    for span in SPAN.findall(text):
        line = " ".join(span.split())
        if line.startswith(f"{PROGRAM} "):
            first, *others = line.split(" | ")
            yield ShownCommand(place, first, whole=False)
            above = first.rpartition(" ")[0]
            yield from (ShownCommand(place, f"{above} {other}", whole=False) for other in others)


def fault_of(shown: ShownCommand) -> str | None:
    """Return what the command tree has against a command; None where it takes it."""
    try:
        words = list(_filled(shown.words))
    except ValueError as error:
        return str(error)
    command, path = tree(), [PROGRAM]
    while hasattr(command, "commands") and words and words[0] in command.commands:
        path.append(words[0])
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands") and "run" in command.commands and words:
        command = command.commands["run"]  # `simulate SCENARIO`
    name = " ".join(path)
    if len(path) == 1 and words[:1] == [SAMPLE]:
        return None  # VERB
    if not hasattr(command, "commands"):
        return _fault_of_words(command, name, words, whole=shown.whole)
    if not words and (not shown.whole or command.invoke_without_command):
        return None
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    return None if words and words[0] in known else f"{name}: has no {' '.join(words[:1])!r}"


def _filled(words: Iterable[str]) -> Iterator[str]:
    """Return words with a value for each that stands for another."""
    before = ""
    for word in words:
        if word not in {"…", "..."} or before.startswith("--"):
            yield SAMPLE if PLACEHOLDER.fullmatch(word) else word
        before = word


@cache
def tree() -> Any:
    """Return the whole command tree, with what each verb loads."""
    root: Any = typer.main.get_command(command_line.app)
    root.commands = {
        **root.commands,
        **{verb: command_line.load(verb) for verb in command_line.VERBS},
    }
    return root


def _fault_of_words(command: Any, path: str, words: list[str], *, whole: bool) -> str | None:
    """Return the error of parsing; words that stand for others get a value that fits."""
    if "--help" in words:
        return None
    for _ in range(3):
        try:
            command.make_context(path, list(words))
        except Exception as error:  # noqa: BLE001 - Typer carries its own Click
            told = getattr(error, "format_message", None)
            text = str(error) if told is None else str(told())
            choice = re.search(rf"'{SAMPLE}' is not one of '([^']+)'", text)
            if choice:
                words[words.index(SAMPLE)] = choice[1]
                continue
            lacks = re.search(r"Missing|requires an argument", text)
            return None if lacks and not whole else f"{path}: {text}"
        return None
    return None
