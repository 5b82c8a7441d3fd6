"""Secrets in what is shown or kept: hidden by the name that they have, and by what they look like.

What runs is never changed by this, only what people and files get to see of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from preflight import regex as re

HIDDEN = "***"

_SECRET_ENDS = (
    *("token", "secret", "password", "passwd", "passphrase", "passcode", "pgpass", "apikey", "webhook"),
    "creds",
)
_SECRET_WORDS = frozenset(
    {"credential", "credentials", "secrets", "passwords", "cookie", "cookies", "bearer", "jwt", "dsn", "auth"}
    | {"authorization", "signature", "sig"}
)
_TEXT_TOKENS = frozenset(
    {
        *("pad", "eos", "bos", "unk", "sep", "cls", "mask", "special", "image", "stop", "per", "end"),
        *("begin", "extra"),
    }
)
"""Words that make a `token` a piece of text."""
_KEYED = frozenset(
    {"api", "access", "private", "secret", "auth", "encryption", "signing", "license", "account", "session"}
    | {"wandb", "hf", "openai", "anthropic", "comet", "neptune", "clearml", "kaggle", "azure", "storage"}
)
"""Words that make a `key` beside them a secret; other keys are names of columns."""
_STORES = frozenset(
    {"database", "db", "postgres", "postgresql", "mysql", "mongo", "mongodb", "redis", "amqp", "broker"}
)
"""Whose URL mostly holds a password."""
_LOGINS = frozenset({"db", "user", "smtp", "mail", "redis", "proxy", "http", "ftp", "mysql", "admin", "root"})
_PIECES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[0-9]+")

_PASSWORD_IN_URL = re.compile(r"([a-z][a-z0-9+.-]{1,30}://[^\s/:@'\"]*):[^\s/@'\"]+@", re.IGNORECASE)
_NAME_IN_URL = re.compile(r"([a-z][a-z0-9+.-]{1,30}://)[^\s/:@'\"]{16,}@", re.IGNORECASE)
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}"
    r"|xox[abeprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|nvapi-[\w-]{20,}|npm_\w{30,}"
    r"|pypi-[\w-]{30,}|dckr_pat_[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|(?<=hooks\.slack\.com/services/)[\w/]{20,})"
)
_SHORTEST_TOKEN = len("xoxb-") + 10
_BEARER = re.compile(r"\b((?:Bearer|Authorization:\s*Basic)\s+)[\w.~+/=-]{8,}")
_LOGIN = re.compile(
    r"(\bwandb[ .]login(?:[ (]{1,3}--?[\w-]{1,30}(?:=[^\s\"']{1,100})?){0,4}[ (]{1,3}[\"']?)[\w-]{40,}"
)
_RANDOM = re.compile(r"(?=(?:[^0-9]*[0-9]){3})(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+/=]{24,}")
"""No name of a column: letters and several digits without a break, as long as a key of a service."""
_PRIVATE_KEY = re.compile(
    r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)(?s:.*?)(-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
)
_QUOTED = re.compile(
    r"([\"'])([A-Za-z_][\w.-]{0,100})\1(\s{0,20}:\s{0,20})(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
)
_ASSIGNED = re.compile(r"(?<![\w.-])(-{0,2}[A-Za-z_][\w.-]{0,100}=)('[^']*'|\"[^\"]*\"|[^\s&#;,'\"]+)")

# Of code: `api_key = "x"`, `os.environ["API_KEY"] = "x"`, `setdefault("API_KEY", "x")`; behind a diff's `-`.
_IN_CODE = re.compile(
    r"(?:(?<![\w.-])|(?<=^-))([A-Za-z_][\w.-]{0,100})"
    r"([\"']\s{0,4},\s{0,20}|(?:[\"']\s{0,4}\]|\s{0,20}:\s{0,4}[\w.]{1,30})?\s{0,20}=\s{0,20})"
    r"('[^'\n]*'|\"[^\"\n]*\")",
    re.MULTILINE,
)
_IN_SETTINGS = re.compile(
    r"(?:(?<![\w.-])|(?<=^-))([A-Za-z_][\w.-]{0,100})([ \t]{0,4}[:=][ \t]{1,20})"
    r"('[^'\n]*'|\"[^\"\n]*\"|[^\s,{}\[\]#'\"&*|>$][^\n,}#'\"]*)",
    re.MULTILINE,
)
_SETTINGS = (".yaml", ".yml", ".env", ".toml", ".ini", ".cfg", ".conf", ".properties")


def is_secret_name(name: str) -> bool:
    """Return whether a variable, an option or a key of this name holds a secret, as names go."""
    words = [piece.lower() for piece in _PIECES.findall(name)]
    if not words or "tokenizer" in name.lower() or words[-1] in ("sock", "type", "method"):
        return False
    if any(_is_secret_word(word, before) for before, word in pairwise(("", *words))):
        return True
    if words[-1] in ("pass", "pwd"):
        return words == ["pass"] or not _LOGINS.isdisjoint(words)
    return name.isupper() and words[-1] == "key"


def _is_secret_word(word: str, before: str) -> bool:
    if word.endswith("token") and before in _TEXT_TOKENS:
        return False
    if word in ("url", "uri"):
        return before in _STORES
    if (before, word) == ("pass", "phrase"):
        return True
    return word.endswith(_SECRET_ENDS) or word in _SECRET_WORDS or (word == "key" and before in _KEYED)


def _is_secret(name: str, value: str) -> bool:
    """Return whether a value beside a name is a secret; `key` alone names also columns and functions."""
    if is_secret_name(name):
        return True
    return name.strip("-=").lower() == "key" and _RANDOM.fullmatch(value.strip("'\"")) is not None


def redact_text(text: str) -> str:
    """Return text without what looks like a secret: passwords in URLs, tokens of known services, keys.

    A pattern is tried only on text that has what it cannot do without: hundreds of hosts have
    hundreds of thousands of words in their command lines.
    """
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(rf"\1{HIDDEN}\2", text)
    if "://" in text:
        text = _PASSWORD_IN_URL.sub(rf"\1:{HIDDEN}@", text)
        text = _NAME_IN_URL.sub(rf"\1{HIDDEN}@", text)
    if "Bearer" in text or "Basic" in text:
        text = _BEARER.sub(rf"\1{HIDDEN}", text)
    if "wandb" in text:
        text = _LOGIN.sub(rf"\1{HIDDEN}", text)
    if len(text) >= _SHORTEST_TOKEN:
        text = _TOKENS.sub(HIDDEN, text)
    if ":" in text:
        text = _QUOTED.sub(_pair, text)
    return _ASSIGNED.sub(_assignment, text) if "=" in text else text


def redact_file(name: str, text: str) -> str:
    """Return the text of a file as it may be kept: secrets are named in code and in settings, too."""
    text = _IN_CODE.sub(_named, redact_text(text))
    return _IN_SETTINGS.sub(_named, text) if name.endswith(_SETTINGS) else text


def redact_diff(diff: str) -> str:
    """Return a diff of git as it may be kept, each file of it by its name."""
    files = re.split(r"(?m)^(?=diff --git )", diff)
    return "".join(redact_file(text.partition("\n")[0].rstrip('"\r'), text) for text in files)


def redact_value(name: str, value: str) -> str:
    """Return the value of a variable as it may be shown."""
    return HIDDEN if value and is_secret_name(name) else redact_text(value)


def redact_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment as it may be shown."""
    return {name: redact_value(name, value) for name, value in env.items()}


def redact_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return a command as it may be shown: `--api-key X`, `--api-key=X`, `api_key=X` name their secrets."""
    return tuple(_words(words))


def _words(words: Iterable[str]) -> Iterator[str]:
    hide_next = False
    for word in words:
        option, equals, value = word.partition("=")
        if hide_next and not word.startswith("-"):
            yield HIDDEN
        elif equals and " " not in option and _is_secret(option, value):
            yield f"{option}={HIDDEN}"
        else:
            yield redact_text(word)
        hide_next = word.startswith("-") and not equals and is_secret_name(word)


def _named(match: re.Match[str]) -> str:
    if not _is_secret(match[1], match[3]):
        return match[0]
    quote = match[3][0] if match[3][0] in "'\"" else ""
    return f"{match[1]}{match[2]}{quote}{HIDDEN}{quote}"


def _assignment(match: re.Match[str]) -> str:
    return f"{match[1]}{HIDDEN}" if _is_secret(match[1], match[2]) else match[0]


def _pair(match: re.Match[str]) -> str:
    """Hide the value of a pair of JSON or of a dict of Python."""
    if not _is_secret(match[2], match[4]):
        return match[0]
    return f"{match[1]}{match[2]}{match[1]}{match[3]}{match[4][0]}{HIDDEN}{match[4][0]}"
