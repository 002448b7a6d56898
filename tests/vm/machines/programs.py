"""The test programs that run inside the guest: compiled here, statically."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.vm.machines.cache import CACHE, Unavailable
from tests.vm.machines.kernels import ROOT

GUEST = Path(__file__).parents[1] / "guest"
HEADERS = ROOT / "kmod"


def program(name: str, *sources: str, flags: tuple[str, ...] = ()) -> Path:
    """Compile guest/NAME.c (and further sources) against the module's header."""
    compiler = shutil.which("gcc")
    if not compiler:
        raise Unavailable("no gcc")
    paths = [GUEST / source for source in (f"{name}.c", *sources)]
    headers = (GUEST / "blobs.h", HEADERS / "uopscope_uapi.h")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (*paths, *headers)))
    output = CACHE / "build" / f"{name}-{digest.hexdigest()[:16]}"
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        partial = output.with_name(f"{output.name}.{os.getpid()}")
        options = ["-static", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HEADERS}", *flags]
        subprocess.run([compiler, *options, "-o", partial, *paths], check=True, timeout=60)
        partial.rename(output)
    return output
