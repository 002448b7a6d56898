"""`uopscope encode`: what it prints, and that garbage ends in an error of ours."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from runner.cli.encode import app
from xed_convert.errors import UopscopeError

RUN = CliRunner()


def lines_of(*arguments: str) -> list[str]:
    result = RUN.invoke(app, list(arguments))
    assert result.exit_code == 0, result.exception
    return result.output.splitlines()


def test_every_variant_that_fits_the_shortest_first() -> None:
    lines = lines_of("add rax, 5")
    assert lines[0].startswith("48 83 c0 05 ")
    assert "ADD (R64, I8)" in lines[0]
    assert any(line.startswith("48 05 05 00 00 00 ") for line in lines)
    assert [len(line[:32].split()) for line in lines] == sorted(len(line[:32].split()) for line in lines)


def test_what_the_manuals_write() -> None:
    (line,) = lines_of("VADDPS ZMM1{K2}{z}, ZMM3, [R14]{1to16}")
    assert line.split("  ")[0] == "62 d1 64 da 58 0e"


def test_several_instructions_and_only_the_bytes() -> None:
    assert [line.split("  ")[0] for line in lines_of("l: dec rax; jnz l")] == ["48 ff c8", "75 fb"]
    assert lines_of("--first", "l: dec rax; jnz l") == ["48 ff c8 75 fb"]


def test_the_way_back() -> None:
    lines = lines_of("--decode", "62d164da580e 0x4801c8, c3")
    assert [line[:32].strip() for line in lines] == ["62 d1 64 da 58 0e", "48 01 c8", "c3"]
    assert "VADDPS_Z (ZMM, K, ZMM, M32_1to16)" in lines[0]


def test_words_that_the_shell_has_parted_are_one_text() -> None:
    (line,) = lines_of("--decode", "48", "01", "d8")
    assert line.startswith("48 01 d8 ")
    assert lines_of("--decode", "4801d8", "c3,", "0x90") == lines_of("--decode", "4801d8c390")
    assert lines_of("add", "rax,", "5") == lines_of("add rax, 5")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either"),
        (["--decode", "48", "01", "xyz"], "give either"),
        (["add rax, 5", "--decode", "90"], "give either"),
        (["--decode", "xyz"], "not bytes in hexadecimal"),
        (["--decode", "4801c806"], "offset 3"),
        (["--decode", "48"], "truncated"),
        (["vaddpx zmm1, zmm2, zmm3"], "VADDPS|VADDPD|VADDPH"),
    ],
)
def test_errors_say_what_is_wrong(arguments: list[str], message: str) -> None:
    result = RUN.invoke(app, arguments)
    assert isinstance(result.exception, UopscopeError), result.output
    with pytest.raises(UopscopeError, match=message):
        raise result.exception


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="avdxe rz0128[]{}+-*,:;.k1#\n", min_size=1, max_size=40), st.booleans())
def test_garbage_is_refused(text: str, decode: bool) -> None:
    result = RUN.invoke(app, ["--decode=" + text] if decode else ["--", text])
    assert result.exit_code == 0 or isinstance(result.exception, (UopscopeError, SystemExit)), result.exception
