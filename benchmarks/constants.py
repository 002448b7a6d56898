"""The numeric constants of inference: which there are, and importing inference with one of them changed."""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType, ModuleType

CHECKOUT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that a module of inference has, and the module's file."""

    module: str
    name: str
    value: Any

    def __str__(self) -> str:
        """Return `inference.ports.ask.CLEAR`."""
        return f"{self.module}.{self.name}"


def constants() -> list[Constant]:
    """Return the constants of all modules of inference, in the order of files and lines."""
    found = []
    for path in sorted((CHECKOUT / "inference").rglob("*.py")):
        module = ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")
        for name, value in numbers(ast.parse(path.read_text(encoding="utf-8"))).items():
            found.append(Constant(module, name, value))
    return found


def numbers(tree: ast.Module) -> dict[str, Any]:
    """Return what a module gives numbers (or tuples of them) that are written down there."""
    found = {}
    for node in tree.body:
        name, value = _assigned(node)
        if name and value is not None and _is_number(value):
            expression = compile(ast.Expression(value), "<constant>", "eval")
            found[name] = eval(expression, {"Fraction": Fraction})  # noqa: S307 - numbers only, as was just checked
    return found


def _assigned(node: ast.stmt) -> tuple[str, ast.expr | None]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            return name, value
    return "", None


def _is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=int() | float() as number):
            return not isinstance(number, bool)
        case ast.Call(func=ast.Name(id="Fraction"), args=parts) | ast.Tuple(elts=[_, *_] as parts):
            return all(map(_is_number, parts))
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
    return False


def scaled(value: Any, factor: Fraction) -> Any:  # noqa: ANN401 - a number of any type, or a tuple of them
    """Return half or twice a number, of a tolerance around 1 by its distance; halves of counts are rounded up."""
    if isinstance(value, tuple):
        return tuple(scaled(one, factor) for one in value)
    if isinstance(value, int):
        return -(-value * factor.numerator // factor.denominator)
    if Fraction(9, 10) <= value <= Fraction(11, 10):
        return type(value)(1 + (value - 1) * factor)
    return type(value)(value * factor)


class Loader(importlib.machinery.SourceFileLoader):
    """Loads modules of inference with one constant changed, or with a note of every look at one."""

    names: frozenset[str] = frozenset()
    """The constants (`inference.ports.ask.CLEAR`) whose reading is noted."""

    changed: str = ""
    """The constant that is another one."""

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override] # noqa: ANN401
        """Compile the module's source, changed."""
        tree = ast.parse(data)
        known = {name: f"{self.name}.{name}" for name in numbers(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                known |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        changed = _Changed(self.changed.rpartition(".")[2] if self.changed.startswith(f"{self.name}.") else "")
        noted = _Noted({name: full for name, full in known.items() if full in self.names})
        return compile(ast.fix_missing_locations(noted.visit(changed.visit(tree))), path, "exec")

    def get_code(self, fullname: str) -> CodeType | None:
        """Compile always: what is cached is not changed."""
        return self.source_to_code(self.get_data(self.path), self.get_filename(fullname))


class _Changed(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Module(self, node: ast.Module) -> ast.Module:
        for statement in node.body:
            name, value = _assigned(statement)
            if self._name and name == self._name and isinstance(statement, ast.Assign | ast.AnnAssign):
                statement.value = ast.Call(ast.Name("__scaled__", ast.Load()), [value or ast.Constant(0)], [])
        return node


class _Noted(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or node.id not in self._names:
            return node
        return ast.Call(ast.Name("__noted__", ast.Load()), [ast.Constant(self._names[node.id]), node], [])


class Finder(importlib.machinery.PathFinder):
    """Finds modules of inference for the loader."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the module's specification with our loader, None for modules of others."""
        spec = super().find_spec(fullname, path, target) if fullname.partition(".")[0] == "inference" else None
        if spec is not None and spec.origin:
            spec.loader = Loader(fullname, spec.origin)
        return spec


def import_changed(changed: str, factor: Fraction, *, note: bool) -> set[str]:
    """Let inference be imported with a constant changed ("": none); return a set of the constants that are looked at.

    The set grows while inference runs, and stays empty unless `note`. Nothing of inference may be imported before.
    """
    looked_at: set[str] = set()

    def noted(name: str, value: object) -> object:
        looked_at.add(name)
        return value

    assert "inference" not in sys.modules
    vars(builtins).update(__noted__=noted, __scaled__=lambda value: scaled(value, factor))
    Loader.names = frozenset(map(str, constants())) if note else frozenset()
    Loader.changed = changed
    sys.meta_path.insert(0, Finder)
    return looked_at
