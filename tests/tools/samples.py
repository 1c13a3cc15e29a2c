#!/usr/bin/env python3
"""Output of commands that README and docs show, renewed by running these commands.

    samples.py --write         runs the commands of all samples in the source tree, as a reader would, then replaces
                               the samples and docs/time-to-accuracy.svg by what came out (some minutes)
    samples.py --check COHORT  runs all but the quick start, which quickstart_test.py runs with small data, and
                               compares: the same lines, whatever numbers they hold. Exit code 77: no Fashion-MNIST

A sample is the code block below `<!-- sample: NAME -->`; its command is the code block before that.
"""

import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

import time_to_accuracy

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
QUICKSTART = "./jobs/quickstart.sh"
GAP = "..."
SKIPPED = 77

# The lines shown of a command's output, without the log's times: each expression takes the next line that begins
# like it.
SHOWN = {
    "README.md": {
        "slow-worker": ["== one of", " +seconds to", "ssgd ", "adaptive ", "adaptive takes"],
        "simulate": ["done ", "samples: ", "gradients: ", "workers: ", "test accuracy", "target accuracy"],
    },
    "docs/runs.md": {
        "run": ["-- ssgd", r"\d+ worker", "model ", "test after", "done ", "samples: ", "gradients: ", "exchange: ",
                "target accuracy"],
    },
}
LOG_TIME = re.compile(r"^\d\d:\d\d:\d\d\.\d+ \w+ +")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?|\b[KMG]?i?B\b")


def block(text, name):
    """A sample and its command in a page, the command without comments."""
    found = re.search(rf"^<!-- sample: {name} -->\n```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise SystemExit(f"there is no sample {name} in the page")
    command = re.findall(r"^```\n(.*?)^```$", text[:found.start()], re.MULTILINE | re.DOTALL)[-1]
    return found, re.sub(r" +# .*", "", command)


def excerpt(name, expressions, output):
    """The lines of a sample in a command's output, with gaps where lines are left out."""
    lines = [LOG_TIME.sub("", line) for line in output.splitlines()]
    shown, next_line = [], 0
    for expression in expressions:
        matches = [number for number in range(next_line, len(lines)) if re.match(expression, lines[number])]
        if not matches:
            raise SystemExit(f"sample {name}: no line begins with '{expression}' in\n{output}")
        if shown and matches[0] > next_line:
            shown.append(GAP)
        shown.append(lines[matches[0]])
        next_line = matches[0] + 1
    return "".join(line + "\n" for line in shown)


def masked(text):
    """Without numbers, units of bytes, the spaces that line them up, and gaps: some lines come only at times."""
    return [re.sub(r" +", " ", NUMBER.sub("0", line)) for line in text.splitlines() if line != GAP]


def differences(page, name, output):
    """Where a sample of a page has other lines than its command's present output."""
    old = block((ROOT / page).read_text(encoding="utf-8"), name)[0][1]
    new = excerpt(name, SHOWN[page][name], output)
    return list(difflib.unified_diff(masked(old), masked(new), f"{page}: {name}", "the command's output", lineterm=""))


def output_of(command, folder):
    done = subprocess.run(["bash", "-e", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def write():
    outputs = {}
    for page, samples in SHOWN.items():
        file = ROOT / page
        for name, expressions in samples.items():
            text = file.read_text(encoding="utf-8")
            found, command = block(text, name)
            if command not in outputs:
                outputs[command] = output_of(command, ROOT)
            new = excerpt(name, expressions, outputs[command])
            file.write_text(text[:found.start(1)] + new + text[found.end(1):], encoding="utf-8")
    target = re.search(r"^ +seconds to (\S+)", "".join(outputs.values()), re.MULTILINE)[1]
    picture = time_to_accuracy.draw([ROOT / "runs/quickstart" / mode for mode in ("ssgd", "adaptive")], float(target))
    (ROOT / "docs/time-to-accuracy.svg").write_text(picture, encoding="utf-8")


def check(program):
    """Runs the commands in a folder that looks like the source tree after a build."""
    if not IMAGES.is_dir():
        print(f"{IMAGES} is missing (Debian's dataset-fashion-mnist): samples are not checked")
        return SKIPPED
    found = []
    with tempfile.TemporaryDirectory(prefix="cohort-samples-") as temporary:
        tree = pathlib.Path(temporary)
        (tree / "build/release/jobs").mkdir(parents=True)
        (tree / "build/release/jobs/cohort").symlink_to(pathlib.Path(program).resolve())
        (tree / "data").mkdir()
        output_of(f"build/release/jobs/cohort import --input {IMAGES} --output data/fashion-mnist.h5", tree)
        for page, samples in SHOWN.items():
            for name in samples:
                command = block((ROOT / page).read_text(encoding="utf-8"), name)[1]
                if QUICKSTART not in command:
                    found += differences(page, name, output_of(command, tree))
    print("\n".join(found + ["tests/tools/samples.py --write renews the samples"] if found else []))
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true")
    action.add_argument("--check", metavar="COHORT")
    arguments = parser.parse_args()
    return write() if arguments.write else check(arguments.check)


if __name__ == "__main__":
    sys.exit(main())
