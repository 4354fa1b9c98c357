"""Messages and files for the agent's tests, with as few words as possible."""

from pathlib import Path
from typing import Any

from fleetledger.device_agent.core.inputs import MadeGradients
from fleetledger.device_agent.home.status_file import Status
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.contributions import HeldPart, PartKey
from fleetledger.schemas.models import DesiredModel, Preprocessing
from fleetledger.schemas.offers import Offer
from fleetledger.schemas.presence import Capabilities, CoordinatorBirth, Welcome
from fleetledger.schemas.receipts import Accepted, Later, Receipt, Refused
from fleetledger.schemas.rounds import Observation, RoundOrder
from fleetledger.schemas.values import BootId, ClassName, Digest

COORDINATOR = BootId("c" * 16)
LATER_COORDINATOR = BootId("d" * 16)
GREY_8 = Preprocessing(mode="L", size=(8, 8), mean=(0.0,), deviation=(1.0,), input_name="input")
CAPABILITIES = Capabilities(
    agent_version="0", python="3", machine="test", features=frozenset({"numpy"}), memory_mib=1
)


def told_texts(status: Status) -> list[str]:
    """Return what a status says is wrong, or was."""
    return [problem.text for problem in (*status.problems, *status.past)]


def digest(text: str) -> Digest:
    return Digest.of(text.encode())


def offer(text: str) -> Offer:
    return Offer(digest=digest(text), size=len(text), list_digest=digest(f"list of {text}"))


def part_key(stage: int = 1, part: int = 0) -> PartKey:
    return PartKey(stage=stage, part=part)


def assignment(
    *names: str,
    action: int = 1,
    stage: int = 1,
    frozen: str = "frozen",
    per_part: int = 100,
    least: int = 1,
) -> Assignment:
    return Assignment(
        action=action,
        stage=stage,
        method="stsa",
        settings={},
        lineage=digest(frozen),
        frozen=offer(frozen),
        preprocessing=GREY_8,
        class_names=tuple(ClassName(name) for name in names),
        stage_class_names=(),
        max_samples_per_part=per_part,
        min_samples_per_class=least,
    )


def round_order(number: int = 1, *names: str, **details: Any) -> RoundOrder:
    values: dict[str, Any] = {
        "number": number,
        "round_of_stage": 1,
        "rounds_of_stage": 3,
        "weights": offer(f"weights {number}"),
        "class_names": tuple(ClassName(name) for name in names or ("cat", "dog")),
        "seed": 1,
        "deadline_seconds": 100.0,
    }
    return RoundOrder.model_validate(values | details)


def observation(**seen: Any) -> Observation:
    return Observation.model_validate({"entropy": 0.5, "images": 2, "transition": False} | seen)


def gradients(text: str = "gradients", *, offered: bool = False) -> MadeGradients:
    """Gradients as the worker has made them."""
    return MadeGradients(
        payload=digest(text),
        payload_bytes=len(text),
        attached=None if offered else text.encode(),
        offer=offer(text) if offered else None,
    )


def training(order: RoundOrder | None, action: int = 1, stage: int = 1) -> Assignment:
    """An assignment of a method that trains, with an order or without."""
    return Assignment(
        action=action,
        stage=stage,
        method="rounds",
        settings={},
        lineage=digest("first weights"),
        preprocessing=GREY_8,
        class_names=(ClassName("cat"), ClassName("dog")),
        stage_class_names=(ClassName("cat"), ClassName("dog")),
        max_samples_per_part=1000,
        round=order,
    )


def desired(action: int, version: int = 1, *files: str, **details: Any) -> DesiredModel:
    return DesiredModel(
        **details,
        action=action,
        version=version,
        manifest=offer(f"manifest {version}"),
        files=tuple(offer(name) for name in files) or (offer("frozen"), offer(f"head {version}")),
    )


def held(part: int, revision: int, payload: str, stage: int = 1) -> HeldPart:
    return HeldPart(key=part_key(stage, part), revision=revision, payload=digest(payload))


def welcome(boot: BootId, *parts: HeldPart, next_part: int = 0, more: bool = False) -> Welcome:
    return Welcome(boot=boot, held=parts, next_part=next_part, more=more)


def born(ledger_size: int = 1000) -> CoordinatorBirth:
    return CoordinatorBirth(ledger_size=ledger_size)


def accepted(about: str, key: PartKey, revision: int = 0) -> Receipt:
    return Receipt(about=about, key=key, revision=revision, answer=Accepted(ledger_index=7))


def refused(about: str, key: PartKey, revision: int = 0, reason: str = "no") -> Receipt:
    return Receipt(about=about, key=key, revision=revision, answer=Refused(reason=reason))


def later(about: str, key: PartKey, seconds: float, revision: int = 0) -> Receipt:
    return Receipt(about=about, key=key, revision=revision, answer=Later(after_seconds=seconds))


def write_files(folder: Path, **contents: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
