import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from runner.backend import BackendError
from runner.backends.registry import open_backend
from runner.cli.measure import app
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.errors import UnknownInstructionError, UopscopeError

RUN = CliRunner()


@pytest.fixture(autouse=True)
def _needs_tsc_and_catalogue() -> None:
    try:
        open_backend("tsc").close()
        Catalogue.load()
    except (BackendError, UnknownInstructionError) as error:
        pytest.skip(str(error))


def test_cycles_of_code_are_printed_with_spread_cpu_and_backend() -> None:
    result = RUN.invoke(app, ["--backend", "tsc", "--asm", "IMUL RAX, RBX", "--init", "MOV RBX, 3"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    (cycles,) = [line for line in lines if line.startswith("core_cycles")]
    assert float(cycles.split()[1]) == pytest.approx(3, abs=0.3)
    assert cycles.count("±") == 2
    assert "48 0f af c3" in result.output
    assert "backend tsc" in result.output


def test_code_that_faults_says_so_and_exits_with_4() -> None:
    result = RUN.invoke(app, ["--backend", "tsc", "--asm", "UD2"])
    assert result.exit_code == 4
    assert "SIGILL in the body at offset 0" in result.output


def test_unusable_input_is_an_error_of_ours() -> None:
    for arguments in (["--asm", ""], ["--asm", "INC R15"], ["--asm", "NOP", "--backend", "none"]):
        result = RUN.invoke(app, arguments)
        assert isinstance(result.exception, UopscopeError), result.output


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=30))
def test_garbage_is_an_error_of_ours_or_measured(text: str) -> None:
    result = RUN.invoke(app, ["--backend", "tsc", "--asm", text])
    assert result.exit_code in {0, 2, 4} or isinstance(result.exception, UopscopeError), result.output
