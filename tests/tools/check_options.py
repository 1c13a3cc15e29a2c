#!/usr/bin/env python3
"""Options are documented and read.

    check_options.py ROOT COHORT   docs/options.md equals `cohort options --markdown`; every field
                                   of TrainOptions has its option and is read by training code
    check_options.py --self-test   see both kinds of fault found
"""

import pathlib
import re
import subprocess
import sys

FIELD = re.compile(r"^    [\w:]+ (\w+)(?: = [^;]+)?;", re.M)


def fields_of(header):
    return FIELD.findall(header[header.index("struct TrainOptions"):header.index("};")])


def faults(header, markdown, documented, sources):
    found = []
    if markdown != documented:
        found.append("docs/options.md differs from `cohort options --markdown`; write it anew")
    for field in fields_of(header):
        if f"`--{field.replace('_', '-')}`" not in markdown:
            found.append(f"TrainOptions::{field} has no option of its name")
        # `options.field`, `options_.field`, `options().field` or `o.field`
        if not re.search(rf"\b(options_?(\(\))?|o)\.{field}\b", sources):
            found.append(f"--{field.replace('_', '-')} is never read")
    return found


def self_test():
    header = "struct TrainOptions {\n    int used = 1;  ///< x\n    bool unused = false;\n};"
    text = "| `--used` | `--unused` |"
    assert fields_of(header) == ["used", "unused"]
    assert faults(header, text, text, "options.used + o.unused") == []
    assert len(faults(header, text, text, "options.used")) == 1
    assert len(faults(header, "`--used`", "`--used`", "o.used o.unused")) == 1
    assert len(faults(header, text, "old", "o.used o.unused")) == 1
    print("faults of every kind are found")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    root = pathlib.Path(sys.argv[1])
    markdown = subprocess.run([sys.argv[2], "options", "--markdown"], check=True,
                              capture_output=True, text=True).stdout
    # What only checks or declares an option does not count as reading it.
    readers = [path for path in (root / "src" / "train").glob("*.cpp") if path.name != "options.cpp"]
    sources = "\n".join(path.read_text() for path in readers)
    sources += (root / "jobs" / "command_train.cpp").read_text()
    found = faults((root / "include/cohort/train/options.hpp").read_text(), markdown,
                   (root / "docs/options.md").read_text(), sources)
    print("\n".join(found) or "every option is documented and read")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
