"""Code for `test_on_demand`, which the guest runs: blocks of programs, and blobs that do one thing."""

ENTRY = 8
"""Where the code of a blob begins."""
VALUE = 0x2324000

BLOCKS = {
    "add rax, [rbx]": "480303",
    "two pages": "48898800001000" + "488b9300b0ffff",
    "push rax; pop rbx": "505b",
    "load and store relative to RIP": "488b0500000001" + "48890500000002",
    "what memory holds is an address": "488b00" * 4,
    "fs:[0x28]": "64488b042528000000",
    "a page further with each copy": "480500100000" + "4801d8" + "488908",
    "the kernel's addresses": "48c7c00000f0ff" + "488908",
    "not canonical": "48b8efcdab9078563412" + "488b00",
    "the lowest page": "31c0" + "488b00",
    "misaligned": "0f284001",
    "gs:[0x28]": "65488b042528000000",
    "cli": "fa",
    "syscall": "0f05",
    "ud2": "0f0b",
}

BLOBS = {
    "nothing": "c3",
    "one page": "b800003202" + "488b00" + "c3",
    "two pages": "b800003202" + "488b08" + "48898800000100" + "c3",
    "across two pages": "b8fc0f3202" + "488b00" + "c3",
    "the last page": "48b8f8efffffff7f0000" + "488b00" + "c3",
    "address 0": "31c0" + "488b00" + "c3",
    "below the first address": "b8f8ff0000" + "488b00" + "c3",
    "a store into its own code": "c605f9ffffff90" + "c3",
    "not canonical": "48b8efcdab9078563412" + "488b00" + "c3",
    "an unmapped address of the kernel": "48c7c0f8ffffff" + "488b00" + "c3",
    "a jump to a page that could be mapped": "b800003202" + "ffe0",
    "a page of its own after another, without end": "b800003202" + "488900" + "480500100000" + "ebf5",
    "UD2 behind a page": "b800003202" + "488b00" + "0f0b",
    "an endless loop": "b800003202" + "488b00" + "ebfe",
    "stack on demand": "4889e2" + "bc00003202" + "50" + "50" + "4889d4" + "c3",
    "running off the end": "90",
}
