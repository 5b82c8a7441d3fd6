"""Which services a launch surely calls that need a login."""

from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation, ServiceUse
from preflight.probes.logins import GATED
from preflight.script.interpreter.arguments import find_options
from preflight.script.interpreter.branch_conditions import MAYBE, ONE_RANK, RANK_0
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.services import LOGGERS, find_trackers
from preflight.script.rules.certainty import list_doubts
from preflight.script.values import Const
from preflight.script.values.constants import NONE, TRUE
from preflight.script.values.operations import as_text

_REPORTS_TO_NONE = (5,)  # transformers from this version on, where nothing else is said
_OF_FIRST = ("log_with", *LOGGERS)  # what the first rank alone starts
_ITSELF = {
    "wandb": re.compile(r"WANDB_(?:MODE|DISABLED|API_KEY)|wandb\.login\((?!\))|load_dotenv"),
    "huggingface": re.compile(
        r"HF_TOKEN|HUGGING_?FACE_HUB_TOKEN|HF_HUB_OFFLINE|(?<!wandb\.)\blogin\(|load_dotenv"
    ),
    "comet_ml": re.compile(r"COMET_\w+|comet_ml\.(?:login|init|config)\b|load_dotenv"),
    "neptune": re.compile(r"NEPTUNE_\w+|load_dotenv"),
    "swanlab": re.compile(r"SWANLAB_\w+|swanlab\.(?:login|merge_settings|Settings)\(|load_dotenv"),
    "clearml": re.compile(r"(?:CLEARML|TRAINS)_\w+|set_credentials|set_offline|load_dotenv"),
}
"""By which a script sees to its login itself."""


def find_services(it: Interpreter, event: ScriptEvent) -> Iterator[ServiceUse]:
    """Yield what an event calls, where the launch surely comes upon it: which rank it is may be open."""
    doubts = {*list_doubts(it, event.place)} - {MAYBE, ONE_RANK}
    if it.ways.open or doubts or any(loop.caught for loop in it.loops):
        return
    if event.name == "service":
        service = as_text(event.values.get("service", NONE)) or "huggingface"
        first = event.what in _OF_FIRST or RANK_0 in it.contexts
        yield from _use(it, event.place, service, event.what, first=first)
    elif event.name == "arguments":
        if it.attr(event.ref, "push_to_hub") == TRUE and it.attr(event.ref, "hub_token") == NONE:
            yield from _use(it, event.place, "huggingface", "push_to_hub", first=True)
        targets, version = it.attr(event.ref, "report_to"), it.target.version("transformers")
        if targets == NONE and version is not None and version < _REPORTS_TO_NONE:
            targets = Const("all")
        if it.attr(event.ref, "parsed") == TRUE:
            targets = next((Const(word) for _, word in find_options(it.target.args, "report_to")), targets)
        for service in find_trackers(targets) if it.attr(event.ref, "open") != TRUE else ():
            yield from _use(it, event.place, service, "report_to", first=True)


def find_services_in_args(it: Interpreter) -> Iterator[ServiceUse]:
    """Yield what the launch's own arguments name."""
    for name in (word.rpartition("=")[2] for word in it.target.args or ()):
        yield from _use(it, None, "huggingface", name) if GATED.match(name) else ()
    if any(word.lower() != "false" for _, word in find_options(it.target.args, "push_to_hub")):
        yield from _use(it, None, "huggingface", "push_to_hub", first=True)


def _use(
    it: Interpreter, place: CodeLocation | None, service: str, what: str, *, first: bool = False
) -> Iterator[ServiceUse]:
    if not it.sources.mention(_ITSELF[service]):
        yield ServiceUse(place, service, what, first)
