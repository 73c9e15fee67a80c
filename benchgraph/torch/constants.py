"""Weights that count as constant, and detection of their changes.

What the library computes from weights (packed panels, folded scales) is kept until one of them is another tensor, has another address, or
was written: PyTorch counts writes in a tensor's version. An epoch is the time between such changes. Writing through `.data`, `.numpy()` or
a pointer is not counted: `weights_changed()` begins a new epoch for every program.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchgraph.library.compiled_partition import CompiledPartition
from benchgraph.torch.draft import Key
from benchgraph.torch.steps import Env, PartitionStep, States, StepState

_explicit_changes = 0  # calls of weights_changed


def weights_changed() -> None:
    """Declare that weights were written in a way that PyTorch does not count: what was computed from them is computed again."""
    global _explicit_changes
    _explicit_changes += 1


class NotConstant(Exception):
    """Weights without a version: tensors made in inference mode. keys: of the graph's inputs."""

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__(f"{len(keys)} inference tensors")
        self.keys = tuple(keys)


@dataclass(frozen=True)
class _WeightState:
    tensor: weakref.ref[torch.Tensor]
    address: int
    version: int

    def fits(self, now: Any) -> bool:
        seen: Any = self.tensor()
        return now is seen and now._version == self.version and now.data_ptr() == self.address


class WeightEpoch:
    """The time during which the weights do not change. states: each partition step with these weights. Immutable; a change makes the
    next."""

    def __init__(
        self,
        watched: Mapping[Key, _WeightState | None],
        explicit_changes: int,
        states: States,
        fresh: Mapping[PartitionStep, CompiledPartition],
    ) -> None:
        self._watched, self._explicit_changes, self.states, self._fresh = watched, explicit_changes, states, fresh

    @classmethod
    def first(cls, constant: Sequence[Key], fresh: Mapping[PartitionStep, CompiledPartition]) -> WeightEpoch:
        """Before any weights are known. fresh: the steps, with partitions that have not run yet."""
        return cls(dict.fromkeys(constant), -1, {}, fresh)

    def fits(self, env: Env) -> bool:
        return self._explicit_changes == _explicit_changes and all(
            seen is not None and seen.fits(env[key]) for key, seen in self._watched.items()
        )

    def after(self, env: Env) -> WeightEpoch:
        """The epoch of these weights. Raises NotConstant.

        Steps that read no changed weights stay; others get a new compiled partition, since each keeps its computed constants.
        """
        unversioned = [key for key in self._watched if env[key].is_inference()]
        if unversioned:
            raise NotConstant(unversioned)
        explicit_changes = _explicit_changes
        # In this order: a weight that another thread writes in between counts as changed now, and once more next time.
        watched = {k: _WeightState(weakref.ref(env[k]), env[k].data_ptr(), env[k]._version) for k in self._watched}
        changed = {
            k for k, seen in self._watched.items() if explicit_changes != self._explicit_changes or seen is None or not seen.fits(env[k])
        }
        states = {step: _state(step, compiled, env) for step, compiled in self._fresh.items()}
        for step, known in self.states.items():
            states[step] = _state(step, step.compile(), env) if changed & set(step.constants) else known
        return WeightEpoch(watched, explicit_changes, states, {})


def _state(step: PartitionStep, compiled: CompiledPartition, env: Env) -> StepState:
    constants = {i: step.tensor(i, env) for i, p in enumerate(step.ports) if p.is_constant}
    for t in constants.values():
        t.renew()
    return StepState(step, compiled, constants)
