"""Work moved to a device: every tensor of it, and what agents share stays shared there."""

from dataclasses import replace

import pytest
import torch

from fleetledger.learning.training.devices import moved, moved_together
from fleetledger.learning.training.stacking import stack_trees
from tests.learning.training.agents import make_works

pytestmark = pytest.mark.torch

ELSEWHERE = "meta"
"""A device that holds shapes alone and is always there."""


def works():
    shared = torch.ones(3)
    return [
        replace(work, frozen={"teacher": {"shared": shared}, "own": torch.ones(2)})
        for work in make_works((5, 9))
    ]


def tensors(work):
    teacher = work.frozen["teacher"]
    parts = (work.parameters, work.buffers, work.data.extras, teacher)
    single = [work.data.inputs, work.data.targets, work.frozen["own"]]
    return single + [tensor for part in parts for tensor in part.values()]


def test_every_tensor_moves_and_the_work_stays():
    work = works()[0]
    assert {tensor.device.type for tensor in tensors(moved(work, ELSEWHERE))} == {ELSEWHERE}
    assert {tensor.device.type for tensor in tensors(work)} == {"cpu"}


def test_what_is_there_is_not_copied():
    work = works()[0]
    assert all(
        one is two for one, two in zip(tensors(moved(work, "cpu")), tensors(work), strict=True)
    )


def test_what_agents_share_is_moved_once_and_shared_there():
    frozen = stack_trees([work.frozen for work in moved_together(works(), ELSEWHERE)])
    assert frozen["teacher"]["shared"].tensor.shape == (3,)
    assert frozen["own"].tensor.shape == (2, 2)
