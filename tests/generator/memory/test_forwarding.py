"""The cases of the matrix, and the chain of each."""

import pytest
from iced_x86 import Decoder, InstructionInfoFactory

from generator.errors import FactError
from generator.factory import InstructionFactory
from generator.memory.accesses import COLUMNS, AccessInstructions, _access, accesses, accesses_of
from generator.memory.forwarding import LINE_BYTES, PAGE_BYTES, ForwardingCase, ForwardingCode, begin, cells, offsets
from generator.microbenchmark import Microbenchmark
from results.memory.model import Addressing, LineCrossing
from tests.nonempty import some
from xed_convert.catalogue.catalogue import Catalogue
from xed_convert.model import InstructionVariant


@pytest.fixture(scope="module")
def instructions() -> InstructionFactory:
    return InstructionFactory(Catalogue.load())


@pytest.fixture(scope="module")
def known(instructions: InstructionFactory) -> tuple[AccessInstructions, ...]:
    return accesses_of(instructions, lambda _: "")


def test_every_overlap_in_bytes_is_an_offset(known: tuple[AccessInstructions, ...]) -> None:
    for store in some(known, 9):
        for load in some(known, 9):
            stored = set(range(store.size_bytes))
            shared = {offset for offset in range(-100, 101) if stored & set(range(offset, offset + load.size_bytes))}
            assert set(offsets(store, load)) == shared


def lines(begin_at: int, size: int, border: int) -> int:
    return (begin_at + size - 1) // border - begin_at // border + 1


def test_each_place_is_what_it_says(known: tuple[AccessInstructions, ...]) -> None:
    for cell in some(cells(known), 10_000):
        at = begin(cell)
        assert at is not None
        parts = ((at, cell.store.size_bytes), (at + cell.offset_bytes, cell.load.size_bytes))
        union = (min(one for one, _ in parts), max(one + size for one, size in parts))
        if cell.place is LineCrossing.LINE:
            assert lines(union[0], union[1] - union[0], LINE_BYTES) == 1
            assert at % cell.store.size_bytes == 0
        else:
            border = LINE_BYTES if cell.place is LineCrossing.LINES else PAGE_BYTES
            assert max(lines(*part, border) for part in parts) == 2


def test_cells_are_all_different_and_come_by_pair_with_rising_offsets(known: tuple[AccessInstructions, ...]) -> None:
    found = some(list(cells(known)), 10_000)
    assert len(set(found)) == len(found)
    pairs = [(cell.store, cell.load, cell.place, cell.addressing) for cell in found]
    changes = [pair for index, pair in enumerate(pairs) if index == 0 or pairs[index - 1] != pair]
    assert len(changes) == len(set(changes))


def accessed(benchmark: Microbenchmark) -> list[str]:
    """Return what an independent decoder says of the memory that the body accesses."""
    factory = InstructionInfoFactory()
    found = []
    for instruction in Decoder(64, benchmark.body_code):
        assert not instruction.is_invalid
        found += [str(one) for one in factory.info(instruction).used_memory()]
    return found


def test_the_chain_of_a_case_is_store_load_and_link(
    instructions: InstructionFactory, known: tuple[AccessInstructions, ...]
) -> None:
    code = ForwardingCode(instructions)
    by_name = {one.name: one for one in known}
    cell = ForwardingCase(by_name["r64"], by_name["r32"], 4)
    texts = [line.text for line in code.chain(cell).body]
    assert texts == ["MOV qword ptr [R14], RAX", "MOV EAX, dword ptr [R14+4]", "IMUL RAX, RAX"]
    across = code.chain(ForwardingCase(by_name["x128"], by_name["r64"], 3, LineCrossing.PAGES))
    assert [line.text for line in across.body][:2] == [
        "VMOVDQU xmmword ptr [R14+0xff8], XMM0",
        "MOV RAX, qword ptr [R14+0xffb]",
    ]
    for cell in some(list(cells(known))[::97], 100):
        assert len(accessed(code.chain(cell))) == 2


def test_another_register_of_the_address_is_no_copy_that_could_be_renamed(
    instructions: InstructionFactory, known: tuple[AccessInstructions, ...]
) -> None:
    code = ForwardingCode(instructions)
    for addressing, register in ((Addressing.BASE, "RSI"), (Addressing.OTHER_INDEX, "R12")):
        benchmark = code.chain(ForwardingCase(known[0], known[0], 0, LineCrossing.LINE, addressing))
        assert benchmark.setup[-1].text.startswith(f"IMUL {register}, ")
        assert register in benchmark.body[1].text
        assert register not in benchmark.body[0].text


def test_a_case_that_fits_nowhere_is_refused(
    instructions: InstructionFactory, known: tuple[AccessInstructions, ...]
) -> None:
    widest = known[-1]
    with pytest.raises(ValueError, match="no load at offset 1 fits line"):
        ForwardingCode(instructions).chain(ForwardingCase(widest, widest, 1))


def test_without_avx_the_old_encodings_stand_in(instructions: InstructionFactory) -> None:
    def lacks(variant: InstructionVariant) -> str:
        return "no AVX" if variant.extension.startswith("AVX") else ""

    found = accesses_of(instructions, lacks)
    assert [one.name for one in found] == ["r8", "r16", "r32", "r64", "x32_sse", "x64_sse", "x128_sse"]
    code = ForwardingCode(instructions)
    bodies = [code.chain(ForwardingCase(one, other, 0)).body for one in found for other in found]
    assert {line.text[0] for body in some(bodies, 49) for line in body} == {"M", "P", "I"}


def test_accesses_move_as_many_bytes_as_they_say(instructions: InstructionFactory) -> None:
    for one in some(accesses(), 12):
        for string in (one.store, one.load):
            memory = next(o for o in instructions.variant(string).operands if o.kind.value == "mem")
            assert memory.width_bits == 8 * one.size_bytes


def test_a_row_of_another_file_of_registers_is_refused() -> None:
    row = dict.fromkeys(COLUMNS, "x") | {"bytes": "8"}
    with pytest.raises(FactError, match="no file of registers x"):
        _access(row)
    with pytest.raises(FactError, match="eight is no number"):
        _access(row | {"file": "general", "bytes": "eight"})
