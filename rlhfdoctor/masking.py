"""Mask secrets before anything of a run leaves the machine it was read on.

By shape (keys of well-known services, web hooks, passwords in addresses, private keys), and by
name, for what has no shape of its own. ``api_key``, ``password`` and the like are surely a secret's
names: their value goes whatever it is, but ``None`` and its kin. ``my_token``, ``pass`` and, before
a colon in prose, ``secret`` or ``API key`` are common words too: their value goes where it looks
like a credential, which has a digit, two letters, no blank, and the length that ``DOUBTFUL`` gives.
``max_tokens`` and ``key`` are none. Nothing here can promise that a secret of no known shape and no
name, in the middle of a text, is found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

Value = TypeVar("Value")

MASK = "[masked]"
"""What stands for a secret; no part of it is kept."""

_PRIVATE_KEY = re.compile(
    r"""
    -----BEGIN\ [A-Z0-9\ ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----.*?
        (?:-----END\ [A-Z0-9\ ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)
    """,
    re.DOTALL | re.VERBOSE,
)
"""A private key, to the end of the text where its own is cut off; so it is searched but once."""

_HOOKS = r"""
    https?://(?:
        hooks\.(?:slack(?:-gov)?|zapier)\.com/
        | (?:\w{1,63}\.)?discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/
        | [\w.-]{1,200}\.webhook\.office(?:365)?\.com/          # Teams
        | outlook\.office(?:365)?\.com/webhook/
        | [\w.-]{1,200}\.(?:logic\.azure|api\.powerplatform)\.com(?::\d{1,5})?/
        | open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/(?:v2/)?hook/
        | api\.telegram\.org/bot
        | [^\s"'<>/@]{1,200}/(?:[\w-]{1,63}/)?hooks/(?=[a-z0-9]{26}\b)  # Mattermost
    )[^\s"'<>\\]{1,2048}
"""

_SHAPES = re.compile(
    _HOOKS
    + r"""
    | (?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:
        hf_[A-Za-z0-9]{20,2048} | api_org_[A-Za-z0-9]{20,2048}        # Hugging Face
        | gh[opusr]_[A-Za-z0-9]{20,2048} | github_pat_\w{20,2048}     # GitHub
        | glpat-[\w-]{20,2048}                                       # GitLab
        | (?:AKIA|ASIA)[A-Z0-9]{16}                                  # AWS
        | AIza[\w-]{30,2048} | ya29\.[\w-]{20,2048}                  # Google
        | xox[a-z]-[A-Za-z0-9-]{10,2048} | xapp-[A-Za-z0-9-]{10,2048}  # Slack
        | wandb_v\d_[\w-]{20,2048}
        | [sr]k_(?:live|test)_[A-Za-z0-9]{10,2048} | whsec_[A-Za-z0-9]{20,2048}  # Stripe
        | npm_[A-Za-z0-9]{20,2048} | pypi-(?=[\w-]{0,2048}\d)[\w-]{20,2048}
        | gsk_[A-Za-z0-9]{20,2048} | nvapi-[\w-]{20,2048}             # Groq, NVIDIA
        | r8_[A-Za-z0-9]{20,2048} | dop_v1_[a-f0-9]{20,2048}          # Replicate, DigitalOcean
        | SG\.[\w-]{16,200}\.[\w-]{16,200}                           # SendGrid
        | eyJ[\w-]{10,512}\.[\w-]{10,2048}\.[\w-]{1,2048}           # JSON web tokens
      )
    | (?:(?<![\w-])|(?<=\\[nrt]))sk-(?=[\w-]{0,2048}\d)[\w-]{20,2048}  # OpenAI, Anthropic, ...
    """,
    re.VERBOSE,
)

_BESIDE = re.compile(
    r"""
    (?P<before>
        ://(?=[^\s:/@"'<>]{0,256}:[^\s/"'<>]{0,256}@)          # user:password@host
        | (?<=http)s?://(?=[^\s:/@?\#,;"'<>]{1,256}@)               # https://token@host
        | [?&;](?:access_?token|token|api_?key|key|sig|signature|auth|password|secret|code
            |x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature)=
        | \bbearer\s{1,8}(?=\S{0,256}\d)(?=\S{16})
        | \blogin\s{1,8}(?:--\S{1,64}\s{1,8}){0,4}(?=[0-9a-f]{40}\b)  # wandb login
        | \bauthorization(?:\\{0,8}["'])?\s{0,8}[:=][^\S\n]{0,8}(?:\\{0,8}["'])?
            (?:(?:bearer|basic|token|digest)\s{1,8})?
    )
    (?P<secret>(?<=://)[^\s/"'<>]{0,512}(?=@) | (?<!://)[^\s&\#"'<>\\]{1,4096})
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Secrets told by what stands directly before them."""

_NAME = re.compile(
    r"""
    (?:(?<![\w-])(?!(?<=\\)[nrt][A-Za-z])|(?<=\\[nrt]))(?P<flag>--?)?(?P<quote>\\{0,8}["'])?
    (?=(?P<name>[A-Za-z][\w.-]{0,80}(?:\ (?:[Kk]ey|KEY|[Tt]oken|TOKEN)\b)?))(?P=name)
    (?:\\{0,8}["'])?\]?
    (?P<separator>
        \s{0,40}[:=]{1,2}>?[^\S\n]{0,40}(?:\n\s{0,40}(?=["']))?
        | (?:\s{0,40},)?\s{0,40}(?:\\{0,8}["'])?[Vv]alue(?:\\{0,8}["'])?\s{0,40}[:=][^\S\n]{0,40}
        | (?(flag)(?:\s{1,40}(?![-\s])|\s{0,40},\s{0,40})|(?!))
    )
    """,
    re.VERBOSE,
)
"""A name up to its value, of which it says nothing: ``api_key=``, ``"password": ``, ``--token ``,
``'--token', ``, ``"name": "TOKEN", "value": ``."""

_VALUE = re.compile(
    r"""
    (?P<open>\\{1,8}["'])(?P<escaped>(?:(?!(?P=open)).)*)(?P=open)
    | "(?P<double>(?:\\.|[^"\\])*)" | '(?P<single>(?:\\.|[^'\\])*)'
    | \\{0,8}["'](?P<unclosed>[^\n]+)                              # the quote is never closed
    | (?P<bare>\[[^\[\]]+\] | \{[^{}]+\} | [^\s"'<>]+)
    """,
    re.VERBOSE | re.DOTALL,
)
"""The value that stands at a place; all that is looked at is taken, so that nothing is seen twice
but where brackets or quotes are never closed."""

_CLOSERS = ")]},;\\"
"""What may end a text around a value rather than the value."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_SECRET_WORDS = frozenset(
    (
        *("password", "passwd", "pwd", "passphrase", "secret", "secrets", "credential"),
        *("credentials", "authorization", "apikey", "apitoken", "authtoken", "webhook", "cookie"),
        *("accesskey", "secretkey", "privatekey", "accountkey", "accesstoken"),
    )
)
_OWNERS = frozenset(
    (
        *("api", "access", "secret", "private", "auth", "hub", "hf", "huggingface", "hugging"),
        *("wandb", "swanlab", "bearer", "github", "gh", "gitlab", "session", "refresh", "slack"),
        *("bot", "signing", "encryption", "ssh", "aws", "azure", "gcp", "openai", "anthropic"),
        *("modelscope", "comet", "neptune", "mlflow", "push", "login", "account", "sas", "service"),
        *("oauth", "jwt", "deploy", "npm", "pypi", "kaggle", "replicate", "dingtalk", "feishu"),
        *("lark", "wecom", "wechat", "telegram", "discord"),
    )
)
_BEFORE = {
    **dict.fromkeys(("key", "keys", "signature"), _OWNERS),
    "token": _OWNERS | {"my", "tracking", "registry", "vault"},
    "pass": frozenset(
        (
            *("db", "database", "sql", "mysql", "postgres", "pg", "redis", "mongo", "smtp", "mail"),
            *("ftp", "admin", "root", "user", "proxy"),
        )
    ),
}
"""Last words of names, and the words that make them secrets before them; ``eos_token``, ``map_key``
and ``forward_pass`` stay."""

_COMMON = frozenset(("secret", "secrets", "cookie", "credential", "credentials"))
"""Names that prose puts before a colon as well: ``The secret: work``."""

DOUBTFUL = {"token": 16, "pass": 6}
"""Last words of names that are common words, and the fewest characters of a secret under them [H].
Tokens of a language are shorter than 16, and passwords are seldom shorter than 6."""

LONGEST = 512
"""Characters of a value that are looked at under a doubtful name [H]; longer ones (web tokens) are
told by their shape."""

_BREAK = re.compile(r"[^\w+/=.~%!@#$^&*:-]")
_CREDENTIAL = re.compile(r"(?=.*\d)(?=(?:.*?[A-Za-z]){2})[\w+/=.~%!@#$^&*:-]+")
_QUANTITY = re.compile(r"[-+]?[\d.,:/-]+(?:e[-+]?\d+)?[A-Za-z%/]{0,3}")
"""``12ms``, ``1e-05``, ``100.5tok``: a number, whatever its unit."""

_NOTHING = frozenset(("", "none", "null", "true", "false", "nan", "undefined", "~", "-"))


def masked(value: Value) -> Value:
    """Return a text, a nested document or a dataclass with its secrets masked.

    What is no text, container or dataclass (a number, a frame of polars) is returned as it is,
    unless its name says that it is a secret.
    """
    result: Any = _masked(value)
    return result  # type: ignore[no-any-return]


def secret_name(name: str) -> bool:
    """Say whether a name is surely a secret's; ``token`` alone is one, ``max_tokens`` is none."""
    words = _words(name)
    if not _SECRET_WORDS.isdisjoint(words) or words == ["token"]:
        return True
    owner, last = ["", *words][-2:] if words else ("", "")
    return owner in _BEFORE.get(last, ())


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _credential(text: str, least: int) -> bool:
    """Say whether a value looks like a credential of at least so many characters."""
    sized = least <= len(text) <= LONGEST
    return sized and bool(_CREDENTIAL.fullmatch(text)) and not _QUANTITY.fullmatch(text)


def _masked(value: Any, named: bool = False) -> Any:
    """Mask a value; ``named``: something around it is called a secret."""
    if isinstance(value, str):
        return (MASK if value else value) if named else _text(value)
    if isinstance(value, Mapping):
        own = {"value": value.get("name", value.get("key"))}
        return {
            _masked(key): _masked(
                item, named or _hides(key, item) or (key in own and _hides(own[key], item))
            )
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(
            [
                _masked(item, named or _flagged(before, item))
                for before, item in zip(("", *value), value, strict=False)
            ]
        )
    if is_dataclass(value) and not isinstance(value, type):
        own = {"value": getattr(value, "name", None)}
        told = {
            item.name: _masked(held, named or _hides(own.get(item.name), held))
            for item in fields(value)
            for held in [getattr(value, item.name)]
        }
        return replace(value, **told)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return MASK if named and number else value


def _hides(key: object, value: object) -> bool:
    """Say whether a key is a secret's; a ``token`` that is no text counts or limits tokens."""
    if not isinstance(key, str):
        return False
    if secret_name(key):
        return isinstance(value, str) or key.lower() != "token"
    least = DOUBTFUL.get(["", *_words(key)][-1])
    return least is not None and isinstance(value, str) and _credential(value, least)


def _flagged(before: object, value: object) -> bool:
    """Say whether a value follows the flag of a secret, as in the words of a command."""
    flag = isinstance(before, str) and before[:1] == "-" and not {*"= "} & {*before}
    return flag and not str(value).startswith("-") and _hides(str(before).lstrip("-"), value)


def _text(text: str) -> str:
    text = _SHAPES.sub(MASK, _PRIVATE_KEY.sub(MASK, text))
    text = _BESIDE.sub(lambda match: match["before"] + MASK, text)
    return _named(text)


def _named(text: str) -> str:
    """Mask the values beside secrets' names; the quotes around them stay.

    Only a secret's value is passed over: behind any other name the search goes on at its value,
    where the secret's own name may stand (``env: WANDB_API_KEY=...``).
    """
    parts: list[str] = []
    done = at = 0
    while name := _NAME.search(text, at):
        at = name.end()
        least = _least(name)
        reach = len(text) if least == 0 else at + LONGEST
        value = None if least is None else _VALUE.match(text, at, reach)
        if value is None or least is None:
            continue
        group = value.lastgroup or "bare"
        told = value[group]
        if group == "bare" and told[0] not in "[{" and not told.endswith(MASK):
            told = told.rstrip(_CLOSERS)
        if least and group == "bare":
            told = _BREAK.split(told, maxsplit=1)[0]
        empty = told == MASK or told.strip().lower() in _NOTHING
        if empty or (told[-1] == ":" and secret_name(told)):
            continue
        if not least or _credential(told, least):
            begin = value.start(group)
            parts += [text[done:begin], MASK]
            done = at = begin + len(told)
    return "".join((*parts, text[done:]))


def _least(found: re.Match[str]) -> int | None:
    """Return how long what stands beside a name must be, as a credential, to be a secret.

    0 where whatever stands there is one, None where nothing is.
    """
    name, words = found["name"], _words(found["name"])
    if words == ["authorization"] or not words:
        return None
    last = words[-1]
    if len(words) == 1 and last in DOUBTFUL:
        return 0 if found["flag"] else DOUBTFUL[last]
    if not secret_name(name):
        return DOUBTFUL.get(last)
    follows = found.string[found.end() : found.end() + 1]
    colon = re.fullmatch(r":\s+", found["separator"]) and follows not in {*"\"'\\"}
    prose = name.lower() in _COMMON and colon and not found["flag"] and not found["quote"]
    return DOUBTFUL["pass"] if prose or " " in name else 0
