#!/usr/bin/env python3
"""What PyTorch does on the same GPU, one JSON object per line.

    peer.py step PROGRAM ARGUMENT...   runs a training benchmark that prints JSON lines (a Python file
                                       that takes --model, --batch, --device, ...) and adds the largest
                                       memory that PyTorch held: peer_memory_bytes
    peer.py peak                       rate of a bf16 and an f32 matrix product and of a copy, which is
                                       what shares of the peak refer to
"""

import contextlib
import io
import json
import runpy
import statistics
import sys
import time

import torch


def seconds(work, times=10):
    """Median of a few, the device idle before and after each."""
    found = []
    for _ in range(times + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return statistics.median(found[3:])


def peak():
    line = {"bench": "peak", "device": torch.cuda.get_device_name()}
    size = 8192
    for name, kind, exact in (("bf16", torch.bfloat16, False), ("f16", torch.float16, False),
                              ("tf32", torch.float32, False), ("f32", torch.float32, True)):
        torch.backends.cuda.matmul.allow_tf32 = not exact
        a = torch.randn(size, size, device="cuda", dtype=kind)
        b = torch.randn(size, size, device="cuda", dtype=kind)
        line[name + "_tflops"] = round(2e-12 * size**3 / seconds(lambda: torch.mm(a, b)), 1)
    source = torch.randn(1 << 28, device="cuda")
    target = torch.empty_like(source)
    line["copy_gb_per_second"] = round(2e-9 * 4 * source.numel() /
                                       seconds(lambda: target.copy_(source)), 1)
    print(json.dumps(line))


def step(program, arguments):
    sys.argv = [program, *arguments]
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        runpy.run_path(program, run_name="__main__")
    for line in text.getvalue().splitlines():
        record = json.loads(line)
        record["bench"] = "peer"
        record["peer_memory_bytes"] = torch.cuda.max_memory_reserved()
        print(json.dumps(record))


def main():
    if len(sys.argv) >= 3 and sys.argv[1] == "step":
        step(sys.argv[2], sys.argv[3:])
    elif sys.argv[1:] == ["peak"]:
        peak()
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
