"""The list of attacks, which needs no torch."""

import json
import sys

import pytest

from fleetledger import command_line
from fleetledger.simulator.attack.table import ATTACKS


def call(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["fleetledger", "attack", "run", *arguments])
    with pytest.raises(SystemExit) as leaving:
        command_line.main()
    said = capsys.readouterr()
    return int(leaving.value.code or 0), said


def test_every_attack_is_listed_with_what_it_reads(monkeypatch, capsys):
    code, said = call(monkeypatch, capsys, "--list", "--json")
    assert code == 0
    lines = json.loads(said.out)["attacks"]
    assert [(line["name"], line["reads"]) for line in lines] == [
        (name, attack.reads) for name, attack in ATTACKS.items()
    ]
    assert {line["psnr"] for line in lines} == {None}


def test_an_unknown_attack_is_told_with_those_that_there_are(monkeypatch, capsys):
    code, said = call(monkeypatch, capsys, "guessing")
    assert code == 1
    assert "attack: 'guessing' is unknown; give one of guess, pooled," in said.err
