#!/usr/bin/env python3
"""The figures of a run as Prometheus takes them, from a port and from a file.

prometheus_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]

Where Debian's package prometheus is installed its server scrapes a run and promtool judges the text.
"""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
from cli_support import MPIRUN, ProgramTest, events, left_s, wait_until  # noqa: E402

SAMPLE = re.compile(r'^([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\} (\S+)$')


def parse(text):
    """Metric -> labels -> value. Checks that every metric has one HELP and TYPE line, before its samples."""
    found, described = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            described = line.split(" ", 3)[2]
            assert described not in found, f"{described} comes twice"
            found[described] = {}
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == described and kind == ("counter" if name.endswith("_total") else "gauge"), line
        else:
            name, labels, value = SAMPLE.match(line).groups()
            assert name == described, line
            found[name][labels] = float(value)
    return found


class Scraping(ProgramTest):

    def start(self, *arguments):
        """A long run of two workers; returns the process and its port."""
        command = [*MPIRUN, "-n", 3, cli_support.PROGRAM, "train", "--data", self.data, "--out", self.out(),
                   "--model", "smallcnn", "--batch", 20, "--threads", 1, "--arch", "servers", "--samples",
                   10**9, "--log-every-s", 0.1, "--metrics-port", 0, *arguments]
        process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.terminate)
        for line in process.stderr:
            found = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", line)
            if found:
                threading.Thread(target=process.stderr.read, daemon=True).start()  # a full pipe stops the run
                return process, int(found[1])
        self.fail(f"no port is told, exit code {process.wait()}")

    @staticmethod
    def scrape(port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=left_s()) as answer:
            return answer.read().decode()

    def test_a_run_is_scraped_while_bad_clients_are_there(self):
        process, port = self.start()
        name = f'run="{self.out().name}"'
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for client in silent[:10]:
            client.sendall(b"\x00\xff GET")
        samples = lambda: parse(self.scrape(port))["cohort_samples_applied_total"][name]  # noqa: E731
        first = wait_until(samples, "samples")
        wait_until(lambda: samples() > first, "progress")
        found = wait_until(
            lambda: (now := parse(self.scrape(port)))["cohort_worker_compute_seconds"] and now, "loads")
        self.assertEqual(set(found["cohort_worker_up"].values()), {1})
        self.assertGreater(found["cohort_worker_compute_seconds"][name + ',worker="1"'], 0)
        self.assertEqual(found["cohort_mode_info"], {name + ',mode="ssgd"': 1})
        self.assertGreater(found["cohort_train_loss"][name], 0)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=left_s())
        self.assertEqual(refused.exception.code, 404)
        refused.exception.close()
        for client in silent:
            client.close()
        process.terminate()

    def test_the_file_ends_with_the_last_figures(self):
        file = self.folder / "cohort.prom"
        self.train("--metrics-file", file, "--samples", 200)
        text = file.read_text(encoding="utf-8")
        found = parse(text)
        name = f'run="{self.out().name}"'
        last, test = events(self.out(), "train")[-1], events(self.out(), "evaluation")[-1]
        self.assertEqual(found["cohort_samples_applied_total"][name], 200)
        self.assertAlmostEqual(found["cohort_train_loss"][name], last["loss"])
        self.assertAlmostEqual(found["cohort_test_accuracy_ratio"][name], test["test_accuracy"])
        self.assertEqual(list(self.folder.glob("cohort.prom?*")), [], "no temporary file stays")
        if shutil.which("promtool"):
            subprocess.run(["promtool", "check", "metrics"], input=text, text=True, check=True, timeout=left_s())
        self.train("--metrics-file", file, "--samples", 200, "--overwrite")
        other = self.folder / "other.txt"
        other.write_text("mine\n", encoding="utf-8")
        shutil.rmtree(self.out())
        self.train("--metrics-file", other, "--samples", 200, code=2)
        self.assertEqual(other.read_text(encoding="utf-8"), "mine\n")

    def test_a_taken_port_ends_the_run_at_its_start(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = self.train("--metrics-port", port, code=2)
        self.assertIn(f"--metrics-port {port}", done.stderr)

    @unittest.skipUnless(shutil.which("prometheus"), "Debian's package prometheus is not installed")
    def test_prometheus_reads_a_run(self):
        _, port = self.start()
        config = self.folder / "prometheus.yml"
        config.write_text("scrape_configs:\n- job_name: cohort\n  scrape_interval: 500ms\n  scrape_timeout: 400ms\n"
                          f"  static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n", encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as free:
            own = free.getsockname()[1]
        with open(self.folder / "prometheus.log", "wb") as log:
            server = subprocess.Popen(["prometheus", f"--config.file={config}",
                                       f"--storage.tsdb.path={self.folder / 'tsdb'}",
                                       f"--web.listen-address=127.0.0.1:{own}"], stderr=log, stdout=log)
        self.addCleanup(server.wait, 60)
        self.addCleanup(server.terminate)

        def series():
            query = urllib.parse.quote('cohort_worker_compute_seconds{worker="1"}')
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{own}/api/v1/query?query={query}",
                                            timeout=left_s()) as answer:
                    return json.load(answer)["data"]["result"]
            except OSError:
                return None
        found = wait_until(series, "series")
        self.assertEqual(found[0]["metric"]["run"], self.out().name)
        self.assertGreater(float(found[0]["value"][1]), 0)


if __name__ == "__main__":
    cli_support.main()
