"""PyTorch modules in Cohort's jobs.

A module's parameters become views of one flat buffer, which parameters from servers, or a ring's
updates, change between two leases. A hook on every parameter counts down what is still missing of a
range of the gradient; a range that is complete leaves while backward goes on. A module on a GPU has
buffers of its own there, which are copied from and to the job's.
"""

from __future__ import annotations

import collections
import copy
import os
import zlib
from collections.abc import Callable, Collection
from typing import Any

import numpy
import torch

from cohort.job import SGD, AdamW, Job, JobError
from cohort.results import load_model
from cohort.torch_steps import Countdown, UnscaledLosses

__all__ = ["attach", "load"]

Evaluation = Callable[[torch.nn.Module, numpy.ndarray], tuple[Any, Any]]


def attach(net: torch.nn.Module, job: Job, optimizer: SGD | AdamW,
           evaluate: Evaluation | None = None, test_samples: int = 0) -> torch.nn.Module:
    """Gives the job a module to train, before its loop; the optimizer runs where the updates do.

    net: parameters and floating-point buffers in float32, all on the CPU or all on one GPU. Its
         initial values on rank 0 are everybody's. Buffers of whole numbers, and those that are not
         finite when this is called (masks of -inf), stay each rank's own, as frozen parameters do.
    evaluate: (module in eval mode, ids [n]) -> (mean loss, number of correct ones) of samples of the
              test set, under no_grad; None: nothing is evaluated
    test_samples: size of the test set
    PyTorch gets the job's threads: its share of the host's cores, or `threads` of join.
    Returns net. Errors: JobError for a module that cannot be trained, with what to do.
    """
    if (evaluate is None) != (test_samples == 0):
        raise JobError("[attach] evaluate and test_samples belong together; expected both or "
                       f"neither, got test_samples={test_samples}")
    torch.set_num_threads(job.threads)
    job.train(_Module(net, job, evaluate, test_samples), optimizer)
    return net


def load(net: torch.nn.Module, file: str | os.PathLike) -> torch.nn.Module:
    """Copies the tensors of a trained job's model.h5 into a module. Returns net.
    Errors: OSError when the file cannot be read, JobError when it is of another module."""
    tensors = load_model(file)
    own = {name: tensor for name, tensor in _tensors(net)
           if name in tensors or bool(tensor.isfinite().all())}
    if tensors.keys() != own.keys():
        raise JobError(f"[{file}] holds another module; only there: "
                       f"{sorted(tensors.keys() - own.keys())}, only here: "
                       f"{sorted(own.keys() - tensors.keys())}")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(torch.from_numpy(tensors[name]).view(tensor.shape))
    return net


def _trained(net: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name, parameter) for name, parameter in net.named_parameters()
            if parameter.requires_grad]


def _state(net: torch.nn.Module, own: Collection[str] = ()) -> list[tuple[str, torch.Tensor]]:
    """Buffers that travel. own: names of those that stay where they are"""
    return [(name, buffer) for name, buffer in net.named_buffers()
            if buffer.is_floating_point() and name not in own]


def _tensors(net: torch.nn.Module, own: Collection[str] = ()) -> list[tuple[str, torch.Tensor]]:
    return _trained(net) + _state(net, own)


def _layout(tensors: list[tuple[str, torch.Tensor]]) -> list[tuple[str, int, int]]:
    """Name, object and memory of each."""
    return [(name, id(tensor), tensor.data_ptr()) for name, tensor in tensors]


def _checksum(net: torch.nn.Module, sent: Collection[str]) -> int:
    """Of the values that do not travel, CRC-32."""
    crc = 0
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if name not in sent and not tensor.is_meta:
            values = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
            crc = zlib.crc32(values.numpy(), zlib.crc32(name.encode(), crc))
    return crc


def _array(tensor: torch.Tensor) -> numpy.ndarray:
    return tensor.detach().cpu().numpy()


def _has_own_memory(device: torch.device) -> bool:
    return device.type != "cpu"


class _HostMemory:
    """The flat parameters, gradient and state of a model, where a module on the CPU uses them."""

    def __init__(self, model: Any, announce: Callable[[int, int], None]) -> None:
        self.parameters = torch.from_numpy(model.parameters)
        self.gradient = torch.from_numpy(model.gradients)
        self.state = torch.from_numpy(model.state)
        self._announce = announce

    def load(self) -> None:
        """Before a step or an evaluation: the job's values are the module's."""

    def final(self, begin: int, end: int) -> None:
        """[begin, end) of the gradient is complete."""
        self._announce(begin, end)

    def finish(self) -> None:
        """The step is over: returns when everything has been announced."""


class _DeviceMemory:
    """The same for a module on a GPU: buffers there, and pinned ones on the way to the job's.

    A range of the gradient is copied on a stream of its own, behind what backward has queued so
    far, and announced when it is there: looked at with every later range, waited for at the end.
    The state, which backward does not change, goes before the first range: servers want it first.
    trains: else nothing but load() is called, and there is no gradient
    """

    def __init__(self, model: Any, announce: Callable[[int, int], None], device: torch.device,
                 trains: bool) -> None:
        self._host = _HostMemory(model, announce)
        self.parameters, self.state = [torch.zeros_like(flat, device=device)
                                       for flat in (self._host.parameters, self._host.state)]
        sent = self._host.gradient if trains else self._host.gradient[:0]
        self.gradient = torch.zeros_like(sent, device=device)
        self._pinned_gradient, self._pinned_state = [
            torch.empty_like(flat, pin_memory=device.type == "cuda" and trains)
            for flat in (sent, self._host.state)]
        self._backend = torch.get_device_module(device)
        self._device = device
        self._copying = self._backend.Stream(device)
        self._state_is_due = True
        self._under_way: collections.deque[tuple[int, int, Any]] = collections.deque()

    def load(self) -> None:
        self.parameters.copy_(self._host.parameters)
        self.state.copy_(self._host.state)
        self.gradient.zero_()
        self._state_is_due = True

    def final(self, begin: int, end: int) -> None:
        self._copying.wait_stream(self._backend.current_stream(self._device))
        with self._backend.stream(self._copying):
            if self._state_is_due and not self._under_way:
                self._pinned_state.copy_(self.state, non_blocking=True)
            self._pinned_gradient[begin:end].copy_(self.gradient[begin:end], non_blocking=True)
            there = self._backend.Event()
            there.record(self._copying)
        self._under_way.append((begin, end, there))
        while self._under_way and self._under_way[0][2].query():
            self._hand_over()

    def finish(self) -> None:
        while self._under_way:
            self._under_way[0][2].synchronize()
            self._hand_over()

    def _hand_over(self) -> None:
        begin, end, _ = self._under_way.popleft()
        if self._state_is_due:
            self._host.state.copy_(self._pinned_state)
            self._state_is_due = False
        self._host.gradient[begin:end].copy_(self._pinned_gradient[begin:end])
        self._host.final(begin, end)


class _Binding:
    """A module whose tensors are views of a model's flat memory."""

    def __init__(self, net: torch.nn.Module, model: Any, own_buffers: Collection[str],
                 announce: Callable[[int, int], None], trains: bool) -> None:
        self.net = net
        self.parameters = _trained(net)
        self.gradients = []
        self.state = _state(net, own_buffers)
        device = self.parameters[0][1].device
        self.memory = (_DeviceMemory(model, announce, device, trains)
                       if _has_own_memory(device) else _HostMemory(model, announce))
        self.begins = list(model.parameter_offsets)
        for (_, parameter), begin in zip(self.parameters, self.begins):
            end = begin + parameter.numel()
            parameter.data = self.memory.parameters[begin:end].view(parameter.shape)
            if trains:  # .data: each with a version counter of its own
                self.gradients.append(self.memory.gradient[begin:end].view(parameter.shape).data)
        for (_, buffer), begin in zip(self.state, model.state_offsets):
            buffer.data = self.memory.state[begin:begin + buffer.numel()].view(buffer.shape)

    def unbind(self) -> None:
        """The tensors keep the job's newest values."""
        self.memory.load()
        for _, tensor in self.parameters + self.state:
            tensor.data = tensor.data.clone()
        for _, parameter in self.parameters:
            parameter.grad = None


class _Module:
    """A module as the job sees it (cohort.job.Network)."""

    def __init__(self, net: torch.nn.Module, job: Job, evaluate: Evaluation | None,
                 test_samples: int) -> None:
        self._net = net
        self._job = job
        self._evaluate = evaluate
        self.test_samples = test_samples
        self._own_buffers = frozenset(name for name, buffer in _state(net)
                                      if not buffer.is_meta and not bool(buffer.isfinite().all()))
        trained, state = _trained(net), _state(net, self._own_buffers)
        if not trained:
            raise JobError("[attach] the module has no parameter that requires a gradient")
        for name, tensor in trained + state:
            if tensor.dtype != torch.float32 or tensor.device.type not in ("cpu", "cuda"):
                raise JobError(f"[{name}] cannot be trained here; expected float32 on the CPU or a "
                               f"GPU, got {tensor.dtype} on {tensor.device}; try net.float().cpu()")
            if tensor.device != trained[0][1].device:
                raise JobError(f"[{name}] is on {tensor.device}, {trained[0][0]} on "
                               f"{trained[0][1].device}; expected one device, try net.to(device)")
        self.parameters = [(name, _array(tensor)) for name, tensor in trained]
        self.state = [(name, _array(tensor)) for name, tensor in state]
        layout = repr([(name, tuple(tensor.shape)) for name, tensor in trained + state])
        self.name = f"{type(net).__name__}-{zlib.crc32(layout.encode()):08x}"
        self._layout = _layout(trained + state)
        self.fixed = f"{_checksum(net, {name for name, _ in trained + state}):08x}"
        self._bindings: dict[int, _Binding] = {}
        self._countdown: Countdown | None = None
        self._losses: UnscaledLosses | None = None

    def begin(self, model: Any) -> None:
        self._check_layout()
        if self._countdown is None:
            self._countdown = Countdown(self._bind(model))
            self._losses = UnscaledLosses()
        self._countdown.begin()

    def end(self, loss: float) -> None:
        self._countdown.end(loss)

    def evaluate(self, model: Any, ids: numpy.ndarray) -> tuple[float, float]:
        binding = self._bind(model)
        binding.memory.load()
        were_training = [(module, module.training) for module in binding.net.modules()]
        binding.net.eval()
        try:
            with torch.no_grad():
                loss, correct = self._evaluate(binding.net, ids)
        finally:
            for module, training in were_training:
                module.training = training
        return float(loss) * len(ids), float(correct)

    def detach(self) -> None:
        if self._countdown is not None:
            self._countdown.remove()
            self._losses.remove()
        for binding in self._bindings.values():
            if binding.net is self._net:
                binding.unbind()
        self._bindings.clear()

    def trained(self, tensors: list[numpy.ndarray]) -> None:
        own = dict(_tensors(self._net, self._own_buffers))
        for (name, _), values in zip(self.parameters + self.state, tensors, strict=True):
            if name not in own:
                raise JobError(f"[{name}] is not in the module any more; expected the parameters and "
                               "buffers that it had when it was attached")
            own[name].data.copy_(torch.from_numpy(values).view(own[name].shape))

    def _bind(self, model: Any) -> _Binding:
        """A worker's model is the module itself; what rank 0 evaluates beside it, a copy."""
        if model.number not in self._bindings:
            own = self._job.is_worker and model.number == 0
            self._bindings[model.number] = _Binding(
                self._net if own else copy.deepcopy(self._net), model, self._own_buffers,
                lambda begin, end: self._job.core.announce(begin, end), trains=own)
            if own:
                self._layout = _layout(_tensors(self._net, self._own_buffers))
        return self._bindings[model.number]

    def _check_layout(self) -> None:
        now = _layout(_tensors(self._net, self._own_buffers))
        if now != self._layout:
            changed = sorted({name for name, *_ in set(now) ^ set(self._layout)})
            raise JobError(f"[{', '.join(changed[:5])}] the module has other parameters or buffers "
                           "than when it was attached, or other memory for them; change it (to(), "
                           "requires_grad, .data) before cohort.torch.attach")
