"""Assembles text that people type.

Keystone, in a child process, assembles what it can. Its bytes count only if they decode to a variant and operands that
the text can mean. Everything else (AVX-512VL, AMX, APX, pseudo prefixes ...) is encoded from XED's patterns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from xed_convert.assembly.keystone_process import KeystoneProcess
from xed_convert.assembly.matching import Match, Matcher
from xed_convert.assembly.syntax import Statement, TextKind, WrittenOperand, parse
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.decoder import Decoder
from xed_convert.encoding.nops import nops
from xed_convert.errors import AssemblyError, DecodingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from xed_convert.encoding.decoder import Decoded
    from xed_convert.model import InstructionVariant

MOST_TOGETHER = 200
"""Statements that keystone gets in one text. That takes 2 µs for each; asked one by one, 26."""

_MOST_ROUNDS = 20
"""Rounds in which branches may grow until all labels are in reach. Branches have few sizes, so it ends long before."""


@dataclass(frozen=True, slots=True)
class AlignedData:
    """Bytes between instructions: data, after NOPs that align it to a `multiple` of bytes from the beginning."""

    data: bytes = b""
    multiple: int = 1
    labels: tuple[str, ...] = ()

    def at(self, start: int) -> bytes:
        """Return NOPs and data, where the NOPs begin `start` bytes behind the beginning."""
        return nops(-start % self.multiple) + self.data


class Assembler:
    """Assembles text with the instructions of a catalogue."""

    def __init__(
        self, catalogue: Catalogue | Iterable[InstructionVariant], *, keystone: KeystoneProcess | None = None
    ) -> None:
        """Take the catalogue; `keystone`, if given, is asked first."""
        self._catalogue = catalogue if isinstance(catalogue, Catalogue) else Catalogue(catalogue)
        self.matcher = Matcher(self._catalogue)
        self._keystone = keystone

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder of the same catalogue, made when it is first needed."""
        return Decoder(self._catalogue)

    def assemble(self, text: str) -> bytes:
        """Return the bytes of all statements in order.

        Raises:
            AssemblyError: a statement cannot be read or encoded; the message names it.
        """
        statements = parse(text)
        if not statements:
            raise AssemblyError("there is no instruction in the text")
        return b"".join(match.data for match in self.instructions(statements))

    def encodings(self, text: str) -> list[Match]:
        """Return every way to encode one instruction, the shortest first; of several instructions, one choice for each.

        Raises:
            AssemblyError: a statement cannot be read or encoded; the message names it.
        """
        statements = parse(text)
        if not statements:
            raise AssemblyError("there is no instruction in the text")
        if len(statements) == 1 and not _has_label(statements[0]):
            return self.matcher.matches(statements[0])
        return self.instructions(statements)

    def instructions(self, statements: list[Statement]) -> list[Match]:
        """Choose a variant for each statement; labels are resolved.

        Raises:
            AssemblyError: a statement cannot be encoded, or names a label that does not exist.
        """
        return [match for match in self._settle(statements) if isinstance(match, Match)]

    def code(self, pieces: Sequence[Statement | AlignedData]) -> bytes:
        """Return the bytes of statements and data in order; labels are resolved.

        Raises:
            AssemblyError: a statement cannot be encoded, or names a label that does not exist.
        """
        return b"".join(self.layout(pieces))

    def layout(self, pieces: Sequence[Statement | AlignedData]) -> list[bytes]:
        """Return the bytes of each statement and of data, as `code` joins them.

        Raises:
            AssemblyError: as `code`.
        """
        return [one if isinstance(one, bytes) else one.data for one in self._settle(pieces)]

    def _settle(self, pieces: Sequence[Statement | AlignedData]) -> list[Match | bytes]:
        """Choose encodings until no branch has to grow any more; what names no label is chosen once."""
        sizes = [2] * len(pieces)
        fixed = self._fixed(pieces)
        for _ in range(_MOST_ROUNDS):
            starts = list(accumulate(sizes, initial=0))[:-1]
            labels = {label: start for one, start in zip(pieces, starts, strict=True) for label in one.labels}
            chosen: list[Match | bytes] = []
            new_sizes: list[int] = []
            at = 0  # data are aligned by what is before them in this round: else each would need a round of its own
            for one, known, start, size in zip(pieces, fixed, starts, sizes, strict=True):
                made = one.at(at) if isinstance(one, AlignedData) else known or self._labelled(one, labels, start, size)
                chosen.append(made)
                new_sizes.append(len(made) if isinstance(made, bytes) else len(made.data))
                at += new_sizes[-1]
            if new_sizes == sizes:
                return chosen
            sizes = new_sizes
        raise AssemblyError("the distances between branches and labels do not settle")

    def _fixed(self, pieces: Sequence[Statement | AlignedData]) -> list[Match | None]:
        """Return the choice for each statement that names no label; equal statements are chosen once."""
        alone = {one.text: one for one in pieces if isinstance(one, Statement) and not _has_label(one)}
        together = self.together(list(alone.values()))
        chosen = {
            text: found or self._choose(one, 0) for (text, one), found in zip(alone.items(), together, strict=True)
        }
        return [chosen.get(one.text) if isinstance(one, Statement) else None for one in pieces]

    def together(self, statements: Sequence[Statement]) -> list[Match | None]:
        """Return keystone's choices for statements, asked in a few texts; None for a statement without one.

        A choice is the same as that for the statement alone. It counts only if keystone's bytes decode to what the
        statement can mean.
        """
        found: list[Match | None] = [None] * len(statements)
        if self._keystone is None:
            return found
        asked = [number for number, one in enumerate(statements) if _is_for_keystone(one)]
        for begin in range(0, len(asked), MOST_TOGETHER):
            part = asked[begin : begin + MOST_TOGETHER]
            for number, match in zip(part, self._in_one_text([statements[one] for one in part]), strict=True):
                found[number] = match
        return found

    def _in_one_text(self, statements: Sequence[Statement]) -> list[Match | None]:
        """Return the choices for a few statements. If they give another number of instructions, halves are asked."""
        if self._keystone is None:
            return [None] * len(statements)
        data = self._keystone.assemble("\n".join(one.text for one in statements))
        try:
            decoded = list(self.decoder.decode_all(data or b""))
        except DecodingError:
            decoded = []
        if len(decoded) == len(statements):
            pairs = zip(statements, decoded, strict=True)
            return [self._checked(statement, code, one) for statement, (code, one) in pairs]
        if len(statements) == 1:
            return [None]
        middle = len(statements) // 2
        return [*self._in_one_text(statements[:middle]), *self._in_one_text(statements[middle:])]

    def _checked(self, statement: Statement, code: bytes, decoded: Decoded) -> Match | None:
        """Return a decoded instruction as the choice for a statement, None if the statement cannot mean it."""
        try:
            fits = self.matcher.means(statement, decoded.variant, decoded.values)
        except AssemblyError:
            return None
        return Match(decoded.variant, decoded.values, code) if fits else None

    def _labelled(self, statement: Statement, labels: dict[str, int], start: int, size: int) -> Match:
        return self._choose(_without_labels(statement, labels, start), size)

    def _choose(self, statement: Statement, least: int) -> Match:
        """Choose a variant: keystone's choice if the statement can mean it, else the shortest.

        A branch to a label gets at least `least` bytes: it never shrinks, so the sizes settle.
        """
        matches = self.matcher.choose(statement)
        if least:
            return next((match for match in matches if len(match.data) >= least), matches[-1])
        if self._keystone is None:
            return matches[0]
        return self._verified(statement, matches) or matches[0]

    def _verified(self, statement: Statement, matches: list[Match]) -> Match | None:
        """Return keystone's bytes for a statement if they are one of the matches."""
        if not _is_for_keystone(statement) or self._keystone is None:
            return None
        data = self._keystone.assemble(statement.text)
        if not data:
            return None
        try:
            decoded = self.decoder.decode(data)
        except DecodingError:
            return None
        same = [one for one in matches if one.variant is decoded.variant and dict(one.values) == dict(decoded.values)]
        return Match(same[0].variant, same[0].values, data) if same and decoded.length_bytes == len(data) else None


def _is_for_keystone(statement: Statement) -> bool:
    """Whether keystone reads a statement as it is meant: it knows neither pseudo prefixes nor `.+n`."""
    return not statement.pseudo and all(one.kind is not TextKind.HERE for one in statement.operands)


def _has_label(statement: Statement) -> bool:
    """Whether a statement refers to a label."""
    return any(one.kind is TextKind.LABEL for one in statement.operands)


def _without_labels(statement: Statement, labels: dict[str, int], start: int) -> Statement:
    """Replace labels by distances from the beginning of the instruction."""
    if not _has_label(statement):
        return statement
    operands = []
    for one in statement.operands:
        if one.kind is not TextKind.LABEL:
            operands.append(one)
        elif one.value in labels:
            operands.append(WrittenOperand(TextKind.HERE, labels[str(one.value)] - start))
        else:
            message = f"{statement.text[:200]!r}: {one.value} is neither a register nor a label"
            raise AssemblyError(message, hint="Labels are written as `name:` before an instruction.")
    return Statement(
        statement.text,
        statement.words,
        statement.pseudo,
        tuple(operands),
        statement.mask,
        statement.zeroing,
        statement.rounding,
        statement.default_flags,
        statement.labels,
    )


@lru_cache(maxsize=1)
def shipped_assembler() -> Assembler:
    """Return an assembler for the shipped catalogue, with keystone."""
    keystone = KeystoneProcess()
    keystone.begin()
    return Assembler(Catalogue.load(), keystone=keystone)


def assemble(text: str) -> bytes:
    """Assemble text with the shipped catalogue.

    Raises:
        AssemblyError: a statement cannot be read or encoded; the message names it.
    """
    return shipped_assembler().assemble(text)
