"""The commands `uopscope convert` and `uopscope catalogue`."""

from __future__ import annotations

import gzip
import lzma
import os
import pathlib
import subprocess
from typing import TYPE_CHECKING

import pytest

from runner.cli import catalogue, convert
from runner.cli.process import guard
from runner.host.cpu import UNKNOWN, read_cpu
from runner.host.isa_sets import has_isa_set
from runner.uarch.tables import all_microarchitectures
from tests.xed_convert.small_datafiles import write_datafiles
from xed_convert.catalogue.catalogue import Catalogue, read_xml
from xed_convert.catalogue.schema import schema_text, validate
from xed_convert.cpus.chips import chip_isa_sets
from xed_convert.cpus.cpuid import isa_set_tests
from xed_convert.datafiles import fetch
from xed_convert.datafiles.fetch import PINNED_TAG, REPOSITORY_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path


def run_convert(*arguments: object) -> int:
    return guard.guarded(convert.app, [str(argument) for argument in arguments], "uopscope convert")


def run_catalogue(*arguments: object) -> int:
    return guard.guarded(catalogue.app, [str(argument) for argument in arguments], "uopscope catalogue")


@pytest.fixture
def datafiles(tmp_path: Path) -> Path:
    return write_datafiles(tmp_path / "xed")


def test_datafiles_become_a_valid_file(datafiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.xml"
    assert run_convert(datafiles, "-o", target) == 0
    validate(target)
    assert f"{len(read_xml(target))} variants" in capsys.readouterr().out


def test_compressed_output_has_the_same_content(datafiles: Path, tmp_path: Path) -> None:
    for name in ("a.xml", "a.xml.gz", "a.xml.xz", "a.bin"):
        assert run_convert(datafiles, "-o", tmp_path / name, "--quiet") == 0
    plain = (tmp_path / "a.xml").read_bytes()
    assert gzip.decompress((tmp_path / "a.xml.gz").read_bytes()) == plain
    assert lzma.decompress((tmp_path / "a.xml.xz").read_bytes()) == plain
    assert list(Catalogue.load(tmp_path / "a.bin")) == list(Catalogue.load(tmp_path / "a.xml"))


@pytest.mark.parametrize("name", ["a.bin.xz", "a.bin.gz"])
def test_a_binary_catalogue_is_not_packed_again(
    name: str, datafiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_convert(datafiles, "-o", tmp_path / name) == 2
    assert "a.bin, or FILE.xml" in capsys.readouterr().err
    assert not list(tmp_path.glob("a.*"))


def test_a_checkout_is_taken_too(datafiles: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    datafiles.rename(checkout / "datafiles")
    assert run_convert(checkout, "-o", tmp_path / "x.xml", "--quiet") == 0


def test_bad_input_leaves_nothing(datafiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (datafiles / "isa.txt").write_text("INSTRUCTIONS()::\n{\n")
    target = tmp_path / "out" / "x.xml"
    target.parent.mkdir()
    assert run_convert(datafiles, "-o", target) == 2
    assert "isa.txt:2: the record is not closed" in capsys.readouterr().err
    assert not list(target.parent.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either a folder or --fetch"),
        (["x", "--fetch"], "give either a folder or --fetch"),
        (["/nonexistent"], "no XED datafiles here"),
    ],
)
def test_bad_options_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_convert(*arguments) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_exclusion_is_refused(datafiles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_convert(datafiles, "--include", "nothing") == 2
    assert "undocumented" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_named(datafiles: Path, tmp_path: Path) -> None:
    assert run_convert(datafiles, "-o", tmp_path / "none" / "x.xml") == 3


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_convert("--xsd") == 0
    assert capsys.readouterr().out == schema_text()


@pytest.fixture
def repository(datafiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository of the datafiles, and an empty cache."""
    repository = tmp_path / "repository"
    repository.mkdir()
    datafiles.rename(repository / "datafiles")
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "x"], ["tag", PINNED_TAG]):
        subprocess.run(["git", "-C", str(repository), *command], check=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(REPOSITORY_VARIABLE, repository.as_uri())
    return repository


@pytest.mark.usefixtures("repository")
def test_fetch_clones_the_pinned_tag_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_convert("--fetch", "-o", tmp_path / "x.xml") == 0
    assert capsys.readouterr().err == f"cloning XED {PINNED_TAG} with git\n"
    monkeypatch.setenv(REPOSITORY_VARIABLE, str(tmp_path / "gone"))
    assert run_convert("--fetch", "-o", tmp_path / "y.xml") == 0
    assert not capsys.readouterr().err
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert run_convert("--fetch", "-o", tmp_path / "z.xml", "--quiet") == 3
    assert capsys.readouterr().err.startswith("error: git cannot clone")
    assert not list((tmp_path / "other" / "uopscope" / "xed").iterdir())


def test_a_clone_tells_how_it_goes_on(repository: Path) -> None:
    lines: list[str] = []
    assert (fetch.fetch(progress=lines.append) / "datafiles" / "files.cfg").is_file()
    assert lines[0] == f"cloning {repository.as_uri()}"
    assert any("Receiving objects: 100%" in line for line in lines)


@pytest.mark.usefixtures("repository")
def test_a_terminal_shows_what_git_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run_convert("--fetch", "-o", tmp_path / "x.xml") == 0
    text = capsys.readouterr().err
    assert f"XED {PINNED_TAG}: " in text
    assert "100%" in text


def test_without_git_and_network_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(REPOSITORY_VARIABLE, "git://127.0.0.1:1/xed")  # nobody listens there
    assert run_convert("--fetch", "-o", tmp_path / "x.xml", "--quiet") == 3
    assert "unable to connect" in (text := capsys.readouterr().err)
    assert "Check the network" in text
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_convert("--fetch", "-o", tmp_path / "x.xml", "--quiet") == 3
    assert "git is not installed" in capsys.readouterr().err


def test_a_clone_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "git"
    script.write_text("#!/bin/sh\nsleep 600 & wait\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fetch, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(fetch.FetchError, match=r"takes more than 0\.2 s"):
        fetch.fetch()
    assert not list((tmp_path / "cache" / "uopscope" / "xed").iterdir())


def test_show_has_operands_and_a_sample(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_catalogue("show", "VADDPS_EVEX (ZMM, K, ZMM, M512)") == 0
    out = capsys.readouterr().out
    assert "VADDPS (ZMM, K, ZMM, M512)" in out
    assert "evex.1.58" in out
    assert "62 " in out.partition("for example")[2]


def test_show_of_what_there_is_not_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_catalogue("show", "ADC_GPRv_GPRx") == 2
    assert "ADC_GPRv_GPRv" in capsys.readouterr().err


def test_list_of_a_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_catalogue("list", "VADDPS", "--cpu", "HSW") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line.split()[-1] == "AVX" for line in lines)
    assert run_catalogue("list", "VADDPS", "--cpu", "NOPE") == 2


def test_list_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_catalogue("list", "ADC_GPRv_GPRv", "--cpu", "native") == 0
    assert len(capsys.readouterr().out.splitlines()) == 6


FLAGS = {
    "AES": "aes", "AVX": "avx", "AVX2": "avx2", "BMI1": "bmi1", "BMI2": "bmi2", "FMA": "fma", "SSE42": "sse4_2",
    "AVX512F_512": "avx512f", "AVX512BW_512": "avx512bw", "AVX512_VBMI_512": "avx512vbmi", "ADOX_ADCX": "adx",
    "SHA": "sha_ni", "RDRAND": "rdrand", "POPCNT": "popcnt", "MOVBE": "movbe", "F16C": "f16c",
    "AMX_TILE": "amx_tile", "VAES": "vaes", "GFNI": "gfni", "CLWB": "clwb", "SERIALIZE": "serialize", "SSSE3": "ssse3",
    "AVX_VNNI": "avx_vnni", "AVX512_FP16_512": "avx512_fp16", "AVX512_BF16_512": "avx512_bf16", "RTM": "rtm",
}  # fmt: skip
"""Linux' flags of ISA sets; not those that it takes away where a CPU has a fault (RDSEED)."""


@pytest.mark.parametrize(("isa_set", "flag"), FLAGS.items())
def test_the_cpu_at_hand_has_what_linux_says(isa_set: str, flag: str) -> None:
    flags = read_cpu(0).flags
    if not flags:
        pytest.skip("/proc/cpuinfo shows no flags here")
    assert has_isa_set(isa_set, 0) == (flag in flags)


@pytest.mark.parametrize("name", all_microarchitectures())
def test_every_microarchitecture_is_a_chip(name: str) -> None:
    assert "SSE2" in chip_isa_sets(name)


def test_the_cpu_at_hand_has_no_more_than_its_chip() -> None:
    """A hypervisor may hide what the chip has, but cannot add to it. Microcode can: BHI_CTRL, the sign of IBHF."""
    cpu = read_cpu(0)
    if cpu.architecture == UNKNOWN:
        pytest.skip("no table knows this CPU")
    found = {name.upper() for name, tests in isa_set_tests().items() if any(tests) and has_isa_set(name, 0)}
    assert found - chip_isa_sets(cpu.architecture) <= {"IBHF"}


def test_diff_says_what_was_renamed_where_the_string_is_the_same(
    datafiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_convert(datafiles, "-o", tmp_path / "old.xml", "--quiet") == 0
    old = next(iter(read_xml(tmp_path / "old.xml"))).iform
    text = (tmp_path / "old.xml").read_text().replace(f'iform="{old}"', f'iform="{old}_NEW"')
    (tmp_path / "new.xml").write_text(text)
    assert run_catalogue("diff", tmp_path / "old.xml", tmp_path / "new.xml") == 0
    assert f": iform {old} -> {old}_NEW" in capsys.readouterr().out


def test_no_home_folder_says_what_to_do(tmp_path: Path) -> None:
    def nowhere(_cls: type[Path]) -> Path:
        raise RuntimeError("Could not determine home directory.")

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("XDG_CACHE_HOME", raising=False)
        patch.setattr(pathlib.Path, "home", classmethod(nowhere))
        assert run_convert("--fetch", "-o", tmp_path / "x.xml") == 3


def test_diff_counts(datafiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_convert(datafiles, "-o", tmp_path / "new.xml", "--quiet") == 0
    isa = datafiles / "isa.txt"
    isa.write_text(isa.read_text().replace("BINARY", "ARITHMETIC"))
    assert run_convert(datafiles, "-o", tmp_path / "old.xml", "--quiet") == 0
    assert run_catalogue("diff", tmp_path / "old.xml", tmp_path / "new.xml", "--limit", "2") == 0
    out = capsys.readouterr().out
    assert "added: 0" in out
    assert "category: ARITHMETIC -> BINARY" in out
    assert "more" in out
