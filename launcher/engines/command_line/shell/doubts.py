"""What a command changes of which the text does not decide whether it runs: that has no value. Pure."""

from collections.abc import Mapping

from launcher.engines.command_line import manual_starts, refusals, side_commands
from launcher.engines.command_line.shell.aliases import read_aliases, read_removed
from launcher.engines.command_line.shell.arithmetic import list_assigned
from launcher.engines.command_line.shell.blocks import LEAVES
from launcher.engines.command_line.shell.state import READERS, ShellState
from launcher.engines.command_line.shell.variables import UNDECIDED, parse_set_options, update_arguments
from launcher.engines.command_line.shell.words import DECLARATIONS, Word, is_assignment
from launcher.engines.command_line.tables import side_programs

SHOWN = (Word("cat"),)  # what shows a text in place, where no pipe is behind it
_DECIDES = {"lastpipe", "nocasematch"}  # settings that decide what variables and conditions are


def leave_out(shell: ShellState, words: tuple[Word, ...]) -> None:
    """Take a command that may run: what it sets has no value."""
    name, rest = words[0].text, words[1:]
    if not (_leaves_shell(shell, words) or _leaves_variables(shell, words)):
        kind = shell.blocks.kind
        if words == SHOWN:
            pass  # of a text in place
        elif side_commands.is_setup(words) and not side_commands.is_of_shell(words):
            shell.dropped.append(f"{name}: do it on each host yourself, where it is needed")
        elif name in ("source", ".") and shell.is_absent(rest):
            shell.dropped.append(f"{name} {rest[0].text}: no such file on this machine")
        elif name in ("cd", "pushd", "popd", "source", "."):
            shell.lack(refusals.explain_undecided(kind))
        elif said := side_commands.explain_drop(words, after=True):
            shell.dropped += [said] if not said.endswith(side_programs.NOTHING) else []
        else:
            by_node = manual_starts.explain_loop_over_nodes(words, kind)
            shell.doubtful.append((words, by_node or refusals.explain_undecided(kind)))


def define_functions(shell: ShellState, bodies: Mapping[str, str]) -> None:
    """Take functions; one that may be defined anew, or in place of a launcher, is the old one or the new."""
    runs, before = shell.blocks.runs, dict(shell.functions)
    for name, body in bodies.items() if runs is not False else ():
        if runs is None and (side_commands.has_launcher((Word(name),)) or name.startswith("python")):
            before.setdefault(name, f'command {name} "$@"')
        old = body if runs else before.get(name, body)
        shell.functions[name] = body if old == body else f"if grep; then\n{body}\nelse\n{old}\nfi"


def forget_counter(shell: ShellState, words: tuple[Word, ...]) -> None:
    """Take the variable of a loop whose rounds the text does not decide: `for NAME in *.py`."""
    is_counted = words[1:2] == (Word("(("),)
    names = (
        list_assigned(words[2].text.partition(";")[0]) if is_counted else (word.text for word in words[1:2])
    )
    if words[0].text in ("for", "select") and shell.blocks.runs is not False:
        for name in shell.values.keys() & names:
            shell.forget(name, is_exported=False)


def _leaves_shell(shell: ShellState, words: tuple[Word, ...]) -> bool:
    """Take what changes arguments, functions and aliases, or leaves a loop; return False for any other."""
    name = words[0].text
    options = parse_set_options(words)[0] if name == "set" else {}
    if name in LEAVES:
        count = "".join(word.text for word in words[1:])
        if name in ("break", "continue"):
            shell.may_leave = (
                (shell.loops + 1 - int(count or 1), 0) if count.isdecimal() or not count else (0, 0)
            )
        elif name == "return":
            shell.blocks.status = int(count) == 0 if count.isdecimal() else None
            if count in ("", "0") or shell.blocks.excuses:  # else a script that fails ends
                shell.may_leave = (0, shell.returns)
    elif (given := update_arguments(words, shell.values)) is not None or options:
        if given is not None and given[0] != shell.values.get("@", ()):
            shell.values["@"] = (UNDECIDED,)
        if "a" in options:
            shell.may_export(options["a"], refusals.explain_undecided(shell.blocks.kind))
    elif name == "shopt" and not _DECIDES.isdisjoint(word.text for word in words[1:]):
        shell.lack(refusals.explain_undecided(shell.blocks.kind))
    elif bodies := read_aliases(words) or read_removed(shell.functions, words):
        define_functions(shell, bodies)
    else:
        return False
    return True


def _leaves_variables(shell: ShellState, words: tuple[Word, ...]) -> bool:
    """Take what sets variables; return False for any other command."""
    name, rest = words[0].text, words[1:]
    is_declaration = name in DECLARATIONS
    if name in ("((", "let"):
        shell.calculate(rest[:-1] if name == "((" else rest, is_certain=False)
    elif is_declaration or all(map(is_assignment, words)):
        for word in rest if is_declaration else words:
            if name != "export" or not shell.export_file(word):
                is_exported = name == "export" or (is_declaration and Word("-x") in rest)
                shell.forget(word.text.partition("=")[0].rstrip("+"), is_exported=is_exported)
        if name == "readonly" or Word("-r") in rest:
            shell.hide(rest, " -r")
        elif name != "export" and Word("-n") in rest:
            shell.refer(f"{name} -n", rest)
    elif (name in (*READERS, "unset") and rest[:1] != (Word("-f"),)) or rest[:1] == (Word("-v"),):
        for word in rest[1:2] if name == "printf" else rest:
            shell.forget(word.text, is_exported=False)
    else:
        return False
    return True
