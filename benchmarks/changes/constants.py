"""Importing inference with one of its numeric constants changed."""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from docs.constants import assigned, constants, numbers

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from types import CodeType, ModuleType


def scaled(value: Any, factor: Fraction) -> Any:  # noqa: ANN401 - a number of any type, or a tuple of them
    """Return half or twice a number; of a tolerance around 1, its distance from 1. Counts are rounded up."""
    if isinstance(value, tuple):
        return tuple(scaled(one, factor) for one in value)
    if isinstance(value, int):
        return -(-value * factor.numerator // factor.denominator)
    if value != 1 and Fraction(9, 10) <= value <= Fraction(11, 10):
        return type(value)(1 + (value - 1) * factor)
    return type(value)(value * factor)


class Loader(importlib.machinery.SourceFileLoader):
    """Loads modules of inference with one constant changed, or so that every use of a constant is noted."""

    names: frozenset[str] = frozenset()
    """The constants (`inference.ports.ask.CLEAR`) whose reading is noted."""

    changed: str = ""
    """The constant that is another one."""

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override] # noqa: ANN401
        """Compile the module's source, changed."""
        tree = ast.parse(data)
        known = {name: f"{self.name}.{name}" for name in numbers(tree.body)}
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
        own = {id(value) for statement in node.body for name, value in assigned(statement) if name == self._name}
        if own:
            _Scaled(own).visit(node)
        return node


class _Scaled(ast.NodeTransformer):
    """Scales expressions, which are given by their identity."""

    def __init__(self, expressions: Container[int]) -> None:
        self._expressions = expressions

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and id(node) in self._expressions:
            return ast.Call(ast.Name("__scaled__", ast.Load()), [node], [])
        return self.generic_visit(node)


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
    """Let inference be imported with a constant changed ("": none); return a set of the constants that are used.

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
