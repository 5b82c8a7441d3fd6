"""Whether a script that is started again continues from a checkpoint, by its options and its words. Pure."""

import ast
from collections.abc import Iterable, Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.source import Finder, Source, Sources
from preflight.script.syntax_trees import Parser

_GIVES = re.compile(
    r"(?i)^(?!-*sav).*?(?:resum|restor|(?<!lr_)restart|check_?-?point(?!ing)|ckpt|snapshot|init[-_]?from|last(?![-_]?(?:layer|epoch))|latest"
    r"|(?<![a-z])(?:re)?load(?![a-z]|[-_]?(?:in|best)[-_]))"
)
_OPTION = re.compile(r"--(?:resume|restore)(?:[-_](?:from|path|ckpt|checkpoint|file|training)){0,3}")
# It looks for its last checkpoint itself, or a library that is to do so.
_FINDS = re.compile(
    r"(?i)auto[-_]?resume|resum\w*[\"']?\s*[:=]\s*(?:True|[\"'](?:auto|last|latest|must|allow)\b)"
    r"|(?:last|latest|newest|recent)_?\w{0,16}(?:ckpt|checkpoint|snapshot|state|model)|(?:find|get)_\w{0,12}(?:ckpt|checkpoint|snapshot)"
    r"|(?:ckpt|checkpoint|snapshot)s?_?(?:latest|last)|\b(?:latest|last)(?:\.\w+)?[\"']|ckpt_path\s*=\s*[\"']\w"
    r"|\.resum\w*\s*=(?!=)|[=(,]\s*\w+\.resum\w*\s+(?:or|if)\b"  # what was not given is looked for
    r"|\b(?:exists|is_?file)\([^\n)]{0,60}(?:ckpt|checkpoint|snapshot)(?!\w*(?:dir|folder))"
    r"|LightningCLI|\b(?:max|sorted)\([^\n]{0,60}(?:ckpt|checkpoint)"
)
_LOADS = re.compile(
    r"(?i)resum|restor|(?<![a-z])(?<!yaml\.)(?<!json\.)(?<!safe_)(?:re)?load(?!_(?:data|metric|token|config|image|text|env))\w*\("
    r"|ckpt_path|snapshot|init_from|\bexists\(|\bis_?(?:file|dir)\(|glob\(|\blistdir\(|\bscandir\(|\biterdir\("
)
_TRAINER_OPTION = "--resume_from_checkpoint"  # of transformers' TrainingArguments
_PARSES_ARGUMENTS = re.compile(r"\b(?:HfArgumentParser|TrlParser)\(")
_READS_OPTION = re.compile(r"\.resume_from_checkpoint\b")


@dataclass(frozen=True, slots=True)
class ResumeSigns:
    """What a script's text says of the checkpoint that it continues from."""

    option: str = ""  # of the script, by which it is given one, and which is empty where none is given
    takes_path: bool = True  # False: a switch
    place: CodeLocation | None = None  # where it is declared
    finds: bool = False  # it may look for its last one itself
    loads: bool = True  # it may load one; False only where all of it was read


def gives_checkpoint(words: Iterable[str]) -> bool:
    """Whether arguments or names of variables may say what a script continues from."""
    return any(map(_GIVES.search, words))


def read_resume_signs(
    text: str, path: str, find: Finder | None = None, parser: Parser | None = None
) -> ResumeSigns:
    """Return what a script and its own modules say of checkpoints.

    Raises SyntaxError, ValueError and RecursionError where it cannot be read.
    """
    sources = Sources(find, parser)
    sources.list_own_modules(sources.add(path, text))
    whole = not (sources.problems or sources.has_unread())
    option = next((each for source in sources.files() for each in _declared(source, sources)), None)
    if option is None and sources.mention(_PARSES_ARGUMENTS) and sources.mention(_READS_OPTION):
        option = ResumeSigns(_TRAINER_OPTION)
    option = option or ResumeSigns()
    return ResumeSigns(
        option.option,
        option.takes_path,
        option.place,
        finds=option.finds or sources.mention(_FINDS),
        loads=not whole or sources.mention(_LOADS),
    )


def _declared(source: Source, sources: Sources) -> Iterator[ResumeSigns]:
    """Yield the options that a file declares for a checkpoint to continue from."""
    for call in sources.parser.list_nodes(source.tree, ast.Call):
        match call:
            case ast.Call(ast.Attribute(attr="add_argument" | "option"), [ast.Constant(str()), *_] as names):
                given = {each.arg: each.value for each in call.keywords}
                name = next(
                    (
                        str(n.value)
                        for n in names
                        if isinstance(n, ast.Constant) and _OPTION.fullmatch(str(n.value))
                    ),
                    "",
                )
                if name:
                    yield _option(name, given, source.place(call))


def _option(name: str, given: dict[str | None, ast.expr], place: CodeLocation) -> ResumeSigns:
    default, action = given.get("default"), given.get("action")
    kind = given.get("type")
    is_number = isinstance(kind, ast.Name) and kind.id in ("int", "float")  # no path, and no switch
    is_empty = default is None or (isinstance(default, ast.Constant) and not default.value)
    flag = given.get("is_flag")  # of click
    is_switch = any(
        isinstance(each, ast.Constant) and each.value in ("store_true", True) for each in (action, flag)
    )
    return ResumeSigns(
        name, not is_switch, place, finds=not is_empty or is_number or (action is not None and not is_switch)
    )
