"""The models that a training looks at, as tensors: the one that was sent, and the old one.

Devices of one process that were sent the same get the same tensors, so that a stack of them holds
what none of them trains once. Nobody changes these tensors.
"""

from __future__ import annotations

from fleetledger.methods.lga.assignment import NEW_MODEL, OLD_MODEL, LgaAssignment
from fleetledger.methods.lga.holdings import stages_of
from fleetledger.methods.lga.memory import Memory
from fleetledger.methods.lga.messages import received
from fleetledger.methods.training.exchange import FitInstruction
from fleetledger.methods.training.instruction_models import InstructionModels, Model
from fleetledger.methods.training.network_weights import first_rows

_MODELS = InstructionModels[LgaAssignment](received, first_rows)


def sent_model(
    assignment: LgaAssignment, instruction: FitInstruction, device: str = "cpu"
) -> Model:
    """Return what training begins with; raise `MethodError` for a file that is none."""
    return _MODELS.sent(assignment, instruction, device)


def old_model(
    assignment: LgaAssignment, instruction: FitInstruction, memory: Memory, device: str = "cpu"
) -> Model | None:
    """Return the old model, or None where there is none; raise `MethodError`.

    A device that enters a task takes `new-model`, the best of the task that the fleet comes from,
    and any other device `old-model`. One that enters late finds in `new-model` the task that it
    enters, with rows for its classes: then it takes `old-model` like the others.
    """
    if not assignment.settings.needs_old_model:
        return None
    if memory.gradients.entered and NEW_MODEL in instruction.extras:
        model = _named(assignment, instruction, NEW_MODEL, device)
        stages = stages_of(instruction)
        if model.names and all(stages[name] < instruction.stage for name in model.names):
            return model
    if OLD_MODEL not in instruction.extras:
        return None
    model = _named(assignment, instruction, OLD_MODEL, device)
    return model if model.names else None


def _named(
    assignment: LgaAssignment, instruction: FitInstruction, extra: str, device: str
) -> Model:
    return _MODELS.earlier(assignment, instruction, instruction.extras[extra], device)
