#!/usr/bin/env python3
"""Tokens of a tokenizer.json: those of PyPI's package tokenizers, which made the file.   tokenizers_test.py COHORT

Where the package is missing the test is skipped (exit code 77), which ctest shows.
"""

import importlib.util
import pathlib
import random
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
from cli_support import h5py, run  # noqa: E402

# What GPT-2's pattern treats differently: contractions, numbers, spaces of all kinds, scripts, marks, an added token.
PIECES = ["'s", "'LL", "'ll", " we've", "12,345", " 7", "½", " naïve", "cafés", "\u2026", " «q»", "\n", "\n\n", "  ", " \t", "\t",
          "\r\n", "\u3000", "\u00a0", "中文", "字 ", "e\u0301", " \u0301", "ÄÖÜß", "\U0001F44D\U0001F3FD", "<|endoftext|>", "<|", "_",
          " --", "ａ", "٣", "\u200b", "the ", "The", " grape", "!", "?!", " ("]


def texts():
    draw = random.Random(3)
    return ["".join(draw.choice(PIECES) for _ in range(length)) for length in (2, 3, 40, 400, 4000)]


class Tokenizers(unittest.TestCase):

    def stored_tokens(self, folder, text):
        """All of them: windows of one token and its label share their ends."""
        for name in ("text.txt", "test.txt"):
            (folder / name).write_bytes(text.encode())
        run("import", "--format", "text", "--input", folder / "text.txt", "--input", folder / "test.txt", "--tokens",
            folder / "tokenizer.json", "--context", 1, "--output", folder / "text.h5", "--overwrite")
        with h5py.File(folder / "text.h5") as file:
            rows = file["train/samples"][()]
            self.assertTrue((file["test/samples"][()] == rows).all())
        return [int(token) for token in [rows[0, 0], *rows[:, 1]]]

    def test_tokens_are_the_same(self):
        import tokenizers  # pylint: disable=import-outside-toplevel
        compared = 0
        with tempfile.TemporaryDirectory(prefix="cohort-tokenizers-") as temporary:
            folder = pathlib.Path(temporary)
            for prefix in (False, True):
                made = tokenizers.Tokenizer(tokenizers.models.BPE())
                made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=prefix)
                made.train_from_iterator(texts(), tokenizers.trainers.BpeTrainer(
                    vocab_size=600, special_tokens=["<|endoftext|>"], show_progress=False,
                    initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
                made.save(str(folder / "tokenizer.json"))
                for text in texts():
                    expected = made.encode(text).ids
                    if len(expected) >= 2:  # a window
                        self.assertEqual(self.stored_tokens(folder, text), expected, text[:200])
                        compared += len(expected)
        self.assertGreater(compared, 5000)


if __name__ == "__main__":
    if importlib.util.find_spec("tokenizers") is None:
        print("skipped: the package tokenizers is not installed (pip install tokenizers)")
        sys.exit(77)
    cli_support.main()
