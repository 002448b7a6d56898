"""Words that the field's terms have replaced do not come back, and no sentence has to be read twice for its length.

What is read is the repository's text: documents, docstrings, comments of the kernel module and of templates.
"""

from __future__ import annotations

import ast
import inspect
import re
from typing import TYPE_CHECKING

import pytest

from tests.nonempty import some
from tests.shared import CHECKOUT
from tests.test_repository import tracked_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPLACED = {
    "crossings": "cross-domain links",
    "crowded": "port contention",
    "evened": "rebalanced",
    "inquiries": "port probes",
    "inquiry": "port probe",
    "kit": "instruction factory",
    "levelling": "equalized queues",
    "memo": "cache",
    "namer": "shared counters",
    "rival": "indistinguishable usage",
    "rivals": "indistinguishable usages",
    "surroundings": "execution environment, or prologue and epilogue",
    "timely": "consistent with time",
    "witness": "contention probe",
    "workshop": "campaign setup",
}
"""Private words, with the field's terms that stand for them."""

OF_OLD_FILES = {"results/campaign/codec.py": {"witness"}, "tests/results/campaign/test_codec.py": {"witness"}}
"""Campaign files keep the name that a counter had when they were written."""

TEXTS = {".c", ".h", ".html", ".j2", ".js", ".md", ".py", ".S", ".sh", ".sql", ".toml", ".tsv"}
MOST_WORDS = 28
"""Of a sentence, or of its part up to a colon or semicolon. About 25 are easily read; a list of names may take more."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_END = re.compile(r"(?<=[.!?:;])[\"'`)*]*\s+")
_LITERAL = re.compile(r"`[^`]*`|\([^()]*\)|\[([^]]*)\]\([^)]*\)")
_ENTRY = re.compile(r"\s*(?:[-*|#]|\d+\.|\w+:|`{3}|<)")
_COMMENT = re.compile(r"/\*(.*?)\*/|\{#-?(.*?)-?#\}", re.DOTALL)


def texts() -> list[Path]:
    """Return the text files of the repository, those of others and this one apart."""
    found = [path for path in tracked_files() if path.suffix in TEXTS and path.name != "test_words.py"]
    return [path for path in found if "data" not in path.relative_to(CHECKOUT).parts[:2]]


def replaced_words(text: str) -> set[str]:
    """Return the replaced words in a text, as words or as parts of names (`old_namer`, `Namer`)."""
    return {word for one in _WORD.findall(text) if (word := one.lower()) in REPLACED}


def test_no_word_returns_that_the_fields_term_has_replaced() -> None:
    found = [
        f"{name}: {word} (say: {REPLACED[word]})"
        for path in some(texts(), 500)
        for word in replaced_words(path.read_text(encoding="utf-8"))
        if word not in OF_OLD_FILES.get(name := str(path.relative_to(CHECKOUT)), set())
    ]
    assert found == []


@pytest.mark.parametrize("text", ["a rival usage", "class Namer:", "port_inquiry = 1", "the Witness of it"])
def test_such_a_word_would_be_found(text: str) -> None:
    assert replaced_words(text)


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of prose, each entry of a list or cell of a table by itself; examples are left out."""
    gathered: list[str] = []
    fenced = session = False
    for line in [*text.splitlines(), ""]:
        fenced ^= line.lstrip().startswith("```")
        session = bool(line.strip()) and (session or line.startswith(">>>"))
        example = fenced or session or (line.startswith("  ") and not gathered)
        if not line.strip() or example or _ENTRY.match(line):
            yield " ".join(gathered)
            gathered = []
        if line.lstrip().startswith("|"):
            yield from line.strip("| ").split(" | ")
        elif line.strip() and not example:
            gathered.append(line.strip())


def prose(path: Path) -> Iterator[str]:
    """Yield the prose in a file: all of a document, the docstrings of a module, the comments of C and of templates."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield text
    elif path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Expr(value=ast.Constant(value=str(docstring))):
                    yield inspect.cleandoc(docstring)
    elif path.suffix in {".c", ".h", ".j2"}:
        for comments in _COMMENT.findall(text):
            yield re.sub(r"\n\s*\* ?", "\n", "".join(comments))


def long_sentences(text: str) -> list[str]:
    """Return the sentences of a text that have more than `MOST_WORDS` words; literals count as one."""
    parts = [sentence for one in paragraphs(text) for sentence in _END.split(_LITERAL.sub("X", one))]
    return [sentence for sentence in parts if len(sentence.split()) > MOST_WORDS]


def test_no_sentence_is_too_long_to_be_read_at_once() -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}: {sentence[:100]}"
        for path in some(texts(), 500)
        for text in prose(path)
        for sentence in long_sentences(text)
    ]
    assert found == [], "say it in several sentences"


def test_a_long_sentence_would_be_found() -> None:
    words = "so many words " * 13
    assert len(long_sentences(f"Short. {words}end.\n\n    {words}\n\n- {words}\n- short")) == 2
    assert long_sentences(f"| {words} | short |") != []
    assert long_sentences(f"{words[:90]}: {words[:90]}") == []
