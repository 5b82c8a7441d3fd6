"""Words and names in the syntax of a training loop that say what has a graph."""

import ast
from collections.abc import Iterable

from preflight import regex as re
from preflight.script.syntax_trees import walk

LOOPS = (ast.For, ast.AsyncFor, ast.While)
BACKWARDS = frozenset({"backward", "manual_backward"})
SAME = frozenset(
    {"mean", "sum", "clone", "float", "double", "half", "to", "cpu", "cuda", "view", "reshape", "squeeze"}
    | {"unsqueeze", "flatten", "sigmoid", "softmax", "log_softmax", "contiguous", "permute", "transpose"}
)
"""Methods of a tensor that give one of the same graph."""
LOSSES = "(?i)loss|criteri|entropy|mse|nll|bce|kl_div"
_OF_DATA = re.compile(r"(?i)load|data|dl\b|batch|iter\b")


def find_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the plain names in pieces of syntax."""
    return {part.id for node in nodes for part in walk(node) if type(part) is ast.Name}


def list_words(node: ast.AST) -> str:
    """Return the names and attributes in an expression."""
    return " ".join(getattr(part, "id", getattr(part, "attr", "")) for part in walk(node))


def is_of_data(node: ast.AST) -> bool:
    """Whether what a loop goes over has a name of batches."""
    return _OF_DATA.search(list_words(node)) is not None
