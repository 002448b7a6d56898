"""A small folder of datafiles in XED's format, written for tests: enough for an ADD in all its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "layers.txt": "files.cfg\nmore/files.cfg\n",
    "files.cfg": """# the base layer
dec-instructions : isa.txt
dec-patterns : patterns.txt
state : state.txt
widths : widths.txt
extra-widths : extra.txt
fields : fields.txt
element-types : types.txt
registers : regs.txt
pointer-names : pointers.txt
conversion-table : strings.txt
chip-models : chips.txt
""",
    "more/files.cfg": "  dec-instructions : more-isa.txt\n",
    "state.txt": "mode64 MODE=2\nnot64 MODE!=2\nnolock_prefix LOCK=0\nlock_prefix LOCK=1\n",
    "widths.txt": "v int 2 4 8\nb u8 1\nz int 2 4 4\nspw int 2 4 8\n",
    "extra.txt": "nt GPRv_R v\nnt GPRv_B v\n",
    "fields.txt": "\n".join(
        [f"REG{number} SCALAR xed_reg_enum_t 16 EXPLICIT PRINT PUBLIC DO EI" for number in range(3)]
        + [
            "MEM0 SCALAR xed_bits_t 1 EXPLICIT PRINT PUBLIC DO EI",
            "IMM0 SCALAR xed_bits_t 1 EXPLICIT PRINT PUBLIC DO EI",
        ]
    )
    + "\n",
    "types.txt": "int INT 0\nu8 UINT 8\n",
    "regs.txt": "RAX gpr 64 RAX 0\nEAX gpr 32 RAX/EAX 0\nRCX gpr 64 RCX 1\n",
    "pointers.txt": "4 dword l\n8 qword q\n",
    "strings.txt": "BCASTSTR(XED_OPERAND_BCAST)::\n0 -> ''\n1 -> '{1to16}'\n",
    "chips.txt": "OLD: I86\nNEW: ALL_OF(OLD) \\\n # a comment\n  I386 \\\n NOT(I86)\n",
    "patterns.txt": "".join(
        f"xed_reg_enum_t GPRv_{field}()::\n"
        f"EOSZ=3 {name}=0 | OUTREG=XED_REG_RAX\nEOSZ=3 {name}=1 | OUTREG=XED_REG_RCX\n"
        f"EOSZ!=3 {name}=0 | OUTREG=XED_REG_EAX\nEOSZ!=3 {name}=1 | OUTREG=XED_REG_ECX\n"
        for field, name in (("R", "REG"), ("B", "RM"))
    )
    + "MODRM()::\nmode64 |\nSIMMz()::\nEOSZ=1 UIMM0[i/16] | IMM_WIDTH=16\nEOSZ=2 UIMM0[i/32] | IMM_WIDTH=32\n"
    "EOSZ=3 UIMM0[i/32] | IMM_WIDTH=32\n",
    "isa.txt": """INSTRUCTIONS()::
{
ICLASS    : ADD
CPL       : 3
CATEGORY  : BINARY
EXTENSION : BASE
ISA_SET   : I86
FLAGS     : MUST [ of-mod cf-mod ]
PATTERN   : 0x01 MOD[0b11] MOD=3 REG[rrr] RM[nnn]
OPERANDS  : REG0=GPRv_B():rw REG1=GPRv_R():r
IFORM     : ADD_GPRv_GPRv_01
PATTERN   : 0x03 MOD[0b11] MOD=3 REG[rrr] RM[nnn]
OPERANDS  : REG0=GPRv_R():rw REG1=GPRv_B():r
IFORM     : ADD_GPRv_GPRv_03
PATTERN   : 0x81 MOD[mm] MOD!=3 REG[0b000] RM[nnn] MODRM() SIMMz() nolock_prefix
OPERANDS  : MEM0:rw:v IMM0:r:z
}
""",
    "more/more-isa.txt": """INSTRUCTIONS()::
{
ICLASS    : DAA
CPL       : 3
CATEGORY  : DECIMAL
EXTENSION : BASE
PATTERN   : 0x27 not64
OPERANDS  :
}
""",
}


def write_datafiles(folder: Path, changes: dict[str, str | None] | None = None) -> Path:
    """Write the files to `folder` with some changed (None: left out); return the folder."""
    for name, text in {**FILES, **(changes or {})}.items():
        if text is None:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
