"""Which loads read from which stores."""

from dataclasses import replace
from fractions import Fraction

import pytest

from analysis.memory.accesses import ForwardedLoad
from analysis.memory.addresses import AddressFollower, Followed
from analysis.memory.environment import BHIVE, MEASURED, Environment
from analysis.memory.pages import NOTHING, Early, Reached
from tests.analysis.machine import block


def found(text: str, environment: Environment | None = None) -> tuple[ForwardedLoad, ...]:
    return AddressFollower(environment).follow(block(text).items).forwardings


def reached_by(text: str, environment: Environment, loop_copies: int = 0) -> Reached:
    return AddressFollower(environment).follow(block(text).items, loop_copies).reached


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov [rax], rbx; mov rcx, [rax]", (1, 0, 0)),
        ("mov rcx, [rax]; mov [rax], rbx", (0, 1, 1)),
        ("mov [rdi+8], rax; mov rax, [rdi]; add rdi, 8", (1, 0, 1)),
        ("mov [rdi+16], rax; mov rax, [rdi]; add rdi, 8", (1, 0, 2)),
        ("mov rsi, rdi; mov [rsi+8], rax; lea rdi, [rsi+8]; mov rbx, [rdi]", (3, 1, 0)),
        ("push rax; pop rbx", (1, 0, 0)),
        ("push rax; mov rbx, [rsp]; add rsp, 8", (1, 0, 0)),
        ("mov [rax+rbx*8], rcx; mov rdx, [rax+rbx*8]", (1, 0, 0)),
        ("mov [rip+16], rcx; mov rdx, [rip+9]", (1, 0, 0)),  # the load ends 7 bytes behind the store
        ("mov [rip+16], rcx; mov rdx, [rip+64]", None),
    ],
)
def test_addresses_are_followed_through_arithmetic_and_iterations(
    text: str, expected: tuple[int, int, int] | None
) -> None:
    assert found(text) == (() if expected is None else (ForwardedLoad(*expected, whole=True),))


@pytest.mark.parametrize(
    "text",
    [
        "mov [rax], rbx; mov rcx, [rdx]",  # other registers may hold anything
        "mov [rax], rbx; mov rcx, [rax+8]",
        "mov [rdi], rax; add rdi, 8; mov rbx, [rdi]",  # the store runs ahead
        "mov [rax], rbx; imul rax, rdx; mov rcx, [rax]",
    ],
)
def test_what_may_be_elsewhere_is_elsewhere(text: str) -> None:
    assert found(text) == ()


def test_what_a_store_wrote_a_part_of_is_not_forwarded() -> None:
    assert found("mov [rax], ecx; mov rdx, [rax]") == (ForwardedLoad(1, 0, 0, whole=False),)
    assert found("mov [rax], rcx; mov edx, [rax+4]") == (ForwardedLoad(1, 0, 0, whole=True),)
    both = found("mov [rax], ecx; mov [rax+4], ebx; mov rdx, [rax]")
    assert both == (ForwardedLoad(2, 0, 0, whole=False), ForwardedLoad(2, 1, 0, whole=False))


def test_in_an_environment_registers_point_to_the_same_place() -> None:
    text = "mov [rax], rbx; mov rcx, [rdx]"
    assert found(text, BHIVE) == (ForwardedLoad(1, 0, 0, whole=True),)
    assert found("mov [rax], rbx; mov rcx, [rsp]", BHIVE) == ()
    assert found("mov [rsp], rbx; mov rcx, [rbp]", BHIVE) == ()  # each has a place of its own


def test_memory_of_an_environment_holds_pointers() -> None:
    assert found("mov rax, [rbx]; mov [rax+8], rcx; mov rdx, [rsi+8]", BHIVE) == (ForwardedLoad(2, 1, 0, whole=True),)


@pytest.mark.parametrize(
    ("between", "is_forwarded"),
    [
        ("movzx ecx, byte ptr [rdx]", True),  # a load of another size leaves memory as it is
        ("mov byte ptr [rdx+3], cl", False),
    ],
)
def test_memory_of_an_environment_changes_only_where_it_is_written(between: str, *, is_forwarded: bool) -> None:
    text = f"{between}; mov rsi, [rdx]; mov [rsi], rbx; mov rdi, [rdx]; mov r8, [rdi]"
    assert ForwardedLoad(4, 2, 0, whole=True) in found(text, BHIVE)
    assert (ForwardedLoad(3, 2, 0, whole=True) in found(text, BHIVE)) == is_forwarded


def test_all_pages_of_an_environment_are_one_but_nothing_is_forwarded_between_them() -> None:
    assert found("mov [rax+4096], rcx; mov rdx, [rsi]", BHIVE) == (ForwardedLoad(1, 0, 0, whole=False),)


def test_a_store_that_passes_by_a_place_once_does_not_count() -> None:
    assert found("mov [rdi], rcx; add rdi, 8; mov rdx, [rsi+24]", BHIVE) == ()


def test_a_store_that_walks_over_a_place_once_does_not_count() -> None:
    """The load reads eight bytes, of which the store writes another one in each of the first iterations."""
    assert found("mov rax, [r13]; mov [rcx+rbx], dl; add rbx, 1", BHIVE) == ()
    assert found("mov rax, [r13+rbx-6]; mov [rcx+rbx], rdx; add rbx, 8", BHIVE)  # both move on


@pytest.mark.parametrize(
    ("environment", "loop_copies", "expected"),
    [
        (None, 0, {1}),  # a variable of a program
        (MEASURED, 1, {1}),
        (MEASURED, 0, set()),
        (MEASURED, 2, {2}),
    ],
)
def test_measured_copies_have_addresses_relative_to_rip_of_their_own(
    environment: Environment | None, loop_copies: int, expected: set[int]
) -> None:
    items = block("add dword ptr [rip+64], 1; nop").items
    followed = AddressFollower(environment).follow(items, loop_copies)
    assert {one.iterations for one in followed.forwardings} == expected


def test_fs_and_gs_lead_to_places_of_their_own() -> None:
    assert found("mov [r12+0x28], rax; mov rbx, fs:[0x28]", BHIVE) == ()
    assert found("mov fs:[0x28], rax; mov rbx, fs:[0x28]", BHIVE) == (ForwardedLoad(1, 0, 0, whole=True),)
    assert found("mov fs:[rcx], rax; mov rbx, [rcx]") == ()
    assert found("lea rdx, fs:[rcx]; mov [rdx], rax; mov rbx, [rcx]") == (ForwardedLoad(2, 1, 0, whole=True),)


def test_streams_and_far_addresses_are_told_by_their_steps() -> None:
    reached = reached_by("mov rax, [rbx]; mov rcx, [rbx+8]; add rbx, rdx; pop rsi", BHIVE)
    assert reached.far == {0, 1}  # RDX is many pages
    (stack,) = reached.streams
    assert (stack.accesses, stack.pages) == (1, Fraction(8, 4096))
    assert AddressFollower().follow(block("mov rax, [rbx]; add rbx, rdx").items) == Followed()


def test_addresses_that_come_back_are_neither() -> None:
    assert reached_by("add eax, ecx; and eax, edx; mov rdi, [rbx+rax*8]", BHIVE) == NOTHING


def test_memory_holds_one_number_of_64_bits_after_another() -> None:
    reached = reached_by("mov eax, [rdi+4]; sub rdi, rax; mov rcx, [rdi]", BHIVE)
    assert reached.far == frozenset()  # the upper half is 0, so RDI stays


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("mov rax, [rdi]; add rdi, 8", Fraction(1, 8)),
        ("mov rax, [rdi]; mov rcx, [rdi+8]; add rdi, 64", 1),
        ("mov rax, [rdi]; add rdi, 200", 1),
        ("mov rax, [rdi]; mov rcx, [rdi+64]; add rdi, 200", 2),
        ("mov rax, [rdi]; mov rcx, [rdi+512]; add rdi, 1024", 2),
        ("mov rax, [rdi]; mov [rsi], rcx; sub rdi, 64; sub rsi, 16", Fraction(5, 4)),
        ("mov rax, [rdi]; mov rcx, [rdi+8]; add rdi, 8192", 1),
    ],
)
def test_lines_are_new_where_a_stream_moves_on_to_them(text: str, lines: Fraction) -> None:
    assert reached_by(text, MEASURED).lines == lines


def test_at_most_eight_loads_and_eight_stores_are_early_per_line() -> None:
    assert reached_by("pop rax; pop rcx", MEASURED).early == Early(Fraction(2), Fraction(0))
    assert reached_by("push rax; push rcx", MEASURED).early == Early(Fraction(0), Fraction(2))
    assert reached_by("mov al, [rdi]; add rdi, 1", MEASURED).early == Early(Fraction(8, 64), Fraction(0))


def test_code_that_restarts_reaches_nothing_new_within_a_page() -> None:
    restarting = replace(MEASURED, restarts=True)
    assert reached_by("pop rax", restarting).lines == 0
    assert reached_by("pop rax", restarting, 511).pages == 0
    assert reached_by("pop rax", restarting, 512).pages == Fraction(1, 512)
    assert reached_by("pop rax", MEASURED).pages == Fraction(1, 512)
