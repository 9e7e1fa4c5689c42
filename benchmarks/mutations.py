"""Small deliberate bugs: places in a module where one operator, number, name or condition can be another."""

import ast
import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
"""Operators of arithmetic, comparison and logic."""
RENAMED = {
    "sum": "mean", "mean": "sum", "max": "min", "min": "max", "amax": "amin", "argmax": "argmin", "exp": "expm1",
    "log": "log1p", "log1p": "log", "sqrt": "square", "square": "sqrt", "triu": "tril", "tril": "triu",
    "any": "all", "all": "any", "logsumexp": "mean", "diagonal_scatter": "clone", "softplus": "relu", "detach": "clone",
}  # fmt: skip
"""What is called on a tensor."""


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    path: str
    line: int
    kind: str
    before: str
    after: str
    source: str
    """All of the changed module."""

    @property
    def told(self) -> str:
        """In a line."""
        return f"{self.path}:{self.line} {self.kind}: {self.before} → {self.after}"


def mutants(path: Path, root: Path) -> Iterator[Mutant]:
    """Every one of a module, each by itself."""
    text = path.read_text(encoding="utf-8")
    count = len(list(_places(ast.parse(text))))
    for number in range(count):
        tree = ast.parse(text)
        node, kind = list(_places(tree))[number]
        before, line = ast.unparse(node), node.lineno  # type: ignore[attr-defined]
        _change(node, kind)
        after = ast.unparse(node)
        if after != before:
            source = ast.unparse(ast.fix_missing_locations(tree))
            yield Mutant(str(path.relative_to(root)), line, kind, _short(before), _short(after), source)


def sampled(paths: list[Path], root: Path, count: int, seed: int) -> list[Mutant]:
    """Some of all of them, each as likely as any other."""
    drawn = random.Random(seed)
    sizes = {path: len(list(_places(ast.parse(path.read_text(encoding="utf-8"))))) for path in paths}
    every = [(path, number) for path, size in sizes.items() for number in range(size)]
    chosen = sorted(drawn.sample(every, min(count, len(every))), key=str)
    found = []
    for path in dict.fromkeys(path for path, _ in chosen):
        numbers = {number for each, number in chosen if each == path}
        found += [each for number, each in enumerate(mutants(path, root)) if number in numbers]
    return found


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """What can be changed, and how; texts, annotations, decorators and what is raised are left alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr):
            continue
        if isinstance(node, ast.FunctionDef):
            for default in (*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)):
                yield from _at(default)
            for each in node.body:
                yield from _at(each)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from _at(node.value)
        elif isinstance(node, ast.ClassDef):
            for each in node.body:
                yield from _at(each)
        else:
            yield from _at(node)


def _at(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """A node itself, and below it."""
    if isinstance(node, ast.Raise):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AnnAssign | ast.Import | ast.ImportFrom | ast.JoinedStr):
        yield from _places(ast.Module([node], []))  # type: ignore[list-item]
        return
    yield from ((node, kind) for kind in _kinds(node))
    yield from _places(node)


def _kinds(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        yield "operator"
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        yield "comparison"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        yield "sign"
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        yield "number"
    elif isinstance(node, ast.Attribute) and node.attr in RENAMED:
        yield "name"
    elif isinstance(node, ast.Attribute) and node.attr in ("mT", "T"):
        yield "transpose"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "where":
        yield "branches"
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "condition"


def _change(node: ast.AST, kind: str) -> None:
    """In place."""
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        other = SWAPPED.get(type(node.op), ast.Add)
        node.op = other()  # type: ignore[assignment]
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPPED[type(node.ops[0])]()  # type: ignore[call-overload]
    elif isinstance(node, ast.UnaryOp):
        _become(node, node.operand)
    elif isinstance(node, ast.Constant):
        assert isinstance(node.value, int | float)
        node.value = node.value + 1 if isinstance(node.value, int) or node.value == 0.0 else 2.0 * node.value
    elif isinstance(node, ast.Attribute) and kind == "name":
        node.attr = RENAMED[node.attr]
    elif isinstance(node, ast.Attribute):
        _become(node, node.value)
    elif isinstance(node, ast.Call):
        node.args[-2:] = node.args[:-3:-1]
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        node.test = ast.UnaryOp(ast.Not(), node.test)


def _become(node: ast.AST, other: ast.AST) -> None:
    """Another node in the place of this one."""
    copied = deepcopy(other)
    node.__class__ = type(copied)
    node.__dict__.clear()
    node.__dict__.update(copied.__dict__)


def _short(text: str) -> str:
    first = " ".join(text.split())
    return first if len(first) <= 70 else first[:67] + "…"
