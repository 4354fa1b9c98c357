"""Types what a page types: writes its files, runs its commands, waits for what it shows."""

from __future__ import annotations

import multiprocessing
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleetledger import command_line
from tests.docs.following import follow
from tests.test_architecture import ROOT

CONSOLE = re.compile(r"^```console\n(?P<text>.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^\$ (?P<command>.+)\n(?P<shown>(?:(?!\$ ).*\n)*)", re.M)
VARYING = re.compile(r"[0-9a-f]{7,}|\d+(?:[.,]\d+)*")
"""Numbers and digests, which differ from run to run; all else is as the page has it."""
PATIENCE = 60.0
FORKING = multiprocessing.get_context("forkserver")
PRELOADED = (
    "fleetledger.coordinator.cli.coordinator",
    "fleetledger.coordinator.cli.models",
    "fleetledger.device_agent.cli.commands",
)
"""What takes most of a second to import, and nearly every command of a page needs."""


@dataclass(frozen=True)
class Command:
    """A line that somebody types, and what the page shows of the answer."""

    line: str
    shown: tuple[str, ...]

    @property
    def in_background(self) -> bool:
        """Whether the shell does not wait for it."""
        return self.line.endswith(" &")


def commands(page: Path) -> tuple[Command, ...]:
    """Return the commands of a page in their order."""
    text = page.read_text(encoding="utf-8")
    return tuple(
        Command(found["command"], tuple(line for line in found["shown"].splitlines() if line))
        for block in CONSOLE.finditer(text)
        for found in COMMAND.finditer(block["text"])
    )


def write_programs(folder: Path) -> None:
    """Put `fleetledger` and `python` of this checkout and environment into a folder for PATH."""
    folder.mkdir()
    for name, words in (("python", ""), ("fleetledger", "-m fleetledger ")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {words}"$@"\n')
        program.chmod(0o755)


@contextmanager
def session(folder: Path, page: Path, replaced: Mapping[str, str]) -> Iterator[Session]:
    """Write the files of a page into `folder` and give a session there; end what it started."""
    write_programs(folder / "bin")
    follow(page, folder)
    opened = Session(folder, replaced)
    try:
        yield opened
    finally:
        opened.end()


class Session:
    """A shell in a folder, in which some texts of the page are replaced, such as a port."""

    def __init__(self, folder: Path, replaced: Mapping[str, str]) -> None:
        self._folder = folder
        self._replaced = replaced
        self._started: list[subprocess.Popen[bytes]] = []

    def type(self, command: Command) -> str:
        """Run a command and return what it says; ask again until that is what the page shows."""
        if command.in_background:
            self._start(command.line.removesuffix(" &"))
            return ""
        if command.line.startswith("kill %"):
            self._end_jobs([int(word[1:]) for word in command.line.split()[1:]])
            return ""
        end = time.monotonic() + PATIENCE
        while True:
            done = self._run(command.line)
            missing = self._missing(command.shown, done.stdout)
            if done.returncode == 0 and not missing:
                return done.stdout
            asks = " status" in command.line or " doctor" in command.line or " list" in command.line
            if not asks or time.monotonic() > end:
                said = done.stdout + done.stderr
                raise AssertionError(f"{command.line}: exit {done.returncode}, {missing}: {said}")
            time.sleep(0.3)

    def _end_jobs(self, numbers: Sequence[int]) -> None:
        """End programs by their numbers, as the shell counts what runs in the background."""
        for number in numbers:
            process = self._started[number - 1]
            process.terminate()
            process.wait(timeout=PATIENCE)

    def end(self) -> None:
        """End what runs in the background, the last one first."""
        for process in reversed(self._started):
            process.terminate()
        for process in self._started:
            process.wait(timeout=PATIENCE)

    def _missing(self, shown: Sequence[str], said: str) -> list[str]:
        heard = {_plain(line) for line in said.splitlines()}
        return [line for line in shown if _plain(line) not in heard]

    def _start(self, line: str) -> None:
        self._started.append(
            subprocess.Popen(
                ["sh", "-c", f"exec {self._said(line)}"],
                cwd=self._folder,
                env=self._environment(),
                stdout=(self._folder / f"program-{len(self._started)}.log").open("wb"),
                stderr=subprocess.STDOUT,
            )
        )

    def _run(self, line: str) -> subprocess.CompletedProcess[str]:
        words = shlex.split(self._said(line))
        if words[0] == "fleetledger":
            return self._run_forked(words)
        return subprocess.run(
            ["sh", "-c", self._said(line)],
            cwd=self._folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=10 * PATIENCE,
        )

    def _run_forked(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """Run our own program in a process that is forked off one which has its modules."""
        FORKING.set_forkserver_preload(list(PRELOADED))
        said = [self._folder / "bin" / name for name in ("stdout", "stderr")]
        process = FORKING.Process(
            target=_carry_out, args=(words, self._folder, said, self._environment())
        )
        process.start()
        process.join(10 * PATIENCE)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(words, 10 * PATIENCE)
        output, errors = (path.read_text(encoding="utf-8") for path in said)
        return subprocess.CompletedProcess(words, process.exitcode, output, errors)

    def _said(self, line: str) -> str:
        for old, new in self._replaced.items():
            line = line.replace(old, new)
        return line

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join((str(self._folder / "bin"), os.environ["PATH"], "/usr/sbin"))
        own = {"PATH": path, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80"}
        return {**os.environ, **own, "FLEETLEDGER_CACHE": str(self._folder / "cache")}


def _carry_out(
    words: list[str], folder: Path, said: Sequence[Path], environment: Mapping[str, str]
) -> None:
    """Be the program, in a process of its own."""
    for number, path in enumerate(said, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    command_line.main()


def _plain(line: str) -> str:
    return " ".join(VARYING.sub("N", line).split())
