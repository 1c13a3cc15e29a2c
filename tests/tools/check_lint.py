#!/usr/bin/env python3
"""Runs clang-tidy with .clang-tidy over the library's and the program's C++ sources.

    check_lint.py CLANG_TIDY ROOT BUILD [FILE...]    all sources in BUILD/compile_commands.json, or
                                                     those whose path ends with one of FILE
    check_lint.py --changed CLANG_TIDY ROOT BUILD    those of the branch, or of the last commits of main
    check_lint.py --self-test CLANG_TIDY             that it finds what it should, and nothing else

BUILD is one that compiles each source alone (COHORT_UNITY off). Every source has to compile by itself, too:
what it needs it includes.

Most of clang-tidy's time goes to the headers of a source, most of which its neighbours include as well.
Sources of one folder are therefore read several at a time, as one text; a text in which anything is found
(or that does not compile: two files may have a private name in common) is read again in halves, down to single
files, and only what is found in a file alone is reported.

Tests are left out: GoogleTest's macros make them slow to analyse and raise alarms of their own. So are
sources of CUDA, which clang-tidy cannot read with the flags of nvcc.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import zlib

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE / "lint_headers"
CONFIG = HERE.parent.parent / ".clang-tidy"
FOLDERS = ("core", "src", "layers", "comm", "sched", "data", "jobs")
OUR_HEADERS = rf"/(include/cohort|{'|'.join(FOLDERS)}|tests)/.*\.hpp$"
FILES_PER_UNIT = 10
LAST_COMMITS = 20  # of main, where there is no branch whose changes could be told
SHARE = 8  # without any history so many commits lint all sources, each one part
PARSE_ONLY = "--checks=-*,misc-misplaced-const"  # some check has to be on
# A quarter of what the analyzer does for a function if nobody stops it: half of the whole run's time, for paths that
# are long.
ANALYZER = ("-analyzer-config", "max-nodes=50000")


def compiler_flags(command):
    """The words of a compile command without the launcher, the source and the output."""
    words = command.get("arguments") or shlex.split(command["command"])
    if pathlib.Path(words[0]).name == "ccache":
        words = words[1:]
    flags, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT"):
            skip = True
        elif word not in ("-c", "-MD", command["file"]):
            flags.append(word)
    return tuple(flags)


def git(root, *words):
    """What git says, or None."""
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def base_of(root):
    """The commit that the checked out one is compared with, and in words; None where history is too short."""
    head = git(root, "rev-parse", "HEAD")
    for main in ("origin/main", "main"):
        base = git(root, "merge-base", "HEAD", main)
        if base and base != head:
            return base, f"since {main}"
    count = int(git(root, "rev-list", "--count", "--first-parent", f"--max-count={LAST_COMMITS + 1}", "HEAD") or 1)
    if count == 1:
        return None
    return f"HEAD~{count - 1}", f"in the last {count - 1} commits"


def sources_for(header, root, sources):
    """A source that shows a header's faults: the one of its name, or any that includes it."""
    line = f'#include "{header.removeprefix("include/").removeprefix("src/")}"'
    including = [source for source in sources if line in (root / source).read_text()]
    same = [source for source in including if pathlib.Path(source).stem == pathlib.Path(header).stem]
    return (same or including)[:1]


def changed_names(root, base):
    """Files that differ from the commit by more than where they or the headers that they include lie, and than
    .clang-tidy's filter of headers, which lint() does not use."""
    ignored = ("--ignore-matching-lines=^#include", "--ignore-matching-lines=^HeaderFilterRegex")
    said = [git(root, "diff", "--numstat", "-z", "--find-renames", "--diff-filter=d", *options, base)
            for options in ((), ignored)]
    if None in said:
        sys.exit(f"git cannot compare the tree with {base}")
    whole, code = (list(changes(text)) for text in said)
    counted = {new for _, new, lines in code if lines}

    def includes_others(old, new):
        return included(git(root, "show", f"{base}:{old or new}") or "") != included((root / new).read_text())

    return sorted(new for old, new, lines in whole if lines and (new in counted or includes_others(old, new)))


def included(text):
    """The headers that a source includes, without their folders."""
    return sorted(re.split(r"[/<\"]", line.rstrip('"> '))[-1] for line in text.split("\n") if line.startswith("#include"))


def changes(text):
    """(old name or None, name, whether lines changed) of what git diff --numstat -z has printed."""
    fields = iter(text.split("\0"))
    for field in fields:
        if field:
            added, deleted, name = field.split("\t", 2)
            old = None if name else next(fields)  # a renamed file: its old name and its new one follow
            yield old, name or next(fields), (added, deleted) != ("0", "0")


def changed(root, commands):
    """Sources in which something changed, relative to the root; says how they were chosen."""
    sources = [str(pathlib.Path(command["file"]).relative_to(root)) for command in commands
               if pathlib.Path(command["file"]).is_relative_to(root)]
    base = base_of(root)
    if base is None:
        part = int((git(root, "rev-parse", "HEAD") or "0")[:8], 16) % SHARE
        print(f"there is no history to compare with (a shallow clone?): part {part + 1} of {SHARE} of all sources")
        return [source for source in sources if zlib.crc32(source.encode()) % SHARE == part]
    names = changed_names(root, base[0])
    print(f"{len(names)} files changed {base[1]}")
    if ".clang-tidy" in names:
        return sources
    chosen = set(names) & set(sources)
    for name in names:
        if name.endswith(".hpp") and name.split("/")[0] != "tests":
            chosen.update(sources_for(name, root, sources))
    return sorted(chosen)


def compiles_alone(flags, directory, file):
    """What the compiler says against a source as it stands; empty if nothing."""
    done = subprocess.run([*flags, "-fsyntax-only", str(file)], cwd=directory, capture_output=True, text=True,
                          check=False)
    return done.stderr if done.returncode else ""


def units(root, commands, wanted):
    """Lists of sources of one folder that can be read as one, each with its flags and where those are meant."""
    groups = {}
    for command in sorted(commands, key=lambda command: command["file"]):
        path = pathlib.Path(command["file"])
        if path.suffix != ".cpp" or not path.is_relative_to(root):
            continue
        if path.relative_to(root).parts[0] not in FOLDERS:
            continue
        if wanted is not None and not any(str(path).endswith("/" + name) for name in wanted):
            continue
        files = groups.setdefault((path.parent, compiler_flags(command), command["directory"]), [])
        if path not in files:
            files.append(path)
    for (_, flags, directory), files in groups.items():
        count = -(-len(files) // FILES_PER_UNIT)
        for part in range(count):
            yield flags, directory, files[part::count]


def joined(files):
    """The files' texts one after the other; what one has included, the next ones do not again."""
    included, lines = set(), []
    for file in files:
        own = set()
        for line in file.read_text().splitlines():
            if line.startswith("#include"):
                own.add(line)
                line = "" if line in included else line
            lines.append(line)
        included |= own
    return "\n".join(lines) + "\n"


def tidy(tool, flags, directory, files, checks=()):
    """clang-tidy's exit code and words about the files as one translation unit."""
    with tempfile.TemporaryDirectory(prefix="cohort-lint-") as folder:
        source = files[0]
        if len(files) > 1:
            source = pathlib.Path(folder) / "unit.cpp"
            source.write_text(joined(files))
        words = [*flags, "-iquote", str(files[0].parent), "-c", str(source)]
        database = [{"directory": directory, "file": str(source), "arguments": words}]
        (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps(database))
        done = subprocess.run(
            [tool, "-p", folder, "--quiet", f"--config-file={CONFIG}", f"--header-filter={OUR_HEADERS}", *checks,
             "--extra-arg=-Wno-unknown-warning-option", f"--extra-arg=-isystem{HEADERS}",
             *(f"--extra-arg={word}" for option in ANALYZER for word in ("-Xclang", option)), str(source)],
            capture_output=True, text=True, check=False)
    return done.returncode, done.stdout or done.stderr


def lint(tool, flags, directory, files):
    """Findings in the files, as one text; empty if there are none. What counts is what a file shows alone."""
    status, said = tidy(tool, flags, directory, files, [PARSE_ONLY]) if len(files) > 1 else (0, "")
    if status == 0:
        status, said = tidy(tool, flags, directory, files)
    if status == 0:
        return ""
    if len(files) == 1:
        return said
    half = len(files) // 2
    return lint(tool, flags, directory, files[:half]) + lint(tool, flags, directory, files[half:])


def check(tool, root, commands, wanted):
    """Prints findings. Returns how many sources were read and how many units have findings."""
    work = list(units(root, commands, wanted))
    faulty = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        alone = [(flags, directory, file) for flags, directory, files in work for file in files]
        for said in [*pool.map(lambda source: compiles_alone(*source), alone),
                     *pool.map(lambda unit: lint(tool, *unit), work)]:
            if said:
                faulty += 1
                print(said, flush=True)
    return sum(len(files) for _, _, files in work), faulty


SELF_TEST = {
    "sched/clean.cpp": "#include <cmath>\nnamespace { int twice(int x) { return 2 * x; } }\nint four() { return twice(2); }\n",
    "sched/same_name.cpp": "#include <cmath>\nnamespace { int twice(int x) { return x + x; } }\nint six() { return twice(3); }\n",
    "sched/null.cpp": "int read(bool b) { int* p = nullptr; if (b) { return *p; } return 0; }\n",
    "sched/name.hpp": "#pragma once\ninline int BadName() { return 1; }\n",
    "sched/name.cpp": '#include "sched/name.hpp"\nint one() { return BadName(); }\n',
    "tests/unseen.cpp": "int AlsoBad() { return 1; }\n",
}


def shows_changes(root, commands):
    """That changed() takes what changed in a branch, in commits, or a part where there is no history; no mere moves."""
    author = ["-c", "user.name=x", "-c", "user.email=x"]
    (root / "sched/place.cpp").write_text(SELF_TEST["sched/clean.cpp"])
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*author, "commit", "-qm", "1"]):
        assert git(root, *words) is not None
    everything = {name for name in SELF_TEST if name.endswith(".cpp")}
    assert set(changed(root, commands)) < everything
    (root / "sched/clean.cpp").write_text("")
    assert git(root, "mv", "sched/place.cpp", "sched/moved.cpp") is not None
    moved = root / "sched/moved.cpp"
    moved.write_text(moved.read_text().replace('<cmath>', '"a/cmath"'))
    assert git(root, *author, "commit", "-qam", "2") is not None
    assert changed_names(root, "HEAD~1") == ["sched/clean.cpp"]
    assert changed(root, commands) == ["sched/clean.cpp"]
    moved.write_text(moved.read_text() + "int seven() { return 7; }\n")
    assert changed_names(root, "HEAD") == ["sched/moved.cpp"]
    assert git(root, "checkout", "-q", "--", "sched/moved.cpp") is not None
    moved.write_text(moved.read_text().replace('#include "a/cmath"\n', ""))
    assert changed_names(root, "HEAD") == ["sched/moved.cpp"], "an include alone, in its place"
    assert git(root, "checkout", "-q", "--", "sched/moved.cpp") is not None
    try:
        changed_names(root, "nonexistent")
        raise AssertionError("a comparison that fails passes for no change")
    except SystemExit:
        pass
    assert git(root, "checkout", "-qb", "branch") is not None
    (root / "sched/name.hpp").write_text("")
    assert git(root, *author, "commit", "-qam", "3") is not None
    assert changed(root, commands) == ["sched/name.cpp"]


def self_test(tool):
    with tempfile.TemporaryDirectory(prefix="cohort-lint-test-") as folder:
        root = pathlib.Path(folder)
        commands = []
        for name, text in SELF_TEST.items():
            path = root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            if path.suffix == ".cpp":
                commands.append({"directory": folder, "file": str(path),
                                 "command": f"ccache c++ -std=c++20 -I{folder} -o {path}.o -c {path}"})
        (flags, directory, files), = units(root, commands, None)
        assert len(files) == 4, files
        assert flags == ("c++", "-std=c++20", f"-I{folder}"), flags
        said = lint(tool, flags, directory, files)
        assert "core.NullDereference" in said and "null.cpp" in said, said
        assert "BadName" in said and "name.hpp" in said, said
        assert "readability-duplicate-include" not in said, said
        assert "clang-diagnostic-error" not in said and "AlsoBad" not in said, said
        clean = [file for file in files if file.stem in ("clean", "same_name")]
        assert lint(tool, flags, directory, clean) == ""
        assert "clang-diagnostic-error" in tidy(tool, flags, directory, clean)[1]
        assert not any(compiles_alone(flags, directory, file) for file in files)
        files[0].write_text("int x = std::size_t{1};\n")
        assert "std" in compiles_alone(flags, directory, files[0])
        shows_changes(root, commands)
    return 0


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--self-test":
        return self_test(sys.argv[2])
    words = sys.argv[1:]
    only_changed = words[:1] == ["--changed"]
    words = words[1:] if only_changed else words
    if len(words) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    tool, root, build = words[0], pathlib.Path(words[1]).resolve(), pathlib.Path(words[2])
    commands = json.loads((build / "compile_commands.json").read_text())
    wanted = changed(root, commands) if only_changed else words[3:] or None
    files, faulty = check(tool, root, commands, wanted)
    print(f"{files} files, {faulty} with findings")
    return 1 if faulty or not (files or only_changed) else 0


if __name__ == "__main__":
    sys.exit(main())
