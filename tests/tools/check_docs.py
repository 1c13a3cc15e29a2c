#!/usr/bin/env python3
"""Checks that what the documents name exists: relative links with their headings, files of the tree wherever their
path stands, and what looks like a file or folder of the tree in backticks. The first use of a page of some words of
this project is a link to the glossary. The page of the architecture names every room, the first folders of a module.

    check_docs.py ROOT
    check_docs.py --self-test  plant a dead link, a dead heading and a dead path and see each one found
"""

import glob
import os
import pathlib
import re
import sys
import tempfile

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BACKTICKS = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TREE = r"(?:\.ci|cmake|comm|core|data|docs|examples|experiments|include|jobs|layers|packaging|python|sched|slurm|src|tests)/[\w./*+-]*"
SUFFIX = r"\.(?:cpp|hpp|cu|cuh|py|cmake|sh|sbatch)"
PLACE = re.compile(TREE)
SOURCE = re.compile(r"[\w./*-]+" + SUFFIX)
PATH = re.compile(r"(?<![\w./*-])" + TREE + SUFFIX + r"\b")
WORDS = re.compile(r"\b(lease|fence|plan|reference batch)(?:s|es)?\b", re.IGNORECASE)
# The words' own page, one that the program writes, and one whose plans are those of cuDNN.
WITHOUT_WORDS = ("glossary.md", "options.md", "cuda.md")
MADE_BY_READERS = re.compile(r"data/[\w-]+\.h5")  # data sets lie in data/ on the reader's machine


def anchors(text):
    """The names under which a page's headings can be linked."""
    for heading in HEADING.findall(FENCED.sub("", text)):
        plain = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        yield plain.replace(" ", "-")


def link_problem(page, target):
    name, _, anchor = target.partition("#")
    file = page.parent / name if name else page
    if not file.exists():
        return f"link to {target}: no such file"
    if anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
        return f"link to {target}: no such heading"
    return None


def exists(root, name):
    """Whether a path of the tree, or a public header's path as sources include it, is there; * stands for anything."""
    places = [root / name, root / "include" / name, root / "src" / name]
    return any(glob.glob(str(place)) for place in places)


def source_names(root):
    names = set()
    for folder, folders, files in os.walk(root):
        if pathlib.Path(folder) == root:
            folders[:] = [name for name in folders if name not in (".git", "build")]
        names.update(files)
    return names


def path_problem(root, names, text):
    word = (text.split() or [""])[0]
    if PLACE.fullmatch(word):
        dead = not MADE_BY_READERS.fullmatch(word) and not exists(root, word)
    elif word != text or not SOURCE.fullmatch(word):
        return None
    elif "/" in word:
        dead = not exists(root, word)
    else:
        pattern = re.compile(re.escape(word).replace(r"\*", ".*"))
        dead = not any(pattern.fullmatch(name) for name in names)
    return f"{word}: no such file or folder" if dead else None


def unexplained_words(page, prose):
    """The first use of each of WORDS that is no link to the glossary, with its line."""
    if page.name in WITHOUT_WORDS:
        return
    seen = set()
    for number, line in enumerate(prose, start=1):
        bare = BACKTICKS.sub(lambda code: " " * len(code[0]), line)
        links = [link.span() for link in LINK.finditer(bare) if "glossary.md" in link[1]]
        bare = re.sub(r"\]\([^)]*\)", lambda target: " " * len(target[0]), bare)
        for use in WORDS.finditer("" if line.startswith("#") else bare):
            word = use[1].lower()
            if word not in seen and not any(begin <= use.start() < end for begin, end in links):
                yield number, f"{word}: its first use here does not link to the glossary"
            seen.add(word)


def unnamed_rooms(root):
    """Modules without a row in a table of the page of the architecture, and folders of theirs not named in it."""
    page = root / "docs" / "architecture.md"
    rows = [line.split("|", 2) for line in page.read_text(encoding="utf-8").split("\n") if line.startswith("|")]
    for module in sorted(file.parent for depth in ("*", "*/*") for file in root.glob(f"{depth}/CMakeLists.txt")):
        name = str(module.relative_to(root))
        if name.split("/")[0] in ("build", "examples", "tests"):
            continue
        told = BACKTICKS.findall("".join(row[2] for row in rows if name in BACKTICKS.findall(row[1].replace("/`", "`"))))
        rooms = [room.name for room in module.iterdir() if room.is_dir() and not room.name.startswith((".", "__"))]
        for room in sorted(set(rooms) - set(told)):
            yield f"{page.relative_to(root)}: `{room}` of `{name}` is missing"
        if not any(f"`{name}`" in row[1] for row in rows):
            yield f"{page.relative_to(root)}: `{name}` is missing"


def problems(root):
    yield from unnamed_rooms(root)
    names = source_names(root)
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        prose = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text).split("\n")
        for number, (line, outside) in enumerate(zip(text.split("\n"), prose), start=1):
            found = [link_problem(page, target) for target in LINK.findall(outside) if "://" not in target]
            words = dict.fromkeys(BACKTICKS.findall(outside) + PATH.findall(line))
            found += [path_problem(root, names, word) for word in words]
            yield from (f"{page.relative_to(root)}:{number}: {problem}" for problem in found if problem)
        yield from (f"{page.relative_to(root)}:{number}: {problem}" for number, problem in unexplained_words(page, prose))


def self_test():
    planted = {
        "link to gone.md: no such file": "[a](gone.md)",
        "link to b.md#gone: no such heading": "[b](b.md#gone)",
        "src/gone: no such file or folder": "`src/gone`",
        "gone.hpp: no such file or folder": "`gone.hpp`",
        "src/gone.cpp: no such file or folder": "see src/gone.cpp.",
        "docs/architecture.md: `gone` of `src/all` is missing": "",
        "fence: its first use here does not link to the glossary": "`fence` a Fence, a [fence](glossary.md)",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "docs").mkdir()
        (root / "src" / "all" / "gone").mkdir(parents=True)
        (root / "src" / "all" / "CMakeLists.txt").touch()
        (root / "docs" / "architecture.md").write_text("| `src/all` | `kept` |\n")
        (root / "src" / "kept.cpp").touch()
        (root / "docs" / "glossary.md").write_text("a plan\n")
        (root / "README.md").write_text("[b](docs/b.md#what-it-is) `src/kept.cpp` `kept.cpp` `src/*.cpp`\n"
                                        "# A plan\nthe [plans](docs/glossary.md) of a plan\n")
        (root / "docs" / "b.md").write_text("# What it is\n" + "\n".join(planted.values()) + "\n")
        found = list(problems(root))
    missing = [text for text in planted if not any(line.endswith(text) for line in found)]
    if missing or len(found) != len(planted):
        print("expected:", *planted, "found:", *found, sep="\n  ")
        return 1
    return 0


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--self-test":
        return self_test()
    found = list(problems(pathlib.Path(os.path.abspath(sys.argv[1]))))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
