#!/usr/bin/env python3
"""Checks that names in unnamed namespaces differ within a module, whose sources are compiled several at a time
(COHORT_UNITY), and from those of the headers that these may include, which they would hide from each other.

    check_unnamed.py ROOT         prints names that two files define; exit code 1
    check_unnamed.py --self-test

Types of one name do not stand in headers of two modules: a program that links both takes either for the other.
Functions of one name may stand in two sources when their parameters differ, aliases when they say the same.
"""

import collections
import pathlib
import re
import sys
import tempfile

import check_includes
import house
import source_tree

UNNAMED = re.compile(r"\bnamespace\s*\{")
NAMED = re.compile(r"\bnamespace\s+cohort\s*\{")
TYPE = re.compile(r"(?:enum(?:\s+class)?|class|struct|union)\s+(\w+)")
ALIAS = re.compile(r"using\s+(\w+)\s*=(.*)", re.DOTALL)
DEFINED_TYPE = re.compile(r"^(?:enum class|class|struct|union) (\w+)(?: final)?(?: : [^;{]+)? \{", re.MULTILINE)
LAST_NAME = re.compile(r"\w+\s*(?=,|\)|$)")  # a parameter's, or its type's if that is all there is


def definitions(body):
    """What is defined at the top of a namespace, each as text that ends before `;` or its block."""
    start = place = 0
    while place < len(body):
        if body[place] == "(":
            place = end_of_parentheses(body, place)
        elif body[place] == "{":
            yield body[start:place]
            end = house.end_of_block(body, place)
            head = house.without_templates(body[start:place])
            if not house.is_function(head) and not re.match(r"\s*(namespace|extern)\b", head):
                end = body.index(";", end) + 1
            start = place = end
        elif body[place] == ";":
            yield body[start:place]
            start = place = place + 1
        else:
            place += 1


def end_of_parentheses(text, start):
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


def name_and_kind(definition):
    """The name, and what must differ from other definitions of that name; None: defines nothing new."""
    text = house.without_templates(house.NOISE.sub(" ", definition))
    text = re.sub(r"^(?:\s*template\s+)+", "", text).strip()
    alias, type_ = ALIAS.match(text), TYPE.match(text)
    if alias:
        return alias.group(1), "alias" + "".join(alias.group(2).split())
    if not text or re.match(r"using|namespace|static_assert|friend|extern\b", text):
        return None
    if house.is_function(text):
        head = house.ASSIGNMENT.split(text)[0]
        called = house.FUNCTION.search(head)
        if head[:called.start()].endswith("::"):
            return None  # of a class in this namespace
        return called.group().rstrip("( "), re.sub(r"[)\s]", "", LAST_NAME.sub("", head[called.end():]))
    if type_:
        return type_.group(1), ""
    names = re.findall(r"\w+", house.ASSIGNMENT.split(text)[0])
    return (names[-1], "") if names else None


def names(root, suffix, namespace):
    """Module, file, name and kind of all that files of the modules define in such a namespace."""
    for path in source_tree.files(root, lambda path: path.suffix == suffix):
        relative = path.relative_to(root)
        module = check_includes.module_of(relative)
        if module is None:
            continue
        text = house.bare(path.read_text(encoding="utf-8"))
        for match in namespace.finditer(text):
            for definition in definitions(text[match.end():house.end_of_block(text, match.end() - 1) - 1]):
                found = name_and_kind(definition)
                if found:
                    yield module, relative.as_posix(), *found


def types_defined_twice(root):
    """Types of one name in headers of several modules: a program that links both mixes them up."""
    places = collections.defaultdict(dict)
    for path in source_tree.files(root, lambda path: path.suffix == ".hpp"):
        relative = path.relative_to(root)
        text = path.read_text(encoding="utf-8")
        space = re.search(r"^namespace ([\w:]+) \{", text, re.MULTILINE)
        module = check_includes.module_of(relative)
        if module is not None and space:
            for name in DEFINED_TYPE.findall(text):
                places[space.group(1), name].setdefault(module, relative.as_posix())
    return [f"{name} is defined in {' and '.join(sorted(paths.values()))}"
            for (_, name), paths in sorted(places.items()) if len(paths) > 1]


def check(root):
    root = pathlib.Path(root).resolve()
    places = collections.defaultdict(set)
    headers = collections.defaultdict(set)
    for module, path, name, _ in names(root, ".hpp", NAMED):
        headers[name].add((module, path))
    for module, path, name, kind in names(root, ".cpp", UNNAMED):
        places[module, name, kind].add(path)
        for other, header in headers[name]:
            if other == module or (header.startswith("include/") and other in check_includes.ALLOWED[module]):
                places[module, name, kind].add(header)
    hidden = [f"{name} is defined in {' and '.join(sorted(paths))}" for (_, name, kind), paths
              in sorted(places.items()) if len(paths) > 1 and not kind.startswith("alias")]
    return [*hidden, *types_defined_twice(root)]


PLANTED = {
    "sched/a.cpp": "namespace {\nconstexpr int kOne{1};\nvoid f(int x) {}\nstruct A { int b; };\nusing D = int;\n}",
    "sched/b.cpp": "namespace {\nvoid f(int y) {}\nvoid f(double x) {}\nclass A {};\nusing D = int;\n}",
    "sched/c.cpp": "namespace {\nstd::map<int, int> kOne = {{1, 2}};\nvoid f(double z = g(1)) {}\n}\nint kTwo;",
    "sched/d.hpp": "namespace cohort {\nint hidden(int x);\n}",
    "sched/e.hpp": "namespace cohort {\nstruct Roster {\n};\nclass Seen;\n}",
    "comm/e.hpp": "namespace cohort {\nclass Roster final : public Base {\n};\nclass Seen {\n};\n}",
    "sched/d.cpp": "namespace {\nint hidden(char x) {}\n}",
    "comm/a.cpp": "namespace {\nint kOne = 2;\nint kTwo;\nvoid A::f(int x) {}\n}",
}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        for name, text in PLANTED.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        found = check(folder)
    expected = ["A is defined in sched/a.cpp and sched/b.cpp", "f is defined in sched/b.cpp and sched/c.cpp",
                "f is defined in sched/a.cpp and sched/b.cpp", "kOne is defined in sched/a.cpp and sched/c.cpp",
                "hidden is defined in sched/d.cpp and sched/d.hpp",
                "Roster is defined in comm/e.hpp and sched/e.hpp"]
    if sorted(found) != sorted(expected):
        print(f"expected {expected}\ngot      {found}")
        return 1
    return 0


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--self-test":
        return self_test()
    found = check(sys.argv[1])
    print("\n".join([*found, f"{len(found)} names are defined twice"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
