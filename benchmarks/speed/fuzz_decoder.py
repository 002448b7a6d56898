"""Feeds random and mutated bytes to the decoder, and compares with iced-x86.

    python -m benchmarks.speed.fuzz_decoder --count 10000000 --seed 1

For every input the decoder must give an instruction or a DecodingError that names the offset. What it decodes is
encoded again and must decode to the same. A million inputs take about a minute and a half.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import iced_x86

from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.decoder import Decoder
from xed_convert.encoding.encoder import encode
from xed_convert.errors import DecodingError

if TYPE_CHECKING:
    from xed_convert.encoding.decoder import Decoded

CORPUS = 20_000
PREFIXES = bytes((0x66, 0x67, 0xF0, 0xF2, 0xF3, 0x40, 0x48, 0x4F, 0x2E, 0x3E, 0x64, 0x65, 0xD5, 0xC4, 0xC5, 0x62, 0x8F))
CONDITIONS = {"AE": "NB", "NE": "NZ", "E": "Z", "G": "NLE", "A": "NBE", "GE": "NL"}
FAMILIES = ("CMOV", "SET", "J")
MNEMONICS = {value: name for name, value in vars(iced_x86.Mnemonic).items() if isinstance(value, int)}
NAMES = {
    "RETF": "RET_FAR", "WAIT": "FWAIT", "XLATB": "XLAT", "SYSRETQ": "SYSRET64", "SYSEXITQ": "SYSEXIT",
    "RESERVEDNOP": "NOP",
}  # fmt: skip
"""iced's mnemonics that are spelled otherwise in the catalogue."""


class Fuzzer:
    """Makes inputs; what could be decoded is kept and mutated."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.corpus: list[bytes] = []

    def next(self) -> bytes:
        """Return the next input."""
        choice = self.random.random()
        if choice < 0.4 or not self.corpus:
            data = bytearray(self.random.randbytes(16))
            if choice < 0.2:
                data[0] = self.random.choice(PREFIXES)
            return bytes(data)
        data = bytearray(self.random.choice(self.corpus))
        if choice < 0.55:
            data.insert(0, self.random.choice(PREFIXES))
        for _ in range(self.random.randint(0, 3)):
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        if choice > 0.9:
            del data[self.random.randrange(1, len(data) + 1) :]
        return bytes(data)

    def keep(self, data: bytes) -> None:
        """Keep an input for mutation."""
        if len(self.corpus) < CORPUS:
            self.corpus.append(data)
        else:
            self.corpus[self.random.randrange(CORPUS)] = data


def same_mnemonic(name: str, decoded: Decoded) -> bool:
    """Whether iced's mnemonic is that of the variant."""
    variant = decoded.variant
    words = {variant.iclass, *variant.asm.split()}
    words |= {word.removesuffix("_LOCK") for word in words} | {word[:-1] for word in words if len(word) > 3}
    names = {name, NAMES.get(name, name)}
    names |= {family + CONDITIONS.get(name[len(family) :], "?") for family in FAMILIES if name.startswith(family)}
    return bool(names & words) or any(word.startswith(name) and word[len(name) :].isdigit() for word in words)


def compare(data: bytes, decoded: Decoded | None, results: Counter[str], examples: dict[str, str]) -> None:
    """Compare with iced-x86."""
    theirs = iced_x86.Decoder(64, data, options=iced_x86.DecoderOptions.MPX).decode()
    if theirs.code == iced_x86.Code.INVALID:
        results["only ours" if decoded else "neither"] += 1
        return
    name = MNEMONICS[theirs.mnemonic]
    if decoded is None:
        outcome = f"only iced-x86: {name}"
    elif decoded.length_bytes != theirs.len:
        outcome = f"length: {name}, {decoded.variant.iclass}"
    elif not same_mnemonic(name, decoded):
        outcome = f"mnemonic: {name}, {decoded.variant.iclass}"
    else:
        outcome = "agree"
    results[outcome] += 1
    examples.setdefault(outcome, data[: theirs.len].hex())


def check_again(decoder: Decoder, decoded: Decoded) -> str:
    """Encode what was decoded, and decode it again; return what is wrong."""
    if decoded.address_bits != 64:
        return ""
    data = encode(decoded.variant, decoded.values)
    again = decoder.decode(data)
    if again.variant is not decoded.variant or again.values != decoded.values or again.length_bytes != len(data):
        return f"{decoded.variant.string} {decoded.values} became {again.variant.string} {again.values}"
    return "" if len(data) <= decoded.length_bytes else f"{decoded.variant.string} got longer: {data.hex()}"


def main() -> None:
    """Run and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--catalogue", type=Path)
    parser.add_argument("--list", type=int, default=40, help="how many kinds of disagreement to list")
    arguments = parser.parse_args()
    decoder = Decoder(Catalogue.load(arguments.catalogue))
    fuzzer = Fuzzer(arguments.seed)
    results: Counter[str] = Counter()
    examples: dict[str, str] = {}
    started = time.perf_counter()
    for number in range(arguments.count):
        data = fuzzer.next()
        decoded = None
        try:
            decoded = decoder.decode(data)
            fuzzer.keep(data)
            if wrong := check_again(decoder, decoded):
                results[f"not the same again: {decoded.variant.iclass}"] += 1
                examples.setdefault(f"not the same again: {decoded.variant.iclass}", f"{data.hex()} {wrong}")
        except DecodingError:
            pass
        except Exception as error:
            print(f"input {number} of seed {arguments.seed}: {data.hex()}: {error!r}")
            raise
        compare(data, decoded, results, examples)
    report(results, examples, time.perf_counter() - started, arguments.list)


def report(results: Counter[str], examples: dict[str, str], seconds: float, most: int) -> None:
    """Print the table."""
    total = sum(count for name, count in results.items() if not name.startswith("not the same"))
    known = total - results["neither"] - results["only ours"]
    print(f"{total:,} inputs in {seconds:.0f} s; iced-x86 accepts {known:,}; agreement {results['agree'] / known:.4%}")
    for name, count in results.most_common(most):
        print(f"{count:>12,}  {name}  {examples.get(name, '')}")


if __name__ == "__main__":
    main()
