"""Inside the guest: characterizes the variants that are named (a line each in a file) by the kmod backend."""

import sys
import time
from pathlib import Path

from runner.backends.kmod import create
from tests.vm.pmu.simulate import characterize, summary
from xed_convert.catalogue.catalogue import Catalogue


def main(names: Path) -> None:
    catalogue = Catalogue.load()
    backend = create()
    for caveat in backend.info().caveats:
        print("CAVEAT", caveat)
    started = time.monotonic()
    variants = [catalogue.by_string(line) for line in names.read_text().splitlines()]
    for result in characterize(backend, variants).values():
        print("RESULT", summary(result))
    print(f"TIME {time.monotonic() - started:.1f} s for {len(variants)} variants")
    backend.close()


main(Path(sys.argv[1]))
