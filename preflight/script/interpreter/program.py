"""Reads a program as Python would run it: the script, its commands, then what nothing in it calls.

Both branches of an unknown condition are read, a loop's body twice (so that what one turn leaves behind meets
the next), a call of the script's own functions at its place.
"""

import ast

from preflight.script.bounds import TooLong
from preflight.script.interpreter import calls, expressions, statements
from preflight.script.interpreter.branch_conditions import UNCALLED
from preflight.script.interpreter.choices import is_model_use
from preflight.script.interpreter.decorators import is_command
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.library_names import TRAINS
from preflight.script.source import Source, find_used_by_program, list_used_names
from preflight.script.values import Func


class ProgramReader(Interpreter):
    """One reading of a whole program."""

    expressions, statements = expressions.HANDLERS, statements.HANDLERS

    def run(self, source: Source) -> None:
        """Read the script as `python script.py` would run it, then what nothing in it calls."""
        try:
            self.module_frame(source, main=True)
            self._run_commands(source)
            self._run_uncalled(source)
        except (TooLong, RecursionError):
            self.complete = False

    def _run_commands(self, source: Source) -> None:
        """Read the commands of click and typer that train, by their names, and one that is alone."""
        frame = self.modules[source.path]
        known = [(key, info.node) for key, info in self.functions.items() if info.source is source]
        mine = [(key, node) for key, node in known if key not in self.called and is_command(node)]
        trains = [(key, node) for key, node in mine if TRAINS.search(getattr(node, "name", ""))]
        for key, _ in trains or (mine if len(mine) == 1 else ()):
            self._run_alone(Func(key, frame), frame)

    def _run_uncalled(self, source: Source) -> None:
        """A library of training functions, or a `main` that a tool calls: read each with its defaults.

        Of a script that starts something itself only what it names and trains: an untaken branch may call it.
        """
        frame = self.modules[source.path]
        names = self.state.frames[frame].items()
        mine = [(name, it) for name, it in names if isinstance(it, Func) and it.key not in self.called]
        used = self.sources.parser.find(find_used_by_program, source.tree) if mine else None
        if used is None and mine and self._has_trained(source):
            used = list_used_names(self.sources.parser.nodes(source.tree))
        for name, value in sorted(mine, key=lambda item: item[0] not in ("main", "train")):
            known = value.key in self.functions and value.key not in self.called
            if known and (used is None or (name in used and not is_model_use(name))):
                self.contexts = [] if used is None or value.key in self.unread_calls.functions else [UNCALLED]
                self._run_alone(value, frame)
        self.contexts = []
        for value in [func for func in self.unread_calls.functions.values() if func.key not in self.called]:
            info = self.functions.get(value.key)  # a step, written in a function, that an engine is given
            lines = info.source.lines[info.node.lineno - 1 : info.node.end_lineno] if info else ()
            if any(".backward(" in line for line in lines):
                self._run_alone(value, value.frame)

    def _has_trained(self, source: Source) -> bool:
        """Whether a script without a guard has called what trains, by its name, and starts nothing else."""
        called = (self.functions[key] for key in self.called if key in self.functions)
        return any(info.source is source and TRAINS.search(getattr(info.node, "name", "")) for info in called)

    def _run_alone(self, func: Func, frame: int) -> None:
        before = self.state.fork()
        self.state = before.fork()
        self.state.dead = False
        self.frame = frame
        name = ast.Name(id="main", ctx=ast.Load())
        node = ast.Call(func=name, args=[], keywords=[], lineno=1, col_offset=0)
        place = self.functions[func.key].source.place(self.functions[func.key].node)
        calls.call_function(self, func, Call(node, place, (), {}, {}, open=False))
        self.state = before
