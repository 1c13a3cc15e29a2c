#!/usr/bin/env python3
"""What PyTorch does on the same GPU, one JSON object per line.

    peer.py step PROGRAM --precision bf16 ARGUMENT...
             runs a training benchmark that prints JSON lines (a Python file that takes --model,
             --batch, --device, --bf16, --compile, ...) in that precision: tf32 allows tensor cores
             for products and convolutions of f32, f32 forbids both. Adds the precision and the
             largest memory that PyTorch held, peer_memory_bytes
    peer.py peak
             rates of matrix products in each precision and of a copy, which is what shares of the
             peak refer to
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
    print(json.dumps(line), flush=True)


def step(program, precision, arguments):
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    sys.argv = [program, *arguments, *(["--bf16"] if precision == "bf16" else [])]
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        runpy.run_path(program, run_name="__main__")
    for line in text.getvalue().splitlines():
        if not line.startswith("{"):  # a compiler's news
            print(line, file=sys.stderr)
            continue
        record = json.loads(line)
        record.update(bench="peer", precision=precision)
        if torch.cuda.is_available():
            record["peer_memory_bytes"] = torch.cuda.max_memory_reserved()
        print(json.dumps(record), flush=True)


def main():
    if sys.argv[1:] == ["peak"]:
        peak()
    elif len(sys.argv) > 4 and sys.argv[1] == "step" and sys.argv[3] == "--precision" \
            and sys.argv[4] in ("f32", "tf32", "bf16"):
        step(sys.argv[2], sys.argv[4], sys.argv[5:])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
