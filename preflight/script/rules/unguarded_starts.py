"""Rule D211: processes that a script starts while they import it."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import get_last_name
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import ByKind, root_of, unparse, walk

_STARTS = re.compile(r"(?:^|\.)(?:mp|multiprocessing)\.spawn$|\.start_multi_process_pool$")
_MAY_START = re.compile(r"\.(?:spawn|start_multi_process_pool)\(")
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


@rule("D211", "end")
def started_while_imported(it: Interpreter, _event: ScriptEvent) -> Iterator[RuleHit]:
    """Processes are started where no `if __name__ == "__main__":` is around what starts them.

    A process of torch.multiprocessing.spawn(), or of the pool of sentence-transformers, imports the script
    first, and comes to the same line: "An attempt has been made to start a new process before the current
    process has finished its bootstrapping phase".
    Source: Python's multiprocessing, the spawn and forkserver start methods; torch/multiprocessing/spawn.py.
    """
    script = it.sources.files()[0]
    if _MAY_START.search(script.text) and not it.sources.magics:
        for call, sure in it.sources.parser.find_by_kind(_list_starts, script.tree):
            message = "each process that this starts imports the script, and comes to it again"
            fix = 'if __name__ == "__main__": around it, or around what calls its function'
            yield RuleHit(script.place(call), message, fix, Level.ERROR if sure else Level.WARNING)


def _list_starts(kinds: ByKind) -> list[tuple[ast.Call, bool]]:
    """Return the calls that start processes and run when a file is imported, and whether they always do."""
    functions = {node.name: node for node in kinds.get(ast.FunctionDef, ())}
    found, seen = list[tuple[ast.Call, bool]](), set[str]()
    waiting = [
        (node, not isinstance(node, (ast.If, ast.Try))) for node in getattr(root_of(kinds), "body", ())
    ]
    for node, sure in waiting:  # which grows
        for call in (part for part in _list_run(node) if isinstance(part, ast.Call)):
            if _STARTS.search(unparse(call.func)):
                found.append((call, sure))
            name = get_last_name(call)
            if name in functions and name not in seen:
                seen.add(name)
                own = functions[name].body
                returns = any(isinstance(part, ast.Return) for each in own for part in walk(each))
                waiting += [
                    (each, sure and not returns and not isinstance(each, (ast.If, ast.Try))) for each in own
                ]
    return found


def _list_run(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a statement that run when a file is imported: not what it defines, or guards."""
    found, waiting = list[ast.AST](), [node]
    for part in waiting:  # which grows
        if isinstance(part, _DEFINES) or (isinstance(part, ast.If) and "__name__" in unparse(part.test)):
            continue
        found.append(part)
        waiting += ast.iter_child_nodes(part)
    return found
