#!/usr/bin/env python3
"""Text: import, training in every mode, evaluation, generation.

runs_test.py COHORT MPIRUN [MPIRUN-OPTION...] [-- UNITTEST-OPTION...]
"""

import collections
import json
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
from cli_support import events, h5py, np, run, run_ranks  # noqa: E402

MODES = [*(("servers", mode) for mode in ("ssgd", "asgd", "static:2", "dynamic", "saps:8", "adaptive", "localsgd:2")),
         ("ring", "ring"), ("ring", "ring:2")]


def fable(sentences, seed=1):
    """Text with rules that a small model learns: who does what to whom, always the same way."""
    draw = random.Random(seed)
    does = {"fox": ("sees", "grape"), "crow": ("holds", "cheese"), "ant": ("stores", "grain"), "hare": ("runs", "home")}
    lines = []
    for _ in range(sentences):
        who = draw.choice(sorted(does))
        verb, what = does[who]
        lines.append(f"The {who} {verb} the {what}, and the {who} is glad.")
    return "\n".join(lines) + "\n"


def unigram_perplexity(data):
    """Of the test tokens, under the frequencies of the train tokens (each one more than counted)."""
    with h5py.File(data) as file:
        counts = collections.Counter(file["train/samples"][:, 1:].ravel().tolist())
        test = file["test/samples"][:, 1:].ravel().tolist()
        total = sum(counts.values()) + int(file.attrs["classes"])
        return math.exp(-sum(math.log((counts[token] + 1) / total) for token in test) / len(test))


class Text(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="cohort-text-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.text = cls.folder / "fable.txt"
        cls.text.write_text(fable(900))
        cls.data = cls.import_text(cls.text, "--context", 8)

    @classmethod
    def import_text(cls, path, *options, name="text.h5"):
        done = run("import", "--format", "text", "--input", path, "--test-fraction", 0.1, "--output",
                   cls.folder / name, "--overwrite", *options)
        cls.shown = done.stdout
        return cls.folder / name

    def out(self):
        return self.folder / self.id().rsplit(".", 1)[-1]

    def train(self, ranks, *options, model="gpt:32,1,2", lr=0.01, code=0):
        done = run_ranks(ranks, "train", "--data", self.data, "--out", self.out(), "--overwrite", "--model", model,
                         "--batch", 16, "--threads", 1, "--optimizer", "adamw", "--lr", lr, *options, code=code)
        return events(self.out())[-1] if code == 0 else None, done.stderr

    def check_accounts(self, summary):
        self.assertEqual(summary["samples_outstanding"], 0)
        self.assertEqual(summary["samples_leased"], summary["samples_applied"] + summary["samples_returned"])
        self.assertAlmostEqual(summary["test_perplexity"], math.exp(summary["test_loss"]), places=9)

    def test_every_mode_learns_and_its_accounts_add_up(self):
        unigram = unigram_perplexity(self.data)
        for arch, mode in MODES:
            with self.subTest(arch=arch, mode=mode):
                summary, log = self.train(3, "--arch", arch, "--mode", mode, "--samples", 1600)
                self.check_accounts(summary)
                self.assertEqual(summary["samples_applied"], 1600)
                self.assertLess(summary["test_perplexity"], unigram / 2)
                self.assertRegex(log, r"test after 1600 samples: accuracy .*, perplexity [0-9.]+")
                self.assertRegex(log, r"perplexity [0-9.]+")

    def test_servers_with_one_worker_equal_a_ring_of_one(self):
        losses = []
        for model in ("lstm", "transformer", "gpt:32,2,4"):
            for ranks, arch in ((2, "servers"), (1, "ring")):
                summary, _ = self.train(ranks, "--arch", arch, "--samples", 96, "--deterministic", model=model)
                losses.append(summary["test_loss"])
            self.assertEqual(losses[-1], losses[-2], model)
        self.assertEqual(len(set(losses)), 3)

    def test_virtual_and_real_jobs_report_the_same_kind_of_scores(self):
        done = run("simulate", "--data", self.data, "--model", "gpt:32,1,2", "--time-as", "resnet20", "--workers", 3,
                   "--batch", 16, "--samples", 3200, "--optimizer", "adamw", "--lr", 0.01, "--mode", "asgd",
                   "--threads", 1, "--json")
        summary = json.loads(done.stdout)
        self.assertAlmostEqual(summary["test_perplexity"], math.exp(summary["test_loss"]), places=9)
        self.assertLess(summary["test_perplexity"], unigram_perplexity(self.data) / 2)
        self.assertIn(f"perplexity {summary['test_perplexity']:.2f}", done.stderr)

    def test_a_target_loss_ends_real_and_virtual_runs(self):
        target = ["--target-loss", 1, "--eval-every-samples", 160, "--samples", 16000]
        summary, log = self.train(1, *target)
        self.assertEqual(summary["stop_reason"], "target")
        self.assertLessEqual(summary["test_loss"], 1)
        self.assertLess(summary["samples_applied"], 16000)
        self.assertIn("target loss 1 reached", log)
        reached = next(event for event in events(self.out(), "evaluation") if event["test_loss"] <= 1)
        self.assertEqual(summary["tta_s"], reached["train_s"])
        self.assertLessEqual(summary["samples_applied"] - reached["samples_applied"], 160)
        done = run("simulate", "--data", self.data, "--model", "gpt:32,1,2", "--time-as", "resnet20", "--workers", 2,
                   "--batch", 16, "--optimizer", "adamw", "--lr", 0.01, "--threads", 1, "--json", *target)
        summary = json.loads(done.stdout)
        self.assertEqual(summary["stop_reason"], "target")
        self.assertEqual(summary["tta_virtual_s"], summary["virtual_s"])
        self.assertIn("target loss 1 reached", done.stderr)

    def test_resume_goes_on_where_it_was(self):
        options = ["--arch", "ring", "--deterministic", "--checkpoint-every-samples", 160]
        whole, _ = self.train(2, *options, "--samples", 640)
        self.train(2, *options, "--samples", 320)
        run_ranks(2, "train", "--data", self.data, "--out", self.out(), "--resume", "--model", "gpt:32,1,2", "--batch",
                  16, "--threads", 1, "--optimizer", "adamw", "--lr", 0.01, *options, "--samples", 640)
        self.assertEqual(events(self.out())[-1]["test_loss"], whole["test_loss"])

    def test_eval_and_generate_go_on_from_the_model(self):
        summary, _ = self.train(1, "--samples", 6400)
        model = self.out() / "model.h5"
        done = run("eval", "--data", self.data, "--model-file", model, "--json")
        report = json.loads(done.stdout)
        self.assertAlmostEqual(report["loss"], summary["test_loss"], places=5)
        self.assertAlmostEqual(report["perplexity"], math.exp(report["loss"]), places=9)
        self.assertIn("perplexity", run("eval", "--data", self.data, "--model-file", model).stdout)
        other = self.import_text(self.text, "--context", 8, "--vocabulary", 12, name="other.h5")
        run("eval", "--data", other, "--model-file", model, code=3)

        def generate(*options, **more):
            return run("generate", "--model-file", model, "--threads", 1, *options, **more)
        rule = "The fox sees the grape, and the fox is glad."
        greedy = generate("--prompt", "The fox", "--tokens", 10, "--temperature", 0)
        self.assertEqual(greedy.stdout, rule + "\n")
        long = generate("--prompt", "The fox", "--tokens", 60, "--temperature", 0).stdout
        self.assertTrue(long.startswith(rule), long)
        draws = {generate("--prompt", "The", "--tokens", 20, "--seed", seed).stdout for seed in range(5)}
        self.assertGreater(len(draws), 1)
        again = [generate("--prompt", "The", "--tokens", 20, "--seed", 3, "--top-k", 4).stdout for _ in range(2)]
        self.assertEqual(*again)
        self.assertEqual(generate("--prompt", "The ant", "--tokens", 10, "--top-k", 1, "--temperature", 5).stdout,
                         "The ant stores the grain, and the ant is glad.\n", "of one there is no choice")
        unknown = generate("--prompt", "The wolf and the bear", "--tokens", 3)
        self.assertEqual(unknown.stderr.count("not in the vocabulary, read as <unk>: wolf, bear"), 1)
        self.assertNotIn("<unk>", generate("--tokens", 200, "--temperature", 50).stdout)
        self.assertEqual(generate("--prompt", "The fox", "--tokens", 0).stdout, "The fox\n")
        generate("--prompt", "x", "--temperature=-1", code=2)
        run("generate", code=2)
        with h5py.File(model) as file:
            self.assertEqual(np.bytes_(file.attrs["tokens"]), b"words")
            self.assertTrue(bytes(file["vocabulary"][()]).startswith(b"<unk>\n<eos>\n"))

    def test_bytes_and_numbers_without_vocabulary(self):
        self.data = self.import_text(self.text, "--context", 16, "--tokens", "bytes", name="bytes.h5")
        self.assertEqual(h5py.File(self.data).attrs["classes"], 256)
        self.train(1, "--samples", 160)
        done = run("generate", "--model-file", self.out() / "model.h5", "--prompt", "The f", "--tokens", 0)
        self.assertEqual(done.stdout, "The f\n")
        with h5py.File(self.folder / "numbers.h5", "w") as file:
            file.attrs.update(format="cohort-dataset", version=1, classes=7)
            for group, count in ("train", 64), ("test", 16):
                file[f"{group}/samples"] = np.arange(count * 6, dtype=np.int32).reshape(count, 6) % 7
        self.data = self.folder / "numbers.h5"
        summary, _ = self.train(1, "--samples", 640)
        self.assertLess(summary["test_perplexity"], 2)
        done = run("generate", "--model-file", self.out() / "model.h5", code=3)
        self.assertIn("the model has no vocabulary", done.stderr)

    def test_what_does_not_fit_is_named(self):
        _, log = self.train(1, "--samples", 16, "--augment", "flip", code=2)
        self.assertIn("not possible with tokens", log)
        for model in ("lenet", "resnet20"):
            self.assertIn(model, self.train(1, "--samples", 16, model=model, code=2)[1])
        beyond = self.folder / "beyond.h5"
        shutil.copy(self.data, beyond)
        with h5py.File(beyond, "a") as file:
            file["train/samples"][3, 2] = 60000
            del file["train/samples_crc32"]
        done = run("info", "--data", beyond, code=3)
        self.assertRegex(done.stderr, r"sample 3 holds a token beyond the vocabulary; expected 0 to \d+, got 60000 at \[2\]")
        with h5py.File(beyond, "a") as file:
            file["train/labels"] = np.zeros(5)
        self.assertIn("labels beside tokens", run("info", "--data", beyond, code=3).stderr)

    def test_weights_of_another_vocabulary_are_refused(self):
        """The same words in another order of frequency: as many tokens, each of them another word."""
        sizes = set()
        for name, text in (("one", "fox crow crow ant ant ant\n"), ("two", "ant crow crow fox fox fox\n")):
            path = self.folder / f"{name}.txt"
            path.write_text(text * 60)
            data = self.import_text(path, "--context", 8, name=f"{name}.h5")
            with h5py.File(data) as file:
                sizes.add(int(file.attrs["classes"]))
        self.assertEqual(len(sizes), 1)
        self.data = self.folder / "one.h5"
        self.train(1, "--samples", 64)
        model = self.out() / "model.h5"
        first = model.rename(self.folder / "one-model.h5")
        self.train(1, "--samples", 64, "--init", first)
        other = ["--data", self.folder / "two.h5", "--model", "gpt:32,1,2", "--batch", 16, "--samples", 64, "--init", first]
        for words in (["train", "--out", self.out(), "--overwrite", "--threads", 1, *other],
                      ["simulate", "--time-as", "transformer", "--out", self.folder / "virtual", *other]):
            done = run(*words, code=3)
            self.assertIn("one-model.h5] the weights are of a model with another vocabulary than the text", done.stderr)

    def test_bad_input_is_named_and_nothing_is_written(self):
        for name, content in (("empty.txt", b""), ("short.txt", b"too short"), ("latin1.txt", b"caf\xe9\n")):
            (self.folder / name).write_bytes(content)
        (self.out()).mkdir()
        text = ["import", "--format", "text", "--test-fraction", 0.2, "--output", self.out() / "a.h5", "--input"]
        train = ["train", "--data", self.data, "--out", self.out() / "run", "--model", "gpt:8,1,1"]
        time_only = ["simulate", "--no-train", "--model", "resnet50", "--samples", 320]
        model = ["generate", "--model-file"]
        for words, code, *parts in (
                ([*text, self.folder / "empty.txt"], 3, "the text is empty"),
                ([*text, self.folder / "short.txt"], 3, "36 tokens or more", "--context"),
                ([*text, self.folder / "latin1.txt"], 3, "not UTF-8", "byte 0xe9 at byte 3, in line 1"),
                ([*text, self.folder / "none.txt"], 3, "none.txt"),
                ([*text, self.text, "--tokens", self.folder / "none.json"], 3, "none.json"),
                ([*text, self.text, "--tokens", self.text], 3, "not a tokenizer.json"),
                ([*text, self.text, "--tokens", "bytes", "--vocabulary", 5], 2, "--tokens words only"),
                ([*text, self.text, "--classes", 5], 2, "no --shape, --classes"),
                ([*text, self.text, "--context=0"], 2, "at least 1"),
                (["import", "--input", self.text, "--output", self.out() / "a.h5", "--context", 5], 2,
                 "with --format text"),
                (["import", "--input", self.text, "--test-fraction", 0.2, "--output", self.out() / "a.h5"], 3,
                 "--format"),
                ([*train, "--target-accuracy", 0.5, "--target-loss", 1], 2, "one of them"),
                ([*train, "--target-loss=-1"], 2, "at least 0"),
                ([*time_only, "--target-loss", 0.5], 2, "nothing with --no-train"),
                (["generate"], 2, "--model-file FILE"),
                ([*model, self.data], 3, "text.h5"),
                ([*model, self.data, "--temperature=-1"], 2, "0 to 1000")):
            with self.subTest(words=words):
                done = run(*words, code=code)
                for part in parts:
                    self.assertIn(part, done.stderr)
                self.assertEqual(list(self.out().iterdir()), [])

    def test_info_profile_and_verify(self):
        shown = run("info", "--data", self.data, "--verify", "--model", "lstm").stdout
        self.assertRegex(shown, r"data train: .* \[8\] uint16, \d+ tokens in the vocabulary")
        self.assertIn("matches the file's", shown)
        self.assertRegex(shown, "model lstm")
        profile = run("profile", "--model", "gpt:32,1,2", "--data", self.data, "--batch", 4, "--repetitions", 7).stdout
        self.assertIn("gpt:32,1,2", profile)

    def test_the_kjv_is_learned_by_an_lstm(self):
        self.assertIsNotNone(shutil.which("bible"), "jobs/install_deps.sh installs Debian's package bible-kjv")
        done = subprocess.run(["bible", "-f", "gen1:1-gen9:29"], capture_output=True, text=True, check=True)
        path = self.folder / "genesis.txt"
        path.write_text("".join(line.split(" ", 1)[1] for line in done.stdout.splitlines(keepends=True)))
        self.data = self.import_text(path, "--vocabulary", 400, "--context", 20, name="kjv.h5")
        self.assertRegex(self.shown, r"a vocabulary of 400; of the train text \d+\.\d\d % are <unk>")
        unigram = unigram_perplexity(self.data)
        samples = 8 * h5py.File(self.data)["train/samples"].shape[0]
        for ranks, arch in ((3, "servers"), (2, "ring")):
            summary, _ = self.train(ranks, "--arch", arch, "--samples", samples, model="lstm", lr=0.005)
            self.check_accounts(summary)
            self.assertLess(summary["test_perplexity"], 0.7 * unigram, arch)
        report = run("eval", "--data", self.data, "--model-file", self.out() / "model.h5", "--json").stdout
        self.assertAlmostEqual(json.loads(report)["loss"], summary["test_loss"], places=4)
        shown = run("generate", "--model-file", self.out() / "model.h5", "--prompt", "And God said", "--tokens", 20,
                    "--temperature", 0.8, "--top-k", 40).stdout
        self.assertTrue(shown.startswith("And God said"), shown)


if __name__ == "__main__":
    cli_support.main()
