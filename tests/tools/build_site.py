#!/usr/bin/env python3
"""Makes a site of the README, docs/ and what they link to: plain HTML without scripts, readable from a folder.

    build_site.py OUT           the site, its links and headings checked; exit code 1 names dead ones, 77: no markdown-it
    build_site.py OUT --widths  also whether a page is wider than a screen of 390 pixels; exit code 77: no chromium
    build_site.py --self-test   plant a dead link, a dead heading and a wide page (with chromium) and see each one found

Debian's package python3-markdown-it reads Markdown as GitHub does.
"""

import html
import html.parser
import os
import pathlib
import re
import shutil
import string
import subprocess
import sys
import tempfile
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support/core"))
from guard import left_s  # noqa: E402

SITE = pathlib.Path(__file__).resolve().parent / "site"
SKIPPED = 77
PHONE = 390  # pixels
INDEX = pathlib.PurePosixPath("docs/README.md")


def address(name):
    """Where the site has a file of the tree: pages as .html, pictures as they are, other files as pages of text."""
    if name.name == "README.md":
        return name.with_name("index.html")
    if name.suffix in (".svg", ".png", ".css"):
        return name
    return name.with_suffix(".html") if name.suffix == ".md" else name.with_name(name.name + ".html")


def relative(target, page):
    return os.path.relpath(target, page.parent)


def anchor(heading, taken):
    """The name of a heading in links, as on GitHub; that of the second of a name ends in -1."""
    plain = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
    taken[plain] = taken.get(plain, -1) + 1
    return f"{plain}-{taken[plain]}" if taken[plain] else plain


def groups_of(index):
    """The headings of the index, each with the pages that are listed below it: (heading, [(title, link)])."""
    groups = []
    for opening, text in zip(index, index[1:]):
        if opening.type == "heading_open" and opening.tag == "h2":
            groups.append((text.content, []))
        for link, label in zip(opening.children or (), (opening.children or ())[1:]):
            if groups and link.type == "link_open":
                groups[-1][1].append((label.content, link.attrs["href"]))
    return groups


class Site:
    """Pages by their names in the tree; what they link to becomes part of the site."""

    def __init__(self, out, markdown):
        self.out = out
        self.markdown = markdown
        self.template = string.Template((SITE / "page.html").read_text(encoding="utf-8"))
        self.waiting = [pathlib.PurePosixPath("README.md"), INDEX]
        self.known = set(self.waiting)
        self.groups = groups_of(markdown.parse((ROOT / INDEX).read_text(encoding="utf-8")))

    def build(self):
        self.out.mkdir(parents=True, exist_ok=True)
        shutil.copy(SITE / "style.css", self.out)
        while self.waiting:
            self.add(self.waiting.pop())

    def add(self, name):
        source = ROOT / name
        if source.is_dir():
            self.write(name, str(name), self.listing(name))
        elif name.suffix == ".md":
            self.write(name, *self.article(name))
        elif address(name) == name:
            (self.out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, self.out / name)
        else:
            text = html.escape(source.read_text(encoding="utf-8"))
            self.write(name, str(name), f"<h1>{name}</h1>\n<pre><code>{text}</code></pre>")

    def listing(self, name):
        files = [file.relative_to(ROOT) for file in sorted((ROOT / name).rglob("*"))
                 if file.is_file() and "__pycache__" not in file.parts]
        items = [f'<li><a href="{self.link(str(file), pathlib.PurePosixPath("."), address(name))}">{file}</a></li>'
                 for file in files]
        return f"<h1>{name}</h1>\n<ul>\n" + "\n".join(items) + "\n</ul>"

    def link(self, target, folder, page):
        """A link of the tree, seen from `folder`, as a link of the site; pages to come are noted."""
        parts = urllib.parse.urlsplit(target)
        if parts.scheme or not parts.path:
            return target
        name = pathlib.PurePosixPath(os.path.normpath(folder / parts.path))
        if not (ROOT / name).exists():
            return target  # the check names it
        if name not in self.known:
            self.known.add(name)
            self.waiting.append(name)
        return urllib.parse.urlunsplit(("", "", relative(address(name), page), "", parts.fragment))

    def relink(self, tokens, folder, page):
        for token in tokens:
            for child in token.children or ():
                for attribute in ("href", "src"):
                    if attribute in child.attrs:
                        child.attrs[attribute] = self.link(child.attrs[attribute], folder, page)

    def article(self, name):
        """Title, body and sections of a page."""
        tokens = self.markdown.parse((ROOT / name).read_text(encoding="utf-8"))
        taken, sections, title = {}, [], str(name)
        for opening, text in zip(tokens, tokens[1:]):
            if opening.type == "heading_open":
                opening.attrs["id"] = anchor(text.content, taken)
                if opening.tag == "h1":
                    title = text.content.replace("`", "")
                elif opening.tag == "h2":
                    sections.append((text.content.replace("`", ""), f"#{opening.attrs['id']}"))
        self.relink(tokens, name.parent, address(name))
        return title, self.markdown.renderer.render(tokens, self.markdown.options, {}), sections

    def pages(self, page, sections):
        """The list of all pages, seen from one of them, whose sections are listed too."""
        lines = []
        for heading, entries in self.groups:
            lines += [f"<p>{html.escape(heading)}</p>", "<ul>"]
            for title, target in entries:
                target = self.link(target, INDEX.parent, page)
                here = target == page.name
                below = [f'<li><a href="{link}">{html.escape(section)}</a></li>' for section, link in sections * here]
                lines += [f'<li><a href="{target}"{" aria-current=page" * here}>{html.escape(title)}</a>',
                          *(["<ul>", *below, "</ul>"] if below else ()), "</li>"]
            lines.append("</ul>")
        return "\n".join(lines)

    def write(self, name, title, body, sections=()):
        page = address(name)
        (self.out / page).parent.mkdir(parents=True, exist_ok=True)
        text = self.template.substitute(title=html.escape(title), body=body, pages=self.pages(page, sections),
                                        root=relative(".", page))
        (self.out / page).write_text(text, encoding="utf-8")


class Links(html.parser.HTMLParser):
    """The links and the ids of a page."""

    def __init__(self, text):
        super().__init__()
        self.targets = []
        self.ids = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key in ("href", "src"):
                self.targets.append(value)
            elif key == "id":
                self.ids.add(value)


def dead_links(out):
    pages = {page: Links(page.read_text(encoding="utf-8")) for page in sorted(out.rglob("*.html"))}
    for page, links in pages.items():
        for target in links.targets:
            parts = urllib.parse.urlsplit(target)
            file = pathlib.Path(os.path.normpath(page.parent / parts.path)) if parts.path else page
            if parts.scheme:
                continue
            if not file.is_file():
                yield f"{page.relative_to(out)}: {target}: no such file"
            elif parts.fragment and parts.fragment not in pages[file].ids:
                yield f"{page.relative_to(out)}: {target}: no such heading"


def wide_pages(out, chromium):
    """Pages that scroll sideways on a phone, each shown in a frame of its width."""
    pages = [str(page.relative_to(out)) for page in sorted(out.rglob("*.html"))]
    frames = "".join(f'<iframe src="{page}" width="{PHONE}" height="800"></iframe>' for page in pages)
    probe = out / "widths.html"
    probe.write_text(f"""<!DOCTYPE html><style>iframe {{ border: 0 }}</style>{frames}<pre></pre><script>
onload = () => {{ document.querySelector("pre").textContent = [...document.querySelectorAll("iframe")].map(frame =>
  "WIDTH " + frame.contentDocument.documentElement.scrollWidth + " " + frame.getAttribute("src")).join("\\n"); }};
</script>""", encoding="utf-8")
    shown = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom",
         "--virtual-time-budget=20000", probe.as_uri()], capture_output=True, text=True, check=True, timeout=left_s()).stdout
    probe.unlink()
    widths = {page: int(width) for width, page in re.findall(r"WIDTH (\d+) (\S+\.html)", shown)}
    yield from (f"{page}: not measured" for page in pages if page not in widths)
    yield from (f"{page}: {width} pixels wide on a screen of {PHONE}"
                for page, width in widths.items() if width > PHONE)


def self_test():
    planted = ["a.html: gone.html: no such file", "a.html: b.html#gone: no such heading"]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        (out / "a.html").write_text('<a href="gone.html"></a><a href="b.html#gone"></a><a href="b.html#kept"></a>')
        (out / "b.html").write_text('<body style="margin:0"><p id="kept" style="width:900px">wide')
        found = list(dead_links(out))
        chromium = shutil.which("chromium")
        if chromium:
            planted.append(f"b.html: 900 pixels wide on a screen of {PHONE}")
            found += wide_pages(out, chromium)
    if found != planted:
        print("expected:", *planted, "found:", *found, sep="\n  ")
        return 1
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--widths"]):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        import markdown_it  # pylint: disable=import-outside-toplevel
    except ImportError:
        print("python3-markdown-it is missing: no site is built")
        return SKIPPED
    out = pathlib.Path(sys.argv[1]).resolve()
    markdown = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    Site(out, markdown).build()
    found = list(dead_links(out))
    if sys.argv[2:]:
        chromium = shutil.which("chromium")
        if not chromium:
            print("chromium is missing: no widths are measured")
            return SKIPPED
        found += wide_pages(out, chromium)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
