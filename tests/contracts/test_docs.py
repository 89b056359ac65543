"""What the documents name is there: files, anchors, commands, modules, sentences that they quote.

Reads Markdown as GitHub shows it. Whether a claim in prose is true is beyond it.
"""

import ast
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.builders import CHECKOUT

CODE: Final = ("images", "infra", "workloads")
"""Folders whose messages people see."""
NOT_OURS: Final = frozenset({"build", ".git", ".venv"})
SUFFIXES: Final = (".md", ".py", ".sh", ".svg", ".toml", ".txt", ".yaml", ".yml")
MADE: Final = frozenset(
    {
        "build",
        "build/charts/volcano",
        "build/kubeconfig",
        "build/pulumi",
        "build/render/local.yaml",
        "build/report/index.html",
        "build/results",
        "build/timings.jsonl",
    }
)
"""What commands make and documents may name."""
READERS_OWN: Final = frozenset({"Pulumi.mine.yaml", "Pulumi.second.yaml"})
"""What documents tell their reader to write."""
MAX_README_LINES: Final = 150
MAX_DECISION_LINES: Final = 60
MIN_QUOTED: Final = 10
"""Characters in a row that a quoted sentence must have, to be found in one place only."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """One Markdown file."""

    path: Path
    links: tuple[str, ...]
    anchors: frozenset[str]
    codes: tuple[str, ...]
    """Spans of code, and lines of shell."""
    quotes: tuple[str, ...]
    """Spans of code in bold: messages that the document explains."""

    @property
    def name(self) -> str:
        """From the repository's root."""
        return self.path.relative_to(CHECKOUT).as_posix()

    @property
    def words(self) -> list[str]:
        """Words of its code."""
        return [word.strip(",;:()") for code in self.codes for word in code.split()]


def is_ours(path: Path) -> bool:
    return NOT_OURS.isdisjoint(path.relative_to(CHECKOUT).parts)


def read(path: Path) -> Document:
    tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
    spans = [child for token in tokens for child in token.children or ()]
    shell = [token for token in tokens if token.type == "fence" and token.info == "sh"]
    return Document(
        path=path,
        links=tuple(
            str(span.attrs["href" if span.type == "link_open" else "src"])
            for span in spans
            if span.type in ("link_open", "image")
        ),
        anchors=frozenset(anchors(tokens)),
        codes=(
            *(span.content for span in spans if span.type == "code_inline"),
            *(line for token in shell for line in token.content.splitlines()),
        ),
        quotes=tuple(
            span.content
            for before, span in pairwise(spans)
            if before.type == "strong_open" and span.type == "code_inline"
        ),
    )


def anchors(tokens: list[Token]) -> Iterator[str]:
    """Names by which GitHub lets headings be linked to."""
    seen: Counter[str] = Counter()
    for before, token in pairwise(tokens):
        if before.type != "heading_open":
            continue
        text = "".join(span.content for span in token.children or ())
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        yield f"{slug}-{seen[slug]}" if seen[slug] else slug
        seen[slug] += 1


DOCUMENTS: Final = [read(path) for path in sorted(CHECKOUT.rglob("*.md")) if is_ours(path)]
README: Final = CHECKOUT / "README.md"
DECISIONS: Final = sorted((CHECKOUT / "docs/adr").glob("[0-9]*.md"))

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)


@cache
def makefile() -> str:
    return (CHECKOUT / "Makefile").read_text(encoding="utf-8")


def make_words(code: str) -> list[str]:
    """Targets and variables of the make commands in a line."""
    commands = re.findall(r"(?<![\w-])make((?: [A-Z_]+=\S+| [a-z][a-z-]*)+)", code)
    return [word for command in commands for word in command.split()]


def unknown_make_words(code: str) -> list[str]:
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile(), re.MULTILINE))
    unknown = []
    for word in make_words(code):
        variable, is_setting, _ = word.partition("=")
        is_known = re.search(rf"\b{variable}\b", makefile()) if is_setting else word in targets
        if not is_known:
            unknown.append(word)
    return unknown


def looks_like_a_path(word: str) -> bool:
    if not re.fullmatch(r"[\w.][\w./-]*", word) or "//" in word:
        return False
    return word.endswith(SUFFIXES) or word.split("/")[0] in {p.name for p in CHECKOUT.iterdir()} | {
        "build"
    }


@cache
def messages() -> tuple[str, ...]:
    """Every text in the code, with its holes as NUL, and the shell's lines."""
    found: list[str] = []
    for folder in CODE:
        for path in (CHECKOUT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Constant(value=str(text)):
                        found.append(text)
                    case ast.JoinedStr(values=parts):
                        found.append("".join(_part(part) for part in parts))
    for script in (CHECKOUT / "Makefile", *(CHECKOUT / "images/scripts").glob("*")):
        if script.is_file():  # running a script's tests leaves compiled ones beside it
            found += script.read_text(encoding="utf-8").splitlines()
    return tuple(found)


def _part(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else "\0"


@each_document
def test_every_link_leads_somewhere(document: Document) -> None:
    anchors_of = {other.path: other.anchors for other in DOCUMENTS}
    for link in document.links:
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (document.path.parent / target).resolve() if target else document.path
        assert path.exists(), f"{document.name}: link {link} leads to no file"
        if anchor:
            assert anchor in anchors_of[path], f"{document.name}: link {link} leads to no heading"


@each_document
def test_every_make_command_exists(document: Document) -> None:
    for code in document.codes:
        unknown = unknown_make_words(code)
        assert not unknown, f"{document.name}: `{code}` names {unknown}, which the Makefile has not"


def test_every_make_command_in_a_message_exists() -> None:
    for text in messages():
        for code in re.findall(r"`(make [^`\0]*)`", text):
            unknown = unknown_make_words(code)
            assert not unknown, f"a message says `{code}`, but the Makefile has no {unknown}"


@each_document
def test_every_path_exists(document: Document) -> None:
    for word in document.words:
        path = word.rstrip("/.")
        if not looks_like_a_path(word) or path in MADE | READERS_OWN:
            continue
        assert path.split("/")[0] != "build", f"{document.name}: {word} is not in MADE"
        is_there = (CHECKOUT / path).exists() or (document.path.parent / path).exists()
        assert is_there, f"{document.name}: {word} does not exist"


@each_document
def test_every_module_exists(document: Document) -> None:
    for code in document.codes:
        for module in re.findall(r"python3? -m ([\w.]+)", code):
            path = CHECKOUT / module.replace(".", "/")
            if (CHECKOUT / module.split(".")[0]).is_dir():
                is_there = path.with_suffix(".py").exists() or (path / "__main__.py").exists()
                assert is_there, f"{document.name}: python -m {module} has nothing to run"


@pytest.mark.parametrize("name", sorted(MADE | READERS_OWN))
def test_every_exempted_path_is_still_named(name: str) -> None:
    words = {word.rstrip("/.") for document in DOCUMENTS for word in document.words}
    assert name in words, f"no document names {name}; remove it from the list above"


@pytest.mark.parametrize(
    ("document", "quote"),
    [(document, quote) for document in DOCUMENTS for quote in document.quotes],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_quoted_sentence_is_one_that_the_code_says(document: Document, quote: str) -> None:
    pieces = [piece.strip() for piece in quote.split("...") if piece.strip()]
    assert max(map(len, pieces)) >= MIN_QUOTED, f"{quote!r} is too short to be recognised"
    pattern = re.compile(".*?".join(map(re.escape, pieces)), re.DOTALL)
    assert any(pattern.search(text) for text in messages()), f"{document.name}: nobody says {quote}"


def test_the_readmes_tree_is_the_repositorys() -> None:
    tokens = MarkdownIt("commonmark").parse(README.read_text(encoding="utf-8"))
    [tree] = [t.content for t in tokens if t.type == "fence" and "__main__.py " in t.content]
    folder = CHECKOUT
    for line in tree.splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            folder = CHECKOUT
        path = folder / name
        assert path.exists(), f"README.md, tree: {path.relative_to(CHECKOUT)} does not exist"
        if name.endswith("/") and not line.startswith(" "):
            folder = path


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) < MAX_README_LINES


def test_decisions_are_numbered_without_gaps() -> None:
    assert [path.name[:4] for path in DECISIONS] == [
        f"{number:04}" for number in range(1, len(DECISIONS) + 1)
    ]


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name[:4])
def test_a_decision_is_one_page_of_four_parts(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) < MAX_DECISION_LINES
    assert lines[0].startswith(f"# {path.name[:4]}: ")
    parts = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    assert parts == ["Context", "Options", "Decision", "Consequences"]


def test_the_list_of_decisions_names_each_by_its_title() -> None:
    index = (CHECKOUT / "docs/adr/README.md").read_text(encoding="utf-8")
    for path in DECISIONS:
        title = path.read_text(encoding="utf-8").splitlines()[0].partition(": ")[2]
        row = f"| [{path.name[:4]}]({path.name}) | {title} |"
        assert row in index, f"docs/adr/README.md lacks the row {row}"


@each_document
def test_documents_are_ascii(document: Document) -> None:
    assert document.path.read_text(encoding="utf-8").isascii()


@pytest.mark.parametrize("path", sorted(CHECKOUT.glob("docs/**/*.svg")), ids=lambda path: path.name)
def test_a_picture_loads_nothing_and_says_what_it_shows(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    picture = ElementTree.fromstring(text)  # noqa: S314 - a file of this repository
    space = "{http://www.w3.org/2000/svg}"
    assert picture.findtext(f"{space}title")
    assert picture.findtext(f"{space}desc")
    assert "prefers-color-scheme: dark" in text
    for way in ("href", "url(", "@import", "@font-face", "<script"):
        assert way not in text, f"{path.name}: {way} loads something"
