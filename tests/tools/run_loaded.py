#!/usr/bin/env python3
"""Tests beside busy processes, again and again: which of them fail for no other reason?

    run_loaded.py BUILD [--busy N] [--rounds R] [--slow] [--late] [CTEST-OPTION...]

    run_loaded.py build/ci --rounds 5 -L 'mpi|fault|cluster'    # beside as many busy processes as there are cores
    run_loaded.py build/ci --busy 4 --slow -R cli_              # beside four, and every other rank is slowed
    run_loaded.py build/ci --busy 0 --late --parallel 8         # eight at a time, whose threads start late

Busy processes have the tests' priority and never wait. With --slow, ranks with odd numbers of all jobs get a low
priority soon after their start, so that beside busy processes they run at a small part of the others' speed. With
--late, threads and processes of the build's programs start late, and some sleep before locks and after waits
(tests/support/core/late_threads.cpp). This brings orders of events that a busy machine shows once in a thousand runs,
and sleeping costs no processor time.
Prints each failure as it comes, after each round the end of its output, then a table of the tests that failed, and
which came nearest to their limit. The exit code is 1 when a test failed.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree

LOW_PRIORITY = 10  # a tenth of the share of those at 0
SHOWN = 40         # lines of a failed test's output
NEAREST = 5


class Busy:
    """Processes that only compute."""

    def __init__(self, count):
        self._count = count
        self._processes = []

    def __enter__(self):
        for _ in range(self._count):
            self._processes.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        return self

    def __exit__(self, *_):
        for process in self._processes:
            process.kill()
            process.wait()


class SlowRanks:
    """Lowers the priority of ranks with odd numbers, of programs of the build, when it finds them."""

    def __init__(self, build):
        self._build = str(build)
        self._seen = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _watch(self):
        while not self._over.wait(0.1):
            for path in pathlib.Path("/proc").glob("[0-9]*"):
                if path.name not in self._seen:
                    self._look(path)

    def _look(self, path):
        try:
            if not os.readlink(path / "exe").startswith(self._build):
                return
            variables = (path / "environ").read_bytes().decode(errors="replace")
            rank = re.search(r"\b(?:OMPI_COMM_WORLD|PMIX)_RANK=(\d+)", variables)
            self._seen.add(path.name)
            if rank and int(rank[1]) % 2:
                for task in (path / "task").iterdir():
                    os.setpriority(os.PRIO_PROCESS, int(task.name), LOW_PRIORITY)
        except OSError:
            pass  # it has ended


class LateThreads:
    """Builds and preloads late_threads.cpp into everything that is started meanwhile."""

    def __init__(self, build, folder):
        self._build = str(build)
        self._library = folder / "late_threads.so"

    def __enter__(self):
        if re.search("^COHORT_SANITIZE:STRING=.", pathlib.Path(self._build, "CMakeCache.txt").read_text(), re.MULTILINE):
            sys.exit("--late: a sanitizer's library must be the first one of a program; take a build without")
        source = pathlib.Path(__file__).resolve().parents[1] / "support/core/late_threads.cpp"
        subprocess.run(["c++", "-std=c++20", "-O2", "-shared", "-fPIC", source, "-o", self._library, "-ldl"], check=True)
        self._before = os.environ.get("LD_PRELOAD", "")
        os.environ["LD_PRELOAD"] = f"{self._library} {self._before}".strip()
        os.environ["LATE_THREADS_BELOW"] = self._build

    def __exit__(self, *_):
        os.environ["LD_PRELOAD"] = self._before
        del os.environ["LATE_THREADS_BELOW"]


def limits(build):
    """Test -> its limit in seconds."""
    text = "".join(file.read_text(encoding="utf-8") for file in build.rglob("CTestTestfile.cmake"))
    return {name: float(limit) for name, limit in
            re.findall(r'set_tests_properties\(\[=*\[(\S+)\]=*\] PROPERTIES .*?TIMEOUT "(\d+)"', text)}


def run(build, options, folder):
    """Runs ctest once; [(test, whether it failed, seconds, output)]."""
    report = folder / "report.xml"
    command = ["ctest", "--test-dir", build, "--parallel", str(os.cpu_count()), "--output-junit", report, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as ctest:
        for line in ctest.stdout:
            if "***" in line and "***Skipped" not in line and "(Disabled)" not in line:
                print(line.rstrip(), flush=True)
    if not report.exists():
        sys.exit("ctest left no report; does it know the options?")
    cases = xml.etree.ElementTree.parse(report).getroot().findall("testcase")
    report.unlink()
    results = []
    for case in cases:
        skipped = case.find("skipped")  # also where ctest could not start the test
        reason = "" if skipped is None else skipped.get("message", "")
        if case.get("status") != "disabled" and not reason.startswith("SKIP_"):
            output = case.findtext("system-out") or reason
            results.append((case.get("name"), case.get("status") != "run", float(case.get("time")), output))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--busy", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--late", action="store_true")
    arguments, options = parser.parse_known_args()
    failures, longest, runs = collections.Counter(), collections.Counter(), collections.Counter()
    with contextlib.ExitStack() as meanwhile:
        folder = pathlib.Path(meanwhile.enter_context(tempfile.TemporaryDirectory()))
        if arguments.late:
            meanwhile.enter_context(LateThreads(arguments.build, folder))
        meanwhile.enter_context(Busy(arguments.busy))
        for number in range(1, arguments.rounds + 1):
            with SlowRanks(arguments.build if arguments.slow else "/nowhere"):
                results = run(arguments.build, options, folder)
            for name, failed, seconds, output in results:
                runs[name] += 1
                failures[name] += failed
                longest[name] = max(longest[name], seconds)
                if failed:
                    print(f"== round {number}: {name} failed after {seconds:.0f} s", *output.splitlines()[-SHOWN:],
                          sep="\n", flush=True)
            print(f"round {number}: {sum(failed for _, failed, *_ in results)} of {len(results)} tests failed",
                  flush=True)
    for name, count in failures.most_common():
        if count:
            print(f"{name:40} failed in {count} of {runs[name]} rounds")
    allowed = limits(arguments.build)
    near = sorted(((longest[name] / allowed[name], name) for name in longest if name in allowed), reverse=True)
    for share, name in near[:NEAREST]:
        print(f"{name:40} took {longest[name]:.0f} s at most, {100 * share:.0f} % of its limit")
    return 1 if failures.total() or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
