#!/usr/bin/env python3
"""Folders of images against Pillow: the same pixels, and no class that disappears without a word.

    images_test.py COHORT [-- UNITTEST-OPTION...]

Needs Pillow, of this interpreter or of the one in build/peers (tests/tools/install_peers.sh; tensorboard brings it);
without it the exit code is 77.
"""

import importlib.util
import os
import pathlib
import struct
import sys
import tempfile
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
PEERS = ROOT / "build" / "peers" / "bin" / "python3"
if not all(importlib.util.find_spec(name) for name in ("PIL", "h5py")):
    if not PEERS.exists() or pathlib.Path(sys.prefix).resolve() == PEERS.parents[1].resolve():
        print("skipped: Pillow or h5py is missing")
        sys.exit(77)
    os.execv(PEERS, [str(PEERS), *sys.argv])

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import cli_support  # noqa: E402
import h5py  # noqa: E402
import numpy as np  # noqa: E402
from cli_support import run  # noqa: E402
from PIL import Image, features  # noqa: E402

HEIGHT, WIDTH = 9, 14
OTHER_FORMATS = {"WebP": "webp", "BMP": "bmp", "GIF": "gif", "TIFF": "tif", "AVIF": "avif", "JPEG2000": "jp2", "PPM": "ppm"}


def pixels(*channels, seed=5):
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, *channels)).astype(np.uint8)


def smooth(channels):
    """What JPEG keeps well."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    return np.stack([30 + 9 * rows + 7 * columns + 20 * k for k in range(channels)], 2).clip(0, 255).astype(np.uint8)


def with_chunk(path, kind, data):
    """Puts a chunk into a PNG file behind its header."""
    whole = path.read_bytes()
    chunk = struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path.write_bytes(whole[:33] + chunk + whole[33:])


def over_white(colour, alpha):
    """Mixed as stored: what a browser or an editor shows, in exact arithmetic."""
    colour, alpha = colour.astype(np.int64), alpha.astype(np.int64)[..., None]
    return ((2 * (colour * alpha + 255 * (255 - alpha)) + 255) // 510).astype(np.uint8)


class Images(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="cohort-images-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.output = self.folder / "out.h5"
        self.images = self.folder / "images"

    def path(self, name):
        path = self.images / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def imported(self, *options, code=0):
        return run("import", "--format", "folder", "--input", self.images, "--output", self.output, "--overwrite",
                   *options, code=code)

    def stored(self, save):
        """Pixels [H,W,C] that an import stores of the file that save(path) makes."""
        for group in ("train", "test"):
            save(self.path(f"{group}/a/file"))
        done = self.imported()
        with h5py.File(self.output) as file:
            self.assertTrue((file["train/samples"][()] == file["test/samples"][()]).all())
            return file["train/samples"][0].transpose(1, 2, 0), done.stdout

    def check(self, image, expected, message, kind="PNG", change=None, tolerance=0, **options):
        def save(path):
            path = path.with_suffix(".png" if kind == "PNG" else ".jpg")
            image.save(path, kind, **options)
            if change:
                change(path)
        found, said = self.stored(save)
        self.assertEqual(found.shape, expected.shape, message)
        self.assertLessEqual(int(np.abs(found.astype(int) - expected.astype(int)).max()), tolerance, message)
        for path in self.images.rglob("*.*"):
            path.unlink()
        return said

    def test_png_pixels_are_as_stored(self):
        for mode, channels in (("L", ()), ("RGB", (3,))):
            image = Image.fromarray(pixels(*channels), mode)
            plain = pixels(*channels).reshape(HEIGHT, WIDTH, -1)
            self.check(image, plain, mode)
            for gamma in (20000, 45455, 100000):
                self.check(image, plain, f"{mode} with gAMA {gamma}",
                           change=lambda path, value=gamma: with_chunk(path, b"gAMA", struct.pack(">I", value)))
            self.check(image, plain, f"{mode} with cHRM",
                       change=lambda path: with_chunk(path, b"cHRM", struct.pack(
                           ">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)))
        palette = Image.fromarray(pixels(3), "RGB").quantize(17)
        self.check(palette, np.asarray(palette.convert("RGB")), "palette")
        for bits in (1, 4):
            few = Image.fromarray(pixels() % (2 ** bits), "P")
            few.putpalette([k * 13 % 256 for k in range(3 * 2 ** bits)])
            self.check(few, np.asarray(few.convert("RGB")), f"palette of {bits} bits", bits=bits)
        two = Image.fromarray(pixels() // 128 * 255, "L").convert("1")
        self.check(two, np.asarray(two.convert("L"))[..., None], "one bit")

    def test_sixteen_bits_become_the_nearest_of_eight(self):
        deep = np.random.default_rng(3).integers(0, 65536, (HEIGHT, WIDTH)).astype(np.uint16)
        deep[0, :4] = [0, 65535, 128, 129]
        self.check(Image.fromarray(deep), np.round(deep / 257).astype(np.uint8)[..., None], "16 bits")

    def test_transparent_pixels_are_mixed_with_white_as_stored(self):
        colour = pixels(4)
        colour[0, :3] = [[0, 0, 0, 250], [255, 0, 0, 64], [10, 20, 30, 0]]
        expected = over_white(colour[..., :3], colour[..., 3])
        self.assertEqual(expected[0, :3].tolist(), [[5, 5, 5], [255, 191, 191], [255, 255, 255]])
        self.check(Image.fromarray(colour, "RGBA"), expected, "RGBA")
        self.check(Image.fromarray(colour, "RGBA"), expected, "RGBA with a gAMA chunk",
                   change=lambda path: with_chunk(path, b"gAMA", struct.pack(">I", 100000)))
        grey = pixels(2)
        self.check(Image.fromarray(grey, "LA"), over_white(grey[..., :1], grey[..., 1]), "LA")
        palette = Image.fromarray(pixels(3), "RGB").quantize(9)
        colours = palette.convert("RGBA")
        alphas = bytes(range(0, 252, 28))
        expected = np.asarray(colours)[..., :3]
        alpha = np.asarray(palette).choose(list(alphas))
        self.check(palette, over_white(expected, alpha), "palette with alphas", transparency=alphas)
        clear = Image.fromarray(pixels() // 4, "L")
        expected = np.where(np.asarray(clear) == 7, 255, np.asarray(clear))[..., None]
        self.check(clear, expected.astype(np.uint8), "a grey that is transparent", transparency=7)

    def test_jpeg_pixels_are_those_of_pillow(self):
        # Two builds of libjpeg may round apart by one in the transform and by one in the colours.
        for channels, modes in ((1, "L"), (3, "RGB"), (4, "CMYK")):
            image = Image.fromarray(smooth(channels).squeeze(), modes)
            for quality in (60, 95):
                for progressive in (False, True):
                    options = {"quality": quality, "progressive": progressive}
                    image.save(self.folder / "wanted.jpg", **options)
                    with Image.open(self.folder / "wanted.jpg") as wanted:
                        wanted = np.asarray(wanted.convert("L" if channels == 1 else "RGB"))
                    self.check(image, wanted.reshape(HEIGHT, WIDTH, -1), f"{modes} {options}", "JPEG", tolerance=2,
                               **options)

    def test_exif_orientations_are_counted_and_left(self):
        image = Image.fromarray(smooth(3), "RGB")
        exif = Image.Exif()
        for kind in ("JPEG", "PNG"):
            image.save(self.folder / "wanted", kind)
            with Image.open(self.folder / "wanted") as wanted:
                wanted = np.asarray(wanted)
            for orientation, said in ((1, False), (6, True), (3, True)):
                exif[0x0112] = orientation
                text = self.check(image, wanted, kind, kind, tolerance=2, exif=exif)
                self.assertEqual("2 of them have an EXIF orientation" in text, said, (kind, orientation, text))

    def test_classes_of_other_formats_do_not_disappear(self):
        classes = {"cat": "png", "dog": None, "emu": "jpg"}
        usable = {kind: ending for kind, ending in OTHER_FORMATS.items()
                  if features.check({"WebP": "webp", "TIFF": "libtiff", "AVIF": "avif", "JPEG2000": "jpg_2000"}.get(kind, "jpg"))}
        self.assertGreaterEqual(len(usable), 4)
        image = Image.fromarray(smooth(3), "RGB")
        for kind, ending in usable.items():
            for group in ("train", "test"):
                for name, own in classes.items():
                    image.save(self.path(f"{group}/{name}/1.{own or ending}"))
            done = self.imported(code=3)
            self.assertIn("dog", done.stderr, kind)
            self.assertIn(kind, done.stderr)
            # One among others, under any name: not left out either.
            for group in ("train", "test"):
                image.save(self.path(f"{group}/dog/2.png"))
                self.path(f"{group}/dog/1.{ending}").rename(self.path(f"{group}/dog/1.data"))
            self.assertIn("1.data", self.imported(code=3).stderr, kind)
            for group in ("train", "test"):
                self.path(f"{group}/dog/1.data").rename(self.path(f"{group}/dog/1.png"))
            self.assertIn(kind, self.imported(code=3).stderr)
            for group in ("train", "test"):
                self.path(f"{group}/dog/1.png").unlink()
            self.assertIn("6 images, classes cat, dog, emu", self.imported().stdout)
            for group in ("train", "test"):
                self.path(f"{group}/dog/2.png").unlink()

    def test_images_without_a_name_for_it_are_read(self):
        image = Image.fromarray(smooth(3), "RGB")
        for group in ("train", "test"):
            for name, kind in (("a/one", "JPEG"), ("a/two.jfif", "JPEG"), ("b/three", "PNG")):
                image.save(self.path(f"{group}/{name}"), kind)
            self.path(f"{group}/b/notes.txt").write_text("no image")
        self.assertIn("6 images, classes a, b", self.imported().stdout)

    def test_a_class_without_images_is_named(self):
        image = Image.fromarray(smooth(3), "RGB")
        for layout in ("", "train/"):
            for name in ("cat", "emu"):
                image.save(self.path(f"{layout}{name}/1.png"))
                image.save(self.path(f"{layout}{name}/2.png"))
            (self.images / layout / "dog").mkdir()
            done = self.imported("--test-fraction", 0.5, code=3)
            self.assertIn("dog]", done.stderr)
            self.path(f"{layout}dog/notes.txt").write_text("no image")
            self.assertIn("dog]", self.imported("--test-fraction", 0.5, code=3).stderr)
            self.path(f"{layout}dog/notes.txt").unlink()
            (self.images / layout / "dog").rmdir()
            self.assertIn("classes cat, emu", self.imported("--test-fraction", 0.5).stdout)
            for path in self.images.rglob("*.png"):
                path.unlink()


if __name__ == "__main__":
    cli_support.main()
