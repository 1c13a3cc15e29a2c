#!/usr/bin/env python3
"""Checks that includes and link lists follow the project's dependency arrows, and that these never run up a floor.

    check_includes.py ROOT         check the tree; prints file:line and the arrow, exit code 1
    check_includes.py --self-test  plant one violation of every rule and see each one found
"""

import pathlib
import re
import sys
import tempfile

import source_tree

# module -> modules it builds on directly; what those build on is allowed too.
ARROWS = {
    "core": [],
    "tensor": ["core"],
    "layers": ["tensor"],
    "model": ["layers"],
    "optim": ["tensor"],
    "data": ["core"],
    "comm": ["core", "tensor"],
    "sched": ["core", "model", "optim"],
    "networks": ["data", "model"],
    "session": ["core", "data", "sched"],
    "recorded": ["data", "sched"],
    "records": ["data", "sched"],
    "sim": ["model", "optim", "session", "networks", "recorded", "records"],
    "report": ["sim"],
    "train": ["model", "optim", "data", "comm", "session", "networks", "recorded", "records"],
    "fleet": ["sim", "train"],
    "jobs": ["report", "fleet"],
    "python": ["jobs"],
}
# Floors, the ground first: folders of the top level. No arrow runs up.
FLOORS = (("core",), ("layers", "comm"), ("data",), ("sched",), ("src",), ("jobs",), ("python",))
# Modules in the folder of another one; each folder of src is a module, and so is what else is on a floor.
INNER = {
    "tensor": "core/tensor",
    "model": "layers/model",
    "optim": "layers/optim",
    "networks": "data/networks",
    "session": "sched/session",
    "recorded": "sched/recorded",
}
# Rooms of each module's folder, from the left to the right: a room includes those to its left. Sources that lie in the
# folder itself may include all, and be included.
ROOM_ORDER = {
    "core": ("system", "cuda"),
    "layers": ("cpu", "cuda"),
    "comm": ("base", "transfer", "world", "allreduce"),
    "data": ("shipped", "file", "text", "hdf5", "dataset", "loader", "import"),
    "sched": ("plan", "engine", "telemetry", "predict", "cost", "servers", "fleet", "modes"),
    "sim": ("scenario", "cluster", "learner", "result", "job", "fleet"),
    "report": ("fit", "sweep", "page", "run"),
    "train": ("protocol", "faults", "checkpoint", "run", "mirror", "hooks", "live", "server", "worker", "fit", "bench",
              "coordinator"),
    "jobs": ("cli", "commands", "main"),
}

# external headers: what they are, their names, and the modules whose private code may have them.
EXTERNAL = (
    ("MPI", re.compile(r"mpi(-ext)?\.h$"), ("comm",)),
    ("NCCL", re.compile(r"nccl(_net)?\.h$"), ("comm",)),
    ("HDF5", re.compile(r"(hdf5|hdf5_hl|H5\w*)\.h$"), ("data",)),
    ("utf8proc", re.compile(r"utf8proc\.h$"), ("data",)),
    ("libzip", re.compile(r"zip\.h$"), ("data",)),
    ("libpng", re.compile(r"png\.h$"), ("data",)),
    ("libjpeg", re.compile(r"j(peglib|error)\.h$"), ("data",)),
    ("CLI11", re.compile(r"CLI(11\.hpp$|/)"), ("jobs", "python")),
    ("pybind11", re.compile(r"pybind11/"), ("python",)),
    ("toml++", re.compile(r"toml\+\+/"), ("data", "recorded", "sim", "report", "jobs")),
    ("protobuf", re.compile(r"google/protobuf/|.*\.pb\.h$"), ("networks", "records")),
    ("simdjson", re.compile(r"simdjson\.h$"), ("records",)),
    ("CUDA", re.compile(r"(cuda\w*|cublas\w*|cudnn\w*|curand\w*|nvrtc)\.h$|(cub|thrust|cuda)/"), ()),
)
# Files of the CUDA backend: those below a folder cuda/, the NCCL files of comm, kernels.
CUDA_FILE = re.compile(r"(^|/)cuda/([^/]+/)?[^/]+\.(cpp|hpp)$|^comm/allreduce/nccl/nccl\w*\.(cpp|hpp)$|\.cuh?$")
ENVIRONMENT_READER = "core/system/launch_env.cpp"

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")
LINKED = re.compile(r"\bcohort::(\w+)")


def closure(module):
    """All modules that `module` may include."""
    allowed = set()
    pending = list(ARROWS[module])
    while pending:
        other = pending.pop()
        if other not in allowed:
            allowed.add(other)
            pending.extend(ARROWS[other])
    return allowed


ALLOWED = {module: closure(module) for module in ARROWS}


def module_of(relative):
    """The module a file belongs to, or None (tests may use everything)."""
    parts = relative.parts
    if parts[:2] == ("include", "cohort"):
        return parts[2]
    for module, folder in INNER.items():
        if relative.as_posix().startswith(folder + "/"):
            return module
    if parts[0] == "src":
        return parts[1]
    return parts[0] if any(parts[0] in floor for floor in FLOORS) else None


def floor_of(module):
    """0 is the ground."""
    folder = INNER.get(module, module).split("/")[0]
    folder = folder if any(folder in floor for floor in FLOORS) else "src"
    return next(number for number, floor in enumerate(FLOORS) if folder in floor)


def arrows_up(arrows):
    """Arrows of the architecture to a module on a higher floor."""
    return [f"{module} -> {other} runs up a floor"
            for module, others in arrows.items() for other in others if floor_of(other) > floor_of(module)]


def room_of(relative):
    """The folder in its module's one in which a source lies; None: in the module's itself, or a public header."""
    module = module_of(relative)
    depth = len(INNER[module].split("/")) if module in INNER else 2 if relative.parts[0] == "src" else 1
    return relative.parts[depth] if relative.parts[0] != "include" and len(relative.parts) > depth + 1 else None


def room_violation(relative, other):
    """Both are of one module."""
    order = ROOM_ORDER.get(module_of(relative))
    mine, its = room_of(relative), room_of(other)
    if order is None or mine is None or its is None or mine == its:
        return None
    for room in (mine, its):
        if room not in order:
            return f"{room} is not a room of {module_of(relative)}; ROOM_ORDER has them"
    if order.index(its) > order.index(mine):
        return f"{mine} -> {its} runs to the right; rooms of {module_of(relative)}: {', '.join(order)}"
    return None


def arrow(module, other):
    return f"{module} -> {other} is not an arrow of the architecture"


def external_violation(module, relative, header):
    for name, pattern, owners in EXTERNAL:
        if not pattern.match(header):
            continue
        if relative.parts[0] == "include":
            return f"a public header includes {name}"
        if name == "CUDA" and CUDA_FILE.search(relative.as_posix()):
            return None
        if module not in owners:
            place = "the backend's files" if name == "CUDA" else ", ".join(owners)
            return f"{module} -> {name}; only {place} may include it"
    return None


def included_file(root, path, header):
    """The place in the tree of a header of ours, or None when it is not ours."""
    if header.startswith("cohort/"):
        return pathlib.Path("include") / header
    for folder in (root, root / "src", path.parent):
        file = (folder / header).resolve()
        if file.is_file() and root in file.parents:
            return file.relative_to(root)
    return None


def check_line(root, path, module, line):
    relative = path.relative_to(root)
    if GETENV.search(line) and relative.as_posix() != ENVIRONMENT_READER:
        return f"reads the environment; only {ENVIRONMENT_READER} may"
    match = INCLUDE.match(line)
    if not match:
        return None
    quoted, header = match.group(1) == '"', match.group(2)
    problem = external_violation(module, relative, header)
    if problem or not quoted:
        return problem
    file = included_file(root, path, header)
    other = module_of(file) if file is not None else None
    if other is None:
        return None
    if other == module:
        return room_violation(relative, file)
    if other not in ALLOWED[module]:
        return arrow(module, other)
    if relative.parts[0] == "include" and not header.startswith("cohort/"):
        return "a public header includes one that is not installed"
    return None


def check_cxx(root):
    paths = source_tree.cxx_files(root)
    for path in paths:
        module = module_of(path.relative_to(root))
        if module is None:
            continue
        if module not in ARROWS:
            yield f"{path.relative_to(root)}:1: {module} is not a module of the architecture"
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            problem = check_line(root, path, module, line)
            if problem:
                yield f"{path.relative_to(root)}:{number}: {problem}"


def check_link_lists(root):
    for path in source_tree.files(root, lambda path: path.name == "CMakeLists.txt"):
        module = module_of(path.relative_to(root))
        if module not in ARROWS:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for other in LINKED.findall(line.split("#")[0]):
                if other != module and other not in ALLOWED[module]:
                    yield f"{path.relative_to(root)}:{number}: {arrow(module, other)}"


def check(root):
    root = pathlib.Path(root).resolve()
    return [*arrows_up(ARROWS), *check_cxx(root), *check_link_lists(root)]


# file -> (text, what the check must say; None for a file that is fine)
PLANTED = {
    "include/cohort/core/a.hpp": ("#include <vector>\n", None),
    "include/cohort/core/b.hpp": ('\n#include "cohort/tensor/x.hpp"\n', ":2: core -> tensor"),
    "include/cohort/data/a.hpp": ("#include <hdf5.h>\n", ":1: a public header includes HDF5"),
    "include/cohort/nowhere/a.hpp": ("", ":1: nowhere is not a module"),
    "core/tensor/a.cpp": ('#include "cohort/core/a.hpp"\n', None),
    "core/tensor/b.cpp": ("#include <cuda_runtime.h>\n", ":1: tensor -> CUDA"),
    "core/tensor/cuda/device.cpp": ("#include <cuda_runtime.h>\n", None),
    "core/tensor/secret.hpp": ("", None),
    "core/peeps.cpp": ('#include "core/tensor/secret.hpp"\n', ":1: core -> tensor"),
    "core/system/launch_env.cpp": ('const char* x = std::getenv("X");\n', None),
    "core/other.cpp": ('const char* x = std::getenv("X");\n', ":1: reads the environment"),
    "layers/conv.cpp": ('#include "cohort/comm/x.hpp"\n', ":1: layers -> comm"),
    "layers/cuda/conv.cpp": ("#include <cudnn.h>\n", None),
    "layers/pool.cpp": ('#include "core/tensor/secret.hpp"\n', None),
    "layers/up.cpp": ('#include "data/p.hpp"\n', ":1: layers -> data"),
    "include/cohort/layers/a.hpp": ('#include "core/tensor/secret.hpp"\n',
                                    ":1: a public header includes one that is not installed"),
    "layers/relative.cpp": ('#include "../data/p.hpp"\n', ":1: layers -> data"),
    "data/p.hpp": ("", None),
    "data/hdf5.cpp": ("#include <hdf5.h>\n", None),
    "data/cli.cpp": ("#include <CLI/CLI.hpp>\n", ":1: data -> CLI11"),
    "comm/world/world.cpp": ("#include <mpi.h>\n#include <nccl.h>\n", None),
    "comm/CMakeLists.txt": ("# cohort::train\ncohort_module(NAME comm\n  PUBLIC cohort::layers)\n",
                            ":3: comm -> layers"),
    "sched/plan/plan.cpp": ("#include <mpi.h>\n", ":1: sched -> MPI"),
    "sched/plan/session.cpp": ('#include "sched/session/x.hpp"\n', ":1: sched -> session"),
    "sched/session/x.hpp": ('#include "sched/plan/y.hpp"\n', None),
    "sched/plan/y.hpp": ("", None),
    "data/networks/model.cpp": ('#include "cohort/model/x.hpp"\n', None),
    "data/import.cpp": ('#include "cohort/model/x.hpp"\n', ":1: data -> model"),
    "src/train/worker/w.hpp": ('#include "train/run/r.hpp"\n', None),
    "src/train/run/r.hpp": ('#include "train/worker/w.hpp"\n', ":1: run -> worker runs to the right"),
    "src/train/attic/a.cpp": ('#include "train/run/r.hpp"\n', ":1: attic is not a room of train"),
    "src/train/top.cpp": ('#include "train/worker/w.hpp"\n', None),
    "comm/world/w.hpp": ("", None),
    "comm/base/b.cpp": ('#include "comm/world/w.hpp"\n', ":1: base -> world runs to the right"),
    "src/records/log.cpp": ('#include "cohort/sched/x.hpp"\n#include "cohort/train/x.hpp"\n', ":2: records -> train"),
    "layers/model/deep.cpp": ('#include "cohort/core/a.hpp"\n#include "cohort/layers/a.hpp"\n', None),
    "layers/model/up.cpp": ('#include "cohort/train/a.hpp"\n', ":1: model -> train"),
    "src/train/loop.cpp": ('#include "cohort/comm/x.hpp"\n#include <mpi.h>\n', ":2: train -> MPI"),
    "jobs/main/main.cpp": ("#include <CLI/CLI.hpp>\n", None),
    "tests/unit/t.cpp": ('#include <hdf5.h>\n#include "core/tensor/secret.hpp"\n', None),
}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, _) in PLANTED.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        found = check(folder)
    found += arrows_up({"comm": ["core"], "data": ["records"], "layers": ["optim"]})
    expected = [*(name + said for name, (_, said) in PLANTED.items() if said), "data -> records runs up a floor"]
    missed = [say for say in expected if not any(line.startswith(say) for line in found)]
    false_alarms = [line for line in found if not any(line.startswith(say) for say in expected)]
    for say in missed:
        print(f"planted, not found: {say}")
    for line in false_alarms:
        print(f"false alarm: {line}")
    print(f"{len(expected)} planted violations, {len(missed)} missed, {len(false_alarms)} false alarms")
    return 1 if missed or false_alarms else 0


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--self-test":
        return self_test()
    violations = check(sys.argv[1])
    for line in violations:
        print(line)
    print(f"{len(violations)} violations of the include directions")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
