"""argparse: what options a script has, their defaults, and what the launch's own arguments make of them."""

from collections.abc import Iterator
from dataclasses import replace

from preflight import regex as re
from preflight.script.interpreter.events import Call, DeclaredOption
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.library_names import TRAINS
from preflight.script.values import Const, Element, ExternalName, RankValue, Ref, Scalar, Seq, Value
from preflight.script.values.constants import FALSE, NONE, OF_NODE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, join, list_values, place_of

_OF_TRAINING = re.compile(r"pytorch|torch|ddp|fsdp|dist|deepspeed|multi|lora|peft")
_HALF = re.compile(r"fp16|float16|half|f16|16(?:-mixed)?|fp16[-_]mixed|amp")  # choices that train in fp16
_ABSENT = ExternalName("argparse.SUPPRESS")  # default of an option that exists only if given
_SWITCHES = {"store_true": (FALSE, TRUE), "store_false": (TRUE, FALSE)}


def add_argument(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """Note an option of a parser."""
    names = [name for name in (as_text(item) for item in call.args) if name]
    if not names or not isinstance(owner, Ref):
        return UNKNOWN
    thing = it.thing(owner)
    declared = _declared(names, call)
    if thing is not None and isinstance(parser := thing.get("parser"), Ref):
        declared = replace(declared, group=owner.id)
        owner, thing = parser, it.thing(parser)
    known = thing.get("options", Seq(())) if thing else Seq(())
    options = known if isinstance(known, Seq) else Seq(())
    entry = it.allocate(HeapObject("option", call.place, {"default": declared.default}))
    it.options.declared[entry.id] = declared
    if declared.flags and isinstance(declared.default, Const) and declared.default.place is not None:
        it.options.places[declared.default.place] = declared.flag
    it.work.add(len(options.items) // 4)  # all of them are measured again
    it.change(owner.id, options=Seq((*options.items, entry)))
    it.emit(call.event("option", entry.id, names[0]))
    return UNKNOWN


def _declared(names: list[str], call: Call) -> DeclaredOption:
    flags = tuple(name for name in names if name.startswith("-"))
    longest = next((name for name in flags if name.startswith("--")), (flags or names)[0])
    dest = as_text(call.get("dest")) or longest.lstrip("-").replace("-", "_")
    action = call.get("action")
    given = call.get("default")
    switch = _SWITCHES.get(as_text(action) or "")
    required = call.get("required") == TRUE or not flags
    if switch is not None:
        default = given or Const(switch[0].value, call.place)
        return DeclaredOption(flags, dest, default, switch[1], "")
    if isinstance(action, ExternalName) and action.name == "argparse.BooleanOptionalAction":
        negative = tuple(f"--no-{flag[2:]}" for flag in flags if flag.startswith("--"))
        return DeclaredOption((*flags, *negative), dest, given or NONE, TRUE, "")
    if as_text(action) == "store_const":
        return DeclaredOption(flags, dest, given or NONE, call.get("const") or NONE, "")
    typed = call.get("type")
    kind = (
        typed.name.removeprefix("builtins.")
        if isinstance(typed, ExternalName)
        else ("str" if typed is None else "")
    )
    default = given if given is not None else (UNKNOWN if required else NONE)
    if isinstance(default, Seq) and not default.items:
        default = Seq((), open=True)  # of which a launch gives some
    listed = call.get("choices")
    choices = tuple(as_text(item) or "" for item in listed.items) if isinstance(listed, Seq) else ()
    others = (word for word in choices if word != as_text(default) and _OF_TRAINING.search(word))
    half = _half_choice(listed.items, default) if isinstance(listed, Seq) else ""
    return DeclaredOption(flags, dest, default, None, kind, next(others, ""), choices, half)


def _half_choice(items: tuple[Value, ...], default: Value) -> str:
    """Return the choice that trains in fp16, "" where there is none or the default does."""
    named = [(item, str(item.value)) for item in items if isinstance(item, Const)]
    halves = [(item, word) for item, word in named if _HALF.fullmatch(word.lower())]
    return halves[0][1] if halves and all(item != default for item, _ in halves) else ""


def find_choosing_flag(it: Interpreter, value: Value, choice: str) -> str:
    """Return the option whose default a value is and that may be given `choice` instead, "" where none is."""
    spots = [place_of(item) for item in list_values(value)] if it.target.args is None else []
    for declared in it.options.declared.values() if any(spot in it.options.places for spot in spots) else ():
        if choice in declared.choices and place_of(declared.default) in spots:
            return declared.flag
    return ""


def inherit_parents(it: Interpreter, ref: Ref, _name: str, call: Call) -> None:
    """ArgumentParser(parents=[...]): the options of those parsers, and their defaults, come first."""
    it.change(ref.id, argument_default=call.get("argument_default") or NONE)
    given = call.get("parents")
    held = [it.thing(item) for item in given.items] if isinstance(given, Seq) else []
    options: list[Value] = []
    for parent in held:
        known = parent.get("options") if parent else NONE
        options += known.items if isinstance(known, Seq) else ()
        for key, value in parent.attrs.items() if parent else ():
            if key.startswith("default:"):
                it.change(ref.id, **{key: value})
    if options:
        it.change(ref.id, options=Seq(tuple(options)))


def return_parser(_it: Interpreter, owner: Ref | Element, _call: Call) -> Value:
    """Groups are the parser, for what counts in this module."""
    return owner


def make_exclusive_group(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """Return a parser of its own for options of which one must be given; other groups are the parser."""
    if not isinstance(owner, Ref) or call.get("required", 0) != TRUE:
        return owner
    return it.allocate(HeapObject("parser", call.place, {"parser": owner}))


def set_defaults(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """Note defaults that win over those of the options."""
    if isinstance(owner, Ref):
        it.change(owner.id, **{f"default:{name}": value for name, value in call.kwargs.items()})
    return NONE


def parse_args(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """Return the namespace: the launch's arguments where they are known, the defaults otherwise."""
    thing, words = it.thing(owner), _words(it, call)
    values = _values(it, thing, words)
    if words is not None and it.target.args is None:  # the script's own words: no launch gives others
        for entry in _entries(it, thing):
            declared = it.options.declared[entry] = replace(it.options.declared[entry], given=True)
            if isinstance(declared.default, Const) and declared.default.place is not None:
                it.options.places.pop(declared.default.place, None)
    return it.allocate(HeapObject("namespace", call.place, values))


def build_command_line(it: Interpreter) -> Value | None:
    """Return sys.argv, None where the launch's arguments are not known."""
    return None if it.target.args is None else Seq((UNKNOWN, *map(Const, it.target.args)))


def _words(it: Interpreter, call: Call) -> list[str] | None:
    """Return the words that a parser is given, or the launch's; None where they are not known."""
    given = call.get("args", 0) or NONE
    if given == NONE:
        return None if it.target.args is None else list(it.target.args)
    words = [as_text(item) for item in given.items] if isinstance(given, Seq) and not given.open else [None]
    known = [word for word in words if word is not None]
    return known if len(known) == len(words) else None


def list_words_left(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """Return the words that a parser does not take as options or their values."""
    thing, words = it.thing(owner), _words(it, call)
    if words is None:
        return Seq((), open=True)
    options = _options(it, thing)
    takes = {flag: item.when_given is None for item in options for flag in item.flags}
    positional = any(not item.flags for item in options)
    rest, taken = [], positional
    for word in words:
        flag, equals, _ = word.partition("=")
        if word.startswith("-"):
            taken = positional or (takes.get(flag, False) and not equals)
        if flag not in takes and not (taken and not word.startswith("-")):
            rest.append(Const(word))
    return Seq(tuple(rest))


def _options(it: Interpreter, thing: HeapObject | None) -> list[DeclaredOption]:
    return [it.options.declared[entry] for entry in _entries(it, thing)]


def _entries(it: Interpreter, thing: HeapObject | None) -> list[int]:
    known = thing.get("options", Seq(())) if thing else Seq(())
    entries = known.items if isinstance(known, Seq) else ()
    return [item.id for item in entries if isinstance(item, Ref) and item.id in it.options.declared]


def _values(it: Interpreter, thing: HeapObject | None, given: list[str] | None) -> dict[str, Value]:
    """Return what a parser gives each of its options, those of its commands included."""
    values: dict[str, Value] = {}
    options = _options(it, thing)
    named = {word.partition("=")[0] for word in it.target.switches}
    chosen = {item.group for item in options if named.intersection(item.flags)}
    trains = {item.group for item in options if item.trains()}
    for declared in options:
        default = thing.get(f"default:{declared.dest}", declared.default) if thing else declared.default
        if given is None and declared.group and declared.group not in chosen:
            default = _of_group(declared, default, trains=declared.group in trains)
        value = decide_option(declared, default, given, it.target.switches)
        suppressed = thing is not None and thing.get("argument_default") == _ABSENT
        if value == _ABSENT or (suppressed and NONE in list_values(value)):
            continue
        # What torch.distributed.launch and deepspeed pass to each rank.
        of_rank = declared.is_local_rank() and given is None and it.target.world > 1
        values[declared.dest] = RankValue(of=OF_NODE) if of_rank else value
    for name, value in thing.attrs.items() if thing else ():
        if name.startswith("default:"):
            values.setdefault(name.removeprefix("default:"), value)
    commands = it.thing(thing.get("subparsers")) if thing else None
    return values if commands is None else values | _of_commands(it, commands, given)


def _of_group(declared: DeclaredOption, default: Value, *, trains: bool) -> Value:
    """Return what an option has of which, or of others, one is given: that of training, or any of them."""
    if declared.trains():
        return declared.when_given or UNKNOWN
    return default if trains else join((default, declared.when_given or UNKNOWN))


# --- commands: add_subparsers -------------------------------------------------------------


def add_subparsers(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """Return what makes the parsers of commands: `train.py prepare ...`, `train.py fit ...`."""
    made = it.allocate(HeapObject("subparsers", call.place, {"dest": call.get("dest") or NONE}))
    if isinstance(owner, Ref):
        it.change(owner.id, subparsers=made)
    return made


def add_parser(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """Return the parser of one command."""
    name = call.get("name", 0) or UNKNOWN
    made = it.allocate(HeapObject("parser", call.place))
    inherit_parents(it, made, "", call)
    held = it.attr(owner, "commands", Seq(()))
    if isinstance(owner, Ref) and isinstance(held, Seq):
        it.work.add(len(held.items) // 4)
        it.change(owner.id, commands=Seq((*held.items, Seq((name, made)))))
    return made


def _of_commands(it: Interpreter, commands: HeapObject, given: list[str] | None) -> dict[str, Value]:
    """Return the values of the command that is given; where none is known, of those that train, or all."""
    held = commands.get("commands", Seq(()))
    rows = [row.items for row in held.items if isinstance(row, Seq)] if isinstance(held, Seq) else []
    if given is not None:
        chosen = [row for word in given for row in rows if as_text(row[0]) == word][:1]
    else:
        chosen = [row for row in rows if TRAINS.search(as_text(row[0]) or "")] or rows
    found: dict[str, list[Value]] = {}
    for _, parser in chosen:
        for name, value in _values(it, it.thing(parser), given).items():
            found.setdefault(name, []).append(value)
    dest = as_text(commands.get("dest"))
    if dest is not None and chosen:
        found[dest] = [name for name, _ in chosen]
    return {name: join(values) for name, values in found.items()}


def decide_option(
    declared: DeclaredOption, default: Value, given: list[str] | None, switches: tuple[str, ...]
) -> Value:
    """Return what an option has: what is given, or its default."""
    result = _converted(declared.kind, default)
    if result in (NONE, Const("")) and given is None and declared.when_given is None:
        result = join((result, UNKNOWN))  # the arguments are not known: this one may well be given
    if not declared.flags:
        return UNKNOWN if result == NONE else result
    for index, word in enumerate((*(given or ()), *switches)):
        flag, equals, text = word.partition("=")
        if flag.replace("_", "-") not in {name.replace("_", "-") for name in declared.flags}:
            continue
        if declared.when_given is not None:
            result = (
                FALSE if flag.startswith("--no-") and declared.when_given == TRUE else declared.when_given
            )
        elif equals:
            result = _converted(declared.kind, Const(text))
        elif given is not None and index + 1 < len(given):
            result = _converted(declared.kind, Const(given[index + 1]))
    return result


def _converted(kind: str, value: Value) -> Value:
    text = as_text(value)
    if text is None:
        return value
    try:
        if kind == "int":
            return Const(int(text))
        if kind == "float":
            return Const(float(text))
    except ValueError:
        return UNKNOWN
    if kind == "bool":
        return Const(bool(text))
    if kind == "str":
        return value
    lowered: dict[str, Scalar] = {"true": True, "false": False}
    if text.lower() in lowered:
        return Const(lowered[text.lower()])  # what str2bool and the like make of it
    return join((value, UNKNOWN)) if kind not in ("lambda", "") else value


def find_switch(args: tuple[str, ...] | None, name: str) -> Value | None:
    """Return what `--name`, `--name True`, `--name=false` or `--no_name` says, None when it is not given."""
    result: Value | None = None
    for spelled, following in find_options(args, name, f"no_{name}"):
        off = spelled != name
        result = Const((following.lower() in ("false", "0", "no")) == off) if following else Const(not off)
    return result


def find_options(args: tuple[str, ...] | None, *names: str) -> Iterator[tuple[str, str]]:
    """Yield how each of some options is spelled where it is given, and the word behind it, "" for none."""
    for index, word in enumerate(args or ()):
        flag, equals, text = word.partition("=")
        spelled = flag.lstrip("-").replace("-", "_")
        if flag.startswith("--") and spelled in names:
            yield spelled, text if equals else next(iter((args or ())[index + 1 :]), "")
