#!/usr/bin/env python3
"""Options are documented and read.

    check_options.py ROOT COHORT   docs/options.md equals `cohort options --markdown`; every field
                                   of TrainOptions and SimulateOptions, and of the structs that
                                   they share, has its option and is read by code that trains or
                                   simulates
    check_options.py --self-test   see both kinds of fault found
"""

import pathlib
import re
import subprocess
import sys

# A function that only checks options.
CHECK = re.compile(r"^\w[\w:<>&, ]* check(?:_\w+|ed)\([^;{]*\{.*?^\}", re.M | re.S)
FIELD = re.compile(r"^    [\w:]+ (\w+)(?: = [^;]+)?;", re.M)


# Structs that both kinds of options share, and their headers.
SHARED = {"ModelSource": "model/source.hpp", "JobOptions": "sched/job_options.hpp",
          "ModeOptions": "sched/mode_options.hpp", "ChooserOptions": "sched/chooser_options.hpp",
          "LearningOptions": "optim/learning_options.hpp"}
# Programs that link the library set these.
PROGRAMS_ONLY = {"build"}
# Virtual jobs do not know these.
TRAIN_ONLY = {"nesterov"}


def fields_of(header, struct):
    begin = header.index(f"struct {struct} ")
    return FIELD.findall(header[begin:header.index("};", begin)])


def undocumented(markdown, documented):
    if markdown != documented:
        return ["docs/options.md differs from `cohort options --markdown`; write it anew"]
    return []


def faults(struct, header, markdown, sources, others=()):
    found = []
    for field in fields_of(header, struct):
        if field in others:
            continue
        if f"`--{field.replace('_', '-')}`" not in markdown:
            found.append(f"{struct}::{field} has no option of its name")
        # `options.field`, `options_.field`, `options().field`, `o.field`; `all`: defaults filled in;
        # `job`, `chooser`, `source`: of either program
        if not re.search(rf"\b(options_?(\(\))?|o|all|job|chooser|source)\.{field}\b", sources):
            found.append(f"--{field.replace('_', '-')} is never read")
    return found


def self_test():
    header = ("struct Other { int no; };\nstruct TrainOptions {\n    int used = 1;  ///< x\n"
              "    bool unused = false;\n};")
    text = "| `--used` | `--unused` |"
    assert fields_of(header, "TrainOptions") == ["used", "unused"]
    assert undocumented(text, text) == []
    assert len(undocumented(text, "old")) == 1
    assert faults("TrainOptions", header, text, "options.used + o.unused") == []
    assert len(faults("TrainOptions", header, text, "options.used")) == 1
    assert len(faults("TrainOptions", header, "`--used`", "o.used o.unused")) == 1
    code = "void check_it(const Options& o) {\n    if (o.used) {\n    }\n}\nint f() {\n o.unused;\n}\n"
    assert faults("TrainOptions", header, text, readers(code)) == ["--used is never read"]
    print("faults of every kind are found")


def section(markdown, command):
    """What the documentation says of one command."""
    return markdown.split(f"\n## cohort {command}\n")[1].split("\n## ")[0]


def readers(text):
    """Code without what only checks or lists options, which does not count as reading them."""
    return CHECK.sub("", text)


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    root = pathlib.Path(sys.argv[1])
    markdown = subprocess.run([sys.argv[2], "options", "--markdown"], check=True,
                              capture_output=True, text=True).stdout
    found = undocumented(markdown, (root / "docs/options.md").read_text())
    shared = [path for folder in ("layers/optim", "data/networks", "sched", "src/records")
              for path in (root / folder).rglob("*.cpp") if "session" not in path.parts]
    for struct, command, header, folder, others in (
            ("TrainOptions", "train", "train/options.hpp", "src/train", PROGRAMS_ONLY),
            ("SimulateOptions", "simulate", "sim/simulation.hpp", "src/sim", TRAIN_ONLY | PROGRAMS_ONLY)):
        files = [*(root / folder).rglob("*.cpp"), *shared,
                 root / f"jobs/commands/command_{command}.cpp"]
        sources = "\n".join(readers(path.read_text()) for path in files)
        for each, its_header in {struct: header, **SHARED}.items():
            text = (root / "include/cohort" / its_header).read_text()
            found += faults(each, text, section(markdown, command), sources, others)
    print("\n".join(found) or "every option is documented and read")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
