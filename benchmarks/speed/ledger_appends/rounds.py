"""Measure what a round's accepted answers cost in the ledger, one by one and as runs.

The same entries on three sides, in rotating order, each on a fresh ledger:

    alone    a draft for each answer, a row for each entry
    found    the same drafts, among which the engine finds runs (`in_runs`)
    given    runs that whoever decided the answers has made

Of light agents answers differ in device and payload; of real fleets in loss, seconds, samples and
installation, too. Payloads are not kept, as of rounds. Seconds are of the processor, on one thread.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.entries import EntryDraft, settled
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.run_finding import in_runs
from fleetledger.coordinator.ledger.runs import EntryRun
from fleetledger.coordinator.ledger.store import Ledger
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.topics.contributions.entries import ContributionAccepted
from fleetledger.schemas.contributions import Part, PartKey
from fleetledger.schemas.rounds import RoundAnswer
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest

RESULTS = RESULTS_FOLDER / "ledger_rounds.json"
SIDES = ("alone", "found", "given")
FLEETS = ("light", "real")
_BYTES = 40_123
_LINEAGE = Digest.of(b"lineage")
Group = Sequence[EntryDraft | EntryRun]


def answers(number: int, count: int, fleet: str) -> list[EntryDraft]:
    """Return the drafts of a round's answers."""
    chance = random.Random(number)
    devices = [DeviceId(f"device-{place:05}") for place in range(count)]
    if fleet == "real":
        chance.shuffle(devices)
    found = []
    for device in devices:
        real = fleet == "real"
        answer = RoundAnswer(
            number=number,
            samples=chance.randint(1, 200) if real else 1,
            steps=1,
            loss=chance.random() if real else None,
            seconds=round(9 * chance.random(), 3) if real else 1.0,
        )
        body = ContributionAccepted(
            part=Part(
                key=PartKey(stage=1, part=number),
                revision=0,
                payload_kind="weights",
                payload=Digest.of(f"{number} {device}".encode()),
                payload_bytes=_BYTES,
                samples={ClassName("even"): answer.samples},
                method="echo",
                lineage=_LINEAGE,
                round=answer,
            ),
            installation=BootId(Digest.of(device.encode())[:16]) if real else None,
        )
        told = body.model_dump(mode="json")
        made = EntryDraft(body.kind, device, told, device, body.blobs, number, plain=True)
        found.append(settled(made))
    return found


def measured(folder: Path, side: str, rounds: Sequence[list[EntryDraft]]) -> dict[str, float]:
    """Return bytes stored of an entry, and microseconds of each thing done with it."""
    entries = sum(map(len, rounds))
    given: list[Group] = [in_runs(one) if side == "given" else one for one in rounds]
    path, seconds = folder / side / "ledger.db", dict[str, float]()
    with Ledger.open(path) as ledger:
        began = time.thread_time()
        for group, drafts in zip(given, rounds, strict=True):
            sizes = {draft.blobs[0]: _BYTES for draft in drafts}
            ledger.append(in_runs(drafts) if side == "found" else group, None, sizes)
        seconds["append"] = time.thread_time() - began
    with LedgerReader.open_read_only(path) as reader:
        began = time.thread_time()
        assert sum(1 for _ in reader.entries()) == entries
        seconds["read"] = time.thread_time() - began
        began = time.thread_time()
        report = verify(reader, Blobs(reader, BlobStore(folder / "blobs")))
        assert report.ok, report
        seconds["verify"] = time.thread_time() - began
        began = time.thread_time()
        name = str(rounds[0][0].device)
        assert len(reader.newest(5, devices=[name])) == min(5, len(rounds))
        milliseconds = round(1e3 * (time.thread_time() - began), 3)
    found = {f"{what}_us": round(1e6 * one / entries, 2) for what, one in seconds.items()}
    size = round(path.stat().st_size / entries, 1)
    return {"bytes": size, **found, "newest_five_of_a_device_ms": milliseconds}


def compared(fleet: str, count: int, rounds: int, repeats: int) -> dict[str, dict[str, float]]:
    """Return the best figures of each side over the repeats."""
    groups = [answers(number, count, fleet) for number in range(1, rounds + 1)]
    best = dict[str, dict[str, float]]()
    for repeat in range(repeats):
        for side in SIDES[repeat % 3 :] + SIDES[: repeat % 3]:
            with tempfile.TemporaryDirectory() as name:
                figures = measured(Path(name), side, groups)
            known = best.setdefault(side, figures)
            best[side] = {what: min(known[what], one) for what, one in figures.items()}
    return {side: best[side] for side in SIDES}


def main() -> None:
    """Compare the sides, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, nargs="+", default=[10_000, 1_000, 16])
    parser.add_argument("--entries", type=int, default=4_000, help="entries of each ledger")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    results = {
        "command": "python -m benchmarks.speed.ledger_appends.rounds",
        "machine": describe_machine(),
        "answers_of_a_round": {
            str(count): {
                fleet: compared(fleet, count, -(-arguments.entries // count), arguments.repeats)
                for fleet in FLEETS
            }
            for count in arguments.answers
        },
    }
    text = json.dumps(results, indent=2)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
