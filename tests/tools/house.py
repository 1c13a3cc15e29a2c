#!/usr/bin/env python3
"""Checks that classes, files and folders stay small enough to be understood.

    house.py ROOT              check the tree; prints what is too large, exit code 1
    house.py ROOT --table [N]  the N largest classes (40), folders and files, with their numbers
    house.py --self-test       count the members and methods of planted classes

Counted are the functions that a class declares (overrides too; not constructors, destructors,
what is defaulted or deleted, and friends) and the variables that each object holds (not static
ones, nested types or aliases). A struct without functions is a record: a row of a file, a message,
the options of a command. It may have more fields than a class has variables.
"""

import collections
import pathlib
import re
import sys
import tempfile

import source_tree

# The limits.
METHODS = 20
MEMBERS = 12
FIELDS = 30  # of a record
LINES = 450  # of a file
FILES = 30  # in a folder

# Classes that may be larger: (ceiling, reason) by name; a ceiling is (methods, members). Ceilings
# only go down.
RIG = "drives many parts in a test; shrinks with what it drives"
CLASS_EXCEPTIONS = {
    "TestRun": ((15, 13), RIG),
    "RandomRun": ((27, 23), RIG),
    "SimulationResult": ((0, 41), "all that a virtual run reports"),
    "ChooserRun": ((13, 22), RIG),
    "RunRow": ((0, 33), "a row of the sweep's table"),
    "FlowRig": ((23, 7), RIG),
    "GraphBuilder": ((29, 3), "one function per layer"),
    "TwinBuilder": ((24, 5), "one function per layer"),
    "UpdateEngine": ((22, 1), "one function per event and question"),
}

LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
CLASS = re.compile(r"(?<!\benum )\b(?:class|struct|union)\s+(?:alignas\([^)]*\)\s*|\[\[[^\]]*\]\]\s*)*"
                   r"([A-Za-z_]\w*)(?:<[^{;()]*>)?(?:\s+final)?\s*(?::[^:;{}][^;{}]*)?\{")
ENUM = re.compile(r"\benum\b[^;{}()]*\{")
NOISE = re.compile(r"\[\[.*?\]\]|\balignas\s*\([^()]*\)|\b(?:public|protected|private)\s*:(?!:)|"
                   r"\b(?:noexcept|decltype|requires|explicit)\s*\((?:[^()]|\([^()]*\))*\)")
SKIPPED = re.compile(r"^(?:using|typedef|friend|static_assert|enum|class|struct|union)\b")
FUNCTION = re.compile(r"(?:~?[A-Za-z_]\w*|\boperator\s*(?:[^\s\w(]+|[\w: ]+))\s*\((?!\s*\*)")
ASSIGNMENT = re.compile(r"(?<![=!<>+\-*/])=(?!=)|\{")

Size = collections.namedtuple("Size", "name path line methods members is_record")


def bare(text):
    """The text without comments, literals and directives; lines stay."""
    def blank(match):
        return ("" if match.group().startswith("/") else "0") + "\n" * match.group().count("\n")
    return PREPROCESSOR.sub(blank, LITERAL.sub(blank, text))


def end_of_block(text, start):
    """The place after the brace that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    raise ValueError(f"no brace closes that of {text[:start].count(chr(10)) + 1}")


def without_nested(pattern, text):
    """The text without what matches, innermost first."""
    found = 1
    while found:
        text, found = re.subn(pattern, " ", text)
    return text


def without_templates(text):
    """The declaration without arguments of templates, which may look like anything."""
    text = re.sub(r"\boperator\s*(?:<=>|->\*?|\(\s*\)|[<>=]+)", "operator+", text)
    return without_nested(r"<[^<>;{}]*>", text)


def is_function(declaration):
    """Whether it declares a function: a name with parentheses that follows no initializer."""
    return FUNCTION.search(ASSIGNMENT.split(declaration)[0]) is not None


def declarations(body):
    """The members of a class's body, each as text that ends before `;`, or at its block."""
    start = place = 0
    parens = 0
    while place < len(body):
        char = body[place]
        parens += {"(": 1, ")": -1}.get(char, 0)
        if char == "{" and parens == 0:
            head = NOISE.sub(" ", body[start:place])
            place = end_of_block(body, place)
            # A function's body, unless it is the first brace of one that initializes members.
            if is_function(without_templates(head)) and not re.match(r"\s*[,{]", body[place:]):
                yield head
                start = place
            continue
        if char == "{":
            place = end_of_block(body, place)
            continue
        if char == ";" and parens == 0:
            yield body[start:place]
            start = place + 1
        place += 1


def strip_types(body):
    """The body without the definitions of nested classes and enumerations."""
    while True:
        found = next((match for match in (*CLASS.finditer(body), *ENUM.finditer(body))), None)
        if found is None:
            return body
        end = end_of_block(body, found.end() - 1)
        rest = body[end:].lstrip()
        before = re.sub(r"template\s*<[^;{}]*$", "", body[:found.start()])
        # `struct A {...} a_;` also declares a variable.
        body = before + ("" if rest.startswith(";") else "Nested ") + body[end:]


def count(name, body):
    methods = set()
    members = 0
    for declaration in declarations(body):
        text = without_templates(NOISE.sub(" ", declaration))
        text = re.sub(r"^(?:\s*template\s+)+", "", text).strip()
        if not text or SKIPPED.match(text) or re.search(r"=\s*(?:default|delete)\s*$", text):
            continue
        if is_function(text):
            called = FUNCTION.search(ASSIGNMENT.split(text)[0]).group()
            if called.rstrip("( ") not in (name, "~" + name):
                methods.add(" ".join(text.split()))
        elif not re.search(r"\b(?:static|constexpr)\b", text):
            members += 1 + without_nested(r"\{[^{}]*\}|\([^()]*\)", text).count(",")
    return len(methods), members


def classes(text, path=""):
    """The sizes of all classes that the text defines."""
    text = bare(text)
    for match in CLASS.finditer(text):
        body = text[match.end():end_of_block(text, match.end() - 1) - 1]
        body = strip_types(body)
        methods, members = count(match.group(1), body)
        is_record = match.group().startswith("struct") and "private:" not in body
        yield Size(match.group(1), path, text[:match.start()].count("\n") + 1, methods, members,
                   is_record)


def own_files(root):
    return [path for path in source_tree.files(root, lambda path: True)
            if path.name != "CMakeLists.txt"]


class Tree:
    """What is measured in a tree."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.folders = collections.Counter()
        self.lines = {}
        self.classes = []
        for path in own_files(self.root):
            name = path.relative_to(self.root).as_posix()
            self.folders[name.rpartition("/")[0]] += 1
            if path.suffix in (*source_tree.CXX_SUFFIXES, ".py", ".sh", ".cmake"):
                text = path.read_text(encoding="utf-8")
                self.lines[name] = text.count("\n")
                if path.suffix in source_tree.CXX_SUFFIXES:
                    self.classes.extend(classes(text, name))
        self.classes.sort(key=lambda size: (-size.methods - size.members, size.name))


def too_large(size, ceiling):
    methods, members = ceiling
    return size.methods > methods or size.members > members


def class_limits(size):
    return (METHODS, FIELDS if size.is_record else MEMBERS)


def check_classes(tree):
    used = set()
    for size in tree.classes:
        if not too_large(size, class_limits(size)):
            continue
        used.add(size.name)
        ceiling, _ = CLASS_EXCEPTIONS.get(size.name, (class_limits(size), ""))
        if too_large(size, ceiling):
            yield (f"{size.path}:{size.line}: {size.name} has {size.methods} methods and "
                   f"{size.members} members; expected at most {ceiling[0]} and {ceiling[1]}; "
                   "take it apart by responsibility")
    for name in sorted(CLASS_EXCEPTIONS.keys() - used):
        yield f"house.py: {name} needs no exception any longer; take it out"


def check_numbers(found, limit, what):
    for name, number in found.items():
        if number > limit:
            yield f"{name}: {number} {what}; expected at most {limit}"


def check(root):
    tree = Tree(root)
    return [*check_classes(tree),
            *check_numbers(tree.folders, FILES, "files in one folder"),
            *check_numbers(tree.lines, LINES, "lines in one file")]


def print_table(root, rows):
    tree = Tree(root)
    over = [size for size in tree.classes if too_large(size, class_limits(size))]
    print(f"{len(tree.classes)} classes, {len(over)} over {METHODS} methods or {MEMBERS} members "
          f"(records: {FIELDS} fields); {len(tree.lines)} files of code, {sum(tree.lines.values())} lines")
    print(f"{'methods':>8}{'members':>8}  class")
    for size in tree.classes[:rows]:
        mark = "*" if size in over else " "
        kind = " (record)" if size.is_record else ""
        print(f"{size.methods:8}{size.members:8} {mark}{size.name}{kind}  {size.path}:{size.line}")
    print(f"\n{'files':>8}  folder")
    for folder, number in tree.folders.most_common(12):
        print(f"{number:8} {'*' if number > FILES else ' '}{folder}")
    print(f"\n{'lines':>8}  file")
    for name, number in sorted(tree.lines.items(), key=lambda item: -item[1])[:12]:
        print(f"{number:8} {'*' if number > LINES else ' '}{name}")


# text -> (name, methods, members, is a record) of each class
PLANTED = (
    ("struct Point {\n  int x = 0;  // a; b\n  double y = f(1), z{2};\n  static constexpr int k = 3;\n};",
     [("Point", 0, 3, True)]),
    ('class A final : public B<int>, private C {\npublic:\n  explicit A(int a) : x_(a), y_{a} {}\n'
     "  ~A() override;\n  A(const A&) = delete;\n  A& operator=(const A&) = delete;\n"
     "  [[nodiscard]] int get() const noexcept { return x_; }\n"
     "  bool operator==(const A& other) const;\n  void operator()(int x);\n"
     "  template <class T>\n  void put(const T& value, std::function<void(int)> done = {});\n"
     "  virtual std::map<int, std::string> all() = 0;\n  friend bool same(A a, A b);\n"
     "private:\n  using Map = std::map<int, int>;\n  enum class Kind { kA, kB };\n"
     "  struct Nested {\n    int a = 0;\n    int b() { return a; }\n  };\n  class Other;\n"
     "  std::function<void(int, int)> call_;\n  std::vector<std::pair<int, int>> list_{{1, 2}};\n"
     "  alignas(64) std::atomic<bool> flag_{false};\n  int x_, y_;\n  std::array<int, 3> z_ = {1, 2, 3};\n"
     "  struct Spent {\n    int c = 0;\n  } spent_;\n  static int count_;\n};",
     [("A", 5, 7, False), ("Nested", 1, 1, True), ("Spent", 0, 1, True)]),
    ("enum class E { kA };\nclass Forward;\ntemplate <class T>\nclass B {\n  T a_ = [] { return 1; }();\n"
     "  char b_ = '{';\n  int width_ = 1'000;\n};", [("B", 0, 3, False)]),
)


def self_test():
    wrong = 0
    for text, expected in PLANTED:
        found = [(size.name, size.methods, size.members, size.is_record) for size in classes(text)]
        if found != expected:
            wrong += 1
            print(f"expected {expected}\ngot      {found}")
    with tempfile.TemporaryDirectory() as folder:
        sources = pathlib.Path(folder) / "src"
        sources.mkdir()
        for number in range(FILES + 1):
            (sources / f"f{number}.cpp").write_text("", encoding="utf-8")
        large = "class Large {\n" + "int a();\n" * 3 + "".join(
            f"int m{number}_;\n" for number in range(MEMBERS + 1)) + "};\n"
        (sources / "f0.cpp").write_text(large + "\n" * LINES, encoding="utf-8")
        said = check(folder)
    for words in ("Large has", f"{FILES + 1} files in one folder", "lines in one file"):
        if not any(words in line for line in said):
            wrong += 1
            print(f"planted, not found: {words}")
    print(f"{len(PLANTED)} texts and 3 planted faults, {wrong} wrong")
    return 1 if wrong else 0


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) in (2, 3) and arguments[1] == "--table":
        print_table(arguments[0], int(arguments[2]) if len(arguments) == 3 else 40)
        return 0
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    found = check(arguments[0])
    for line in found:
        print(line)
    print(f"{len(found)} things are too large")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
