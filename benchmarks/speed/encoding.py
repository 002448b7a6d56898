"""Instructions encoded, decoded and assembled per second of CPU time, and the time to prepare; plain Python, one core.

Run: `python -m benchmarks.speed.encoding`. Each figure is the best of three passes over a random sample of the
catalogue.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from xed_convert.assembly.assembler import Assembler
from xed_convert.assembly.formatting import format_instance
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.encoding.decoder import Decoder
from xed_convert.encoding.encoder import Encoder
from xed_convert.errors import DecodingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xed_convert.encoding.decoder import Decoded

SAMPLE = 20_000


def rate(action: Callable[[], int]) -> float:
    """Return how many things per second of CPU time an action does, in the best of three passes."""
    best = 0.0
    for _ in range(3):
        started = time.process_time()
        count = action()
        best = max(best, count / (time.process_time() - started))
    return best


def random_instructions(decoder: Decoder, count: int) -> list[Decoded]:
    """Decode random bytes until there are enough instructions: a mix of all encoding spaces."""
    chooser = random.Random(1)
    leads = (b"", b"\x48", b"\x0f", b"\x66\x0f", b"\xc5", b"\xc4\xe2", b"\x62", b"\x62", b"\xd5")
    found: list[Decoded] = []
    while len(found) < count:
        try:
            found.append(decoder.decode(chooser.choice(leads) + chooser.randbytes(15)))
        except DecodingError:
            continue
    return found


def main() -> None:
    """Measure and print."""
    started = time.process_time()
    catalogue = tuple(Catalogue.load())
    loaded = time.process_time()
    decoder = Decoder(catalogue)
    prepared = time.process_time()
    chosen = random_instructions(decoder, SAMPLE)
    encoders = {id(one.variant): Encoder(one.variant) for one in chosen}
    pairs = [(encoders[id(one.variant)], one.values) for one in chosen]
    data = [encoder.encode(values) for encoder, values in pairs]
    assembler = Assembler(catalogue)
    texts = [format_instance(one.variant, one.values) for one in chosen[:2000]]
    print(f"catalogue: {len(catalogue):,} variants in {loaded - started:.2f} s; decoder in {prepared - loaded:.2f} s")
    print(f"encoded per second:   {rate(lambda: len([one.encode(values) for one, values in pairs])):>10,.0f}")
    print(f"decoded per second:   {rate(lambda: len([decoder.decode(one) for one in data])):>10,.0f}")
    print(f"assembled per second: {rate(lambda: _assemble_all(assembler, texts)):>10,.0f}  (without keystone)")


def _assemble_all(assembler: Assembler, texts: Sequence[str]) -> int:
    return len([assembler.encodings(text) for text in texts])


if __name__ == "__main__":
    main()
