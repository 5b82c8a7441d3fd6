"""Lines that only warn, whatever words of failures are in them. Pure."""

from preflight import regex as re
from preflight.diagnosis.signatures.exit_messages import STOP_IN_WORDS
from preflight.diagnosis.signatures.model import AnyOf

LONGEST = 2000  # characters of a line in which signs are looked for
IS_EXCEPTION = re.compile(r"[`'\"*]{0,3}(?:\w+\.)*\w+(?:Error|Exception|Interrupt|NotFound): ")
_OF_PARENT = re.compile(
    r"^.{0,120}?\b(?:INFO|DEBUG)\b.{1,120}?(?=[-|:\[] ?(?:ERROR|CRITICAL|FATAL)\b ?[-|:\]])"
)
_SOFT = AnyOf(
    r"\b[Ww]arn(?:ing)?\b|Warning: |(?<!=)\bWARN(?:ING)?\b|(?<!=)\bINFO\b|(?<!=)\bDEBUG\b|(?<!fork: )\b[Rr]etry(?! (?:count|limit))|(?<!after \d )(?<!after \d\d )(?<!Max )[Rr]etri(?:es|ed)\b|[Ii]gnor(?:ed|ing|e \w+ error)|[Ss]kipp(?:ed|ing)|[Ff]all(?:ing)? ?back|[Ff]allback|[Rr]ecover|(?<!un)[Hh]andled\b|^[\d: .,-]{8,30}\[?I\]? |^\[I\] "
    r"|^\[?W\d{3,4} |^\[W |\bwill (?:use|try)\b|\[I \S+|[Rr]esum(?:ed|ing)|[Dd]efaulting|thrown while requesting|: [WI] \w+/\w+|succeeded\b|(?:\band|[,;]) continu(?:ed|ing)\b|^/\S+/(?:pytorch_lightning|lightning\w*)/\S+\.py:\d+: (?!\S*(?:Error|Exception): |CUDA error)|using NumPy 1\.x cannot be run|[:;,(-] ?(?:so )?(?:using|assuming|taking|keeping) (?:the |its |a )?(?:(?:default|previous|fallback)\b(?! is (?:not|dis))|(?:[-+.\d][\d.e-]*|None|auto)\W*$)|\bTrial \d+ failed with (?:parameters|value)\b|\b(?:fault)?[Hh]andlers? (?:is |are )?(?:installed|registered|set|enabled)\b"
)
# Advice behind a message: it makes a line no warning where the line has the level of an error.
_ADVISES = AnyOf(r"\bwill be\b|\bif you\b|[Tt]o avoid|[Pp]lease (?:consider|see|note)|may (?:be|cause|lead)")
_OF_ERROR = re.compile(r".{0,100}?(?<!=)\b(?:ERROR|CRITICAL|FATAL)\b(?=[ \t:|\])-])")
_HARD = re.compile(
    r"NCCL WARN|OP_REQUIRES failed|^\[?F\d{3,4} [\d:]{8}|\bWARN Call to ibv_|NET/OFI (?:Couldn't|OFI NCCL failure)|NCCL INFO \S+\.cc:\d+ -> [1-7]\b|\b(?:[Rr]eceived|[Cc]aught|[Gg]ot) (?:an? )?(?:signal[ =:]+)?SIG|"
    + STOP_IN_WORDS
    + r"|\bSIGUSR[12]\b.{0,160}\b(?:[Ll]eaving|[Ee]xiting|[Qq]uitting|[Ss]topping)\b|may be stuck[.:]|waiting for remainder of ranks|failed with non-zero exit code|(?:death|dump) signal|Unable to determine the device|GPU is lost|closing signal|forcefully exiting via|oom|slurmstepd|NVRM|Fatal Python error|Execution of replica \d+ failed: |Pod:? \S+ exited with code [1-9]|[Tt]ermination is imminent|will be (?:preempted|reclaimed)|[Ii]nterruption,? .{0,40}will be terminated|[Ss]pot (?:instance )?interruption notice|(?:^\s*(?:(?:\S+ +)?(?:\d+[dhms])+ +)?|\S\s{2,})Warning +(?:Preempt|Evict|Failed|DeadlineExceeded|BackOff|OOM|Unexpected|Unschedul|NodeNotReady)|node had condition|rcu: INFO|page fault \(src_id|marked dead because|killed because it|polling [LH]P CQ with status|TCP connect to a peer MPI|\bCapacityError: |Marking task as (?:FAILED|UP_FOR_RETRY)\b|Task exited with return code (?!0\b)|\bas crashed: "
)


def is_warning_line(text: str) -> bool:
    """Whether a line only warns, retries or informs; a parent's copy has its child's level, the inner one."""
    text = _OF_PARENT.sub("", text[:LONGEST])
    if IS_EXCEPTION.match(text) or _HARD.search(text):
        return False
    return _SOFT.is_in(text) or (_ADVISES.is_in(text) and not _OF_ERROR.match(text))
