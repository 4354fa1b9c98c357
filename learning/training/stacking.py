"""Tensors of several agents as one: what differs gains an axis of agents, what is shared stays."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fleetledger.learning.networks.torch_layers import Tensors
from fleetledger.learning.training.work import Tree, Work


@dataclass(frozen=True, eq=False)
class Leaf:
    """A tensor of all agents of a stack: with an axis of agents, or one that all share."""

    tensor: Tensor
    own: bool

    def first(self, agents: int) -> Tensor:
        """Return what the first agents of the stack see."""
        return self.tensor[:agents] if self.own else self.tensor

    def of(self, agent: int) -> Tensor:
        """Return what one of them has."""
        return self.tensor[agent] if self.own else self.tensor


def stack_tensors(states: Sequence[Tensors]) -> dict[str, Tensor]:
    """Return new tensors (A, ...) of the agents' tensors of the same name."""
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}


def stack_leaves(states: Sequence[Tensors]) -> dict[str, Leaf]:
    """Return the agents' tensors of the same name; the same object of all stays shared."""
    return {name: _leaf([state[name] for state in states]) for name in states[0]}


def stack_trees(trees: Sequence[Tree]) -> dict[str, Any]:
    """Return one tree of leaves; where all agents give the same object, it is shared."""
    return {name: _stack([tree[name] for tree in trees]) for name in trees[0]}


def first_of(tree: Mapping[str, Any], agents: int) -> dict[str, Any]:
    """Return the tree of tensors that the first agents of a stack see."""
    return {
        name: leaf.first(agents) if isinstance(leaf, Leaf) else first_of(leaf, agents)
        for name, leaf in tree.items()
    }


def alone_because(work: Work) -> str | None:
    """Return why a work cannot share a stack, whatever the others are; None where it can."""
    if not work.loss.stackable:
        return "this network, or the method's own loss, is not for stacks of agents"
    if work.scenes is not None:
        return "scenes are cut for one agent at a time, not for stacks of agents"
    if work.batching.parts > 1:
        return "batches in parts are for one agent at a time, not for stacks of agents"
    if work.local_epoch is not None:
        return "this method carries out its local epochs itself, one agent at a time"
    return None


def signature(work: Work) -> Hashable:
    """Return a value that is equal for works which can share a stack."""
    data = work.data
    return (
        work.loss,
        work.optimiser,
        work.batching,
        work.pictures,
        work.scenes,
        work.norms_frozen,
        work.prepare is None,
        tuple(_described(tree) for tree in (work.parameters, work.buffers, work.frozen)),
        tuple((name, rows.shape[1:], rows.dtype) for name, rows in data.tensors.items()),
    )


def tree_bytes(tree: Tree) -> int:
    """Return the memory of all tensors of a tree."""
    return sum(
        tree_bytes(leaf) if isinstance(leaf, Mapping) else leaf.numel() * leaf.element_size()
        for leaf in tree.values()
    )


def own_bytes(trees: Sequence[Tree]) -> int:
    """Return the memory of the first tree's tensors, without those that all trees share."""
    total = 0
    for name, leaf in trees[0].items():
        leaves = [tree[name] for tree in trees]
        if isinstance(leaf, Mapping):
            total += own_bytes(leaves)
        elif any(other is not leaf for other in leaves):
            total += tree_bytes({name: leaf})
    return total


def _stack(leaves: Sequence[Any]) -> Leaf | dict[str, Any]:
    if isinstance(leaves[0], Mapping):
        return stack_trees(leaves)
    return _leaf(leaves)


def _leaf(leaves: Sequence[Tensor]) -> Leaf:
    if all(leaf is leaves[0] for leaf in leaves):
        return Leaf(leaves[0], own=False)
    return Leaf(torch.stack(list(leaves)), own=True)


def _described(tree: Tree) -> Hashable:
    return tuple(
        (name, _described(leaf) if isinstance(leaf, Mapping) else (leaf.shape, leaf.dtype))
        for name, leaf in sorted(tree.items())
    )
