#!/usr/bin/env python3
"""Builds the documentation as one searchable site, target/site/book, by mdBook, and checks each link in it.

The table of contents is made from docs/README.md: its headings are the parts, the first link to each page is its place. So nothing is listed twice. The
repository's places are kept (README.md, docs/..., bench/runs/...), and what a page links to is copied beside it."""
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "target/site"
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
BOOK = """[book]
title = "Understudy"
language = "en"
src = "src"

[output.html]
no-section-label = true
fold = { enable = true, level = 0 }
additional-css = ["wide.css"]
"""


def title(page: Path) -> str:
    return next(line[2:] for line in page.read_text().splitlines() if line.startswith("# "))


def contents() -> tuple[str, list[Path]]:
    """SUMMARY.md, and the pages that it names."""
    lines, pages = ["# Documentation", "", "[Understudy](README.md)", "[What you want to know](docs/README.md)"], []
    pages += [ROOT / "README.md", ROOT / "docs/README.md"]
    parts = (ROOT / "docs/README.md").read_text().partition("\n## ")
    for line in f"## {parts[2]}".splitlines():
        if line.startswith("## "):
            lines += ["", f"# {line[3:]}", ""]
        for link in LINK.findall(line):
            page = (ROOT / "docs" / link).resolve()
            if page.suffix == ".md" and page not in pages:
                pages.append(page)
                lines.append(f"- [{title(page)}]({page.relative_to(ROOT)})")
    lines += ["", "---", "", "[Changelog](CHANGELOG.md)"]
    return "\n".join(lines) + "\n", [*pages, ROOT / "CHANGELOG.md"]


def copy_linked(pages: list[Path], source: Path) -> None:
    """What the pages link to and are not: files, and runs, whose directories are given a list of their files."""
    for page in pages:
        for link in LINK.findall(page.read_text()):
            target = (page.parent / unquote(link)).resolve()
            to = source / os.path.relpath(target, ROOT)
            if "://" in link or target in pages or to.exists():
                continue
            if target.is_dir():
                shutil.copytree(target, to)
                names = sorted(path.name for path in target.iterdir())
                listed = "".join(f'<li><a href="{name}">{name}</a></li>' for name in names)
                (to / "index.html").write_text(f"<title>{target.name}</title><ul>{listed}</ul>\n")
            else:
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(target, to)


class Links(HTMLParser):
    def __init__(self, page: Path):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids.add(values.get("id"))
        self.links += [values[name] for name in ("href", "src") if tag != "link" and values.get(name)]


def broken(book: Path) -> list[str]:
    pages = {page: Links(page) for page in book.rglob("*.html") if "bench" not in page.parts and page.name not in ("404.html", "print.html", "toc.html")}
    wrong = []
    for page, found in pages.items():
        for link in found.links:
            path, _, place = unquote(link).partition("#")
            target = (page.parent / path).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            if re.match(r"[a-z]+:", link):
                continue
            if not target.exists() or (place and target in pages and place not in pages[target].ids):
                wrong.append(f"{page.relative_to(book)}: {link}")
    return wrong


def main() -> None:
    if not shutil.which("mdbook"):
        sys.exit("docs: mdbook is missing: cargo install mdbook --locked")
    shutil.rmtree(SITE, ignore_errors=True)
    source = SITE / "src"
    summary, pages = contents()
    for page in pages:
        to = source / page.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        # mdBook makes index.html of a README, and follows no link to it.
        to.write_text(re.sub(r"\]\(([^):]*)README\.md", r"](\1index.html", page.read_text()))
    copy_linked(pages, source)
    (source / "SUMMARY.md").write_text(summary)
    (SITE / "book.toml").write_text(BOOK)
    (SITE / "wide.css").write_text(":root { --content-max-width: 1200px; }\n")
    subprocess.run(["mdbook", "build", SITE], check=True)
    wrong = broken(SITE / "book")
    if wrong:
        sys.exit("docs: these links lead nowhere:\n" + "\n".join(wrong))
    print(f"docs: {len(pages)} pages in {SITE / 'book/index.html'}")


main()
