"""Steps of a PyTorch module in a job: which gradients are complete, and that nothing but backward makes
them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from cohort.job import JobError

# Floats of a range that is announced as a whole: each costs the backward pass two changes of threads.
_RANGE = 1 << 18

# Values of a tensor that are compared to see whether it was changed behind its version counter, as
# `.data` allows.
_SAMPLE = 4


class _Sample:
    """Some values of every tensor in a range of flat memory, to compare them later."""

    def __init__(self, flat: torch.Tensor, tensors: list[tuple[int, int]]) -> None:
        """tensors: where they begin, and their sizes"""
        places = {begin + size * i // _SAMPLE for begin, size in tensors for i in range(_SAMPLE)
                  if size > 0}
        self._flat = flat
        self._places = torch.tensor(sorted(places), device=flat.device)
        self._kept: torch.Tensor | None = None

    def _bits(self) -> torch.Tensor:
        return self._flat.index_select(0, self._places).view(torch.int32)

    def keep(self) -> None:
        self._kept = self._bits()

    def forget(self) -> None:
        self._kept = None

    def changed(self) -> bool:
        """Whether a value has changed since keep()."""
        return self._kept is not None and not torch.equal(self._kept, self._bits())


class Countdown:
    """Counts the gradients of a step that are still missing, by range, and tells the memory which
    ranges have them all. Neither they nor the parameters may be changed by the program: the former
    have left, and the latter are changed by the job. binding: a module's tensors in flat memory"""

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        self.ranges: list[tuple[int, int]] = []
        self.range_of: list[int] = []
        self.members: list[int] = []
        total = len(binding.memory.parameters)
        begins = binding.begins + [total]
        tensors = [(begin, parameter.numel())
                   for begin, (_, parameter) in zip(binding.begins, binding.parameters)]
        self.samples: list[_Sample] = []  # of gradients, by range
        first = 0
        for i in range(len(binding.begins)):
            self.range_of.append(len(self.ranges))
            if begins[i + 1] - begins[first] >= _RANGE or i + 1 == len(binding.begins):
                self.ranges.append((begins[first], begins[i + 1]))
                self.members.append(i + 1 - first)
                self.samples.append(_Sample(binding.memory.gradient, tensors[first:i + 1]))
                first = i + 1
        self.parameters = _Sample(binding.memory.parameters, tensors)
        self.missing: list[int] = []
        self.seen: list[bool] = []
        self.versions: list[int] = []  # of gradients, by parameter, when they left
        self.parameter_versions: list[int] = []
        self.hooks = [parameter.register_post_accumulate_grad_hook(self._hook(i))
                      for i, (_, parameter) in enumerate(binding.parameters)]

    def _hook(self, index: int) -> Callable[[torch.Tensor], None]:
        return lambda parameter: self.gradient(index, parameter)

    def begin(self) -> None:
        self._check_parameters()
        self.binding.memory.load()
        self.parameters.keep()
        self.parameter_versions = [parameter._version for _, parameter in self.binding.parameters]
        self.missing = list(self.members)
        self.seen = [False] * len(self.range_of)
        self.versions = [gradient._version for gradient in self.binding.gradients]
        for sample in self.samples:
            sample.forget()
        for (_, parameter), gradient in zip(self.binding.parameters, self.binding.gradients):
            parameter.grad = gradient

    def gradient(self, index: int, parameter: torch.Tensor) -> None:
        name = self.binding.parameters[index][0]
        if not self.seen:
            raise JobError(f"[{name}] got a gradient outside a lease; call backward in the loop's "
                           "body, before lease.done")
        if self.seen[index]:
            raise JobError(f"[{name}] got a gradient twice in a lease; call backward once, on the "
                           "sum of the losses, and use a smaller batch in place of accumulation")
        self.seen[index] = True
        place = self.binding.gradients[index]
        if parameter.grad.data_ptr() != place.data_ptr():  # zero_grad() has put it elsewhere
            place.copy_(parameter.grad)
            parameter.grad = place
        self.versions[index] = place._version
        number = self.range_of[index]
        self.missing[number] -= 1
        if self.missing[number] == 0:
            self.samples[number].keep()
            self.binding.memory.final(*self.ranges[number])

    def end(self, loss: float) -> None:
        """Parameters without a gradient have one of zeros."""
        if not any(self.seen) and math.isfinite(loss):
            raise JobError("[lease.done] no parameter has got a gradient; call loss.backward() "
                           "before it")
        self._check_parameters()
        self._check_gradients()
        for number in range(len(self.ranges) - 1, -1, -1):
            if self.missing[number] > 0:
                self.binding.memory.final(*self.ranges[number])
        self.binding.memory.finish()
        self.parameters.forget()  # the job may change them now, as nothing else may
        self.seen = []

    def _check_parameters(self) -> None:
        """What the program has done to parameters since the step began."""
        changed = [name for (name, parameter), version
                   in zip(self.binding.parameters, self.parameter_versions)
                   if parameter._version != version]
        if changed or self.parameters.changed():
            raise JobError(
                f"[{', '.join(changed[:5]) or 'parameters'}] the program has changed the values of "
                "parameters in the job's loop, which the servers or the members of the ring do; leave "
                "out optimizer.step() and what else writes into parameters: cohort.SGD and "
                "cohort.AdamW, handed to cohort.torch.attach, are the optimizer, lr_schedule of "
                "cohort.join is the scheduler")

    def _check_gradients(self) -> None:
        """What the program has done to gradients that have left."""
        changed = [name for (name, parameter), gradient, version, seen
                   in zip(self.binding.parameters, self.binding.gradients, self.versions, self.seen)
                   if _was_changed(parameter.grad, gradient, version, seen)]
        if changed or any(sample.changed() for sample in self.samples):
            raise JobError(
                f"[{', '.join(changed[:5]) or 'gradients'}] the program has changed gradients between "
                "backward and lease.done, when they had left; expected them as backward has made them. "
                "In place of clip_grad_norm_ take clip_norm=... of cohort.join, in place of zero_grad "
                "nothing, in place of GradScaler torch.autocast in bfloat16; a hook "
                "(parameter.register_hook) may change a gradient within backward")

    def remove(self) -> None:
        for hook in self.hooks:
            hook.remove()


def _was_changed(now: torch.Tensor | None, gradient: torch.Tensor, version: int, seen: bool) -> bool:
    """Whether the program has changed the gradient of a parameter since it was complete, or has made
    one where backward made none. version: its own then, seen: backward has made it"""
    if seen:
        return now is None or now.data_ptr() != gradient.data_ptr() or gradient._version != version
    return now is not None and bool(now.any())


class UnscaledLosses:
    """Refuses GradScaler while it is there: the factor would be in the gradients that leave."""

    def __init__(self) -> None:
        scaler = torch.amp.GradScaler
        self._scale = scale = scaler.scale

        def unscaled(self: torch.amp.GradScaler, outputs: Any) -> Any:
            if self.is_enabled():
                raise JobError(
                    "[GradScaler] the gradients of a scaled loss would leave with its factor; call "
                    "backward on the loss itself, with torch.autocast in bfloat16, which needs no "
                    "scaling, or GradScaler(enabled=False)")
            return scale(self, outputs)
        scaler.scale = unscaled

    def remove(self) -> None:
        torch.amp.GradScaler.scale = self._scale
