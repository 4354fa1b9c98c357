"""The models that a training looks at, as tensors: the one that was sent, and the old one.

Which file is the old model: on a transition the one that the fleet had before it registered the
newest classes, which is what a device receives in the round that registers them and what the
coordinator serves as `old-model` afterwards, to devices that notice late or join. Until its next
transition a device stays with it, also when the coordinator serves a newer one.

Devices of one process that were sent the same get the same tensors. Nobody changes these tensors.
"""

from __future__ import annotations

from dataclasses import replace

from fleetledger.methods.fbl.assignment import OLD_MODEL, FblAssignment
from fleetledger.methods.fbl.growth import first_rows
from fleetledger.methods.fbl.memory import Memory
from fleetledger.methods.fbl.messages import received, registers_classes
from fleetledger.methods.training.exchange import FitInstruction
from fleetledger.methods.training.instruction_models import InstructionModels, Model
from fleetledger.schemas.values import Digest

_MODELS = InstructionModels[FblAssignment](received, first_rows)


def sent_model(
    assignment: FblAssignment, instruction: FitInstruction, device: str = "cpu"
) -> Model:
    """Return what training begins with; raise `MethodError` for a file that is none."""
    return _MODELS.sent(assignment, instruction, device)


def model_before(instruction: FitInstruction) -> bytes | None:
    """Return the file of the last model before the newest classes were registered, if any."""
    round_ = instruction.round
    if registers_classes(round_.weights_class_names, round_.class_names):
        return instruction.weights if round_.weights_class_names else None
    return instruction.extras.get(OLD_MODEL)


def with_old_model(memory: Memory, instruction: FitInstruction, *, transition: bool) -> Memory:
    """Return the memory with its old model: kept as it is, or after a transition the present one.

    A device that was away when the coordinator last served its own, and did not keep it, takes the
    present one too.
    """
    file = _own(memory, instruction)
    if transition or (file is None and memory.old is not None):
        file = model_before(instruction)
    if file is None:
        return replace(memory, old=None, kept=None)
    kept = None if _stays_served(instruction, file) else file
    return replace(memory, old=Digest.of(file), kept=kept)


def old_model(
    assignment: FblAssignment, instruction: FitInstruction, memory: Memory, device: str = "cpu"
) -> Model | None:
    """Return the old model, or None where there is none; raise `MethodError`."""
    file = _own(memory, instruction) if assignment.settings.needs_old_model else None
    if file is None:
        return None
    model = _MODELS.earlier(assignment, instruction, file, device)
    return model if model.names else None


def _own(memory: Memory, instruction: FitInstruction) -> bytes | None:
    """Return the file of the device's old model, of its own or as it is served."""
    served = instruction.extras.get(OLD_MODEL)
    if memory.kept is not None:
        return memory.kept
    if memory.old is None or served is None or Digest.of(served) != memory.old:
        return None
    return served


def _stays_served(instruction: FitInstruction, file: bytes) -> bool:
    """Return whether the coordinator serves the file in this round, and in the next one too."""
    round_ = instruction.round
    replaced = registers_classes(round_.weights_class_names, round_.class_names)
    return not replaced and instruction.extras.get(OLD_MODEL) == file
