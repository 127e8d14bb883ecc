"""Mask secrets before anything of a run leaves the machine it was read on.

By shape (keys of well-known services, web hooks, passwords in addresses, private keys), and by
name, for what has no shape of its own: the value beside ``api_key`` goes, that beside
``max_tokens`` stays. In doubt a value goes: a bundle is for other eyes. Nothing here can promise
that a secret of no known shape, in the middle of a text, is found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

Value = TypeVar("Value")

MASK = "[masked]"
"""What stands for a secret; no part of it is kept."""

_SHAPES = re.compile(
    r"""
    -----BEGIN\ [A-Z0-9 ]*PRIVATE\ KEY(?:\ BLOCK)?-----.*?
        (?:-----END\ [A-Z0-9 ]*PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)
    | https?://hooks\.slack(?:-gov)?\.com/[^\s"'<>]+
    | https?://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/[^\s"'<>]+
    | (?<![A-Za-z0-9])(?:
        hf_[A-Za-z0-9]{20,} | api_org_[A-Za-z0-9]{20,}    # Hugging Face
        | gh[opusr]_[A-Za-z0-9]{20,} | github_pat_\w{20,}  # GitHub
        | glpat-[\w-]{20,}                                 # GitLab
        | (?:AKIA|ASIA)[A-Z0-9]{16}                        # AWS
        | AIza[\w-]{30,} | ya29\.[\w-]{20,}                # Google
        | xox[a-z]-[A-Za-z0-9-]{10,} | xapp-[A-Za-z0-9-]{10,}  # Slack
        | wandb_v\d_[\w-]{20,}
        | eyJ[\w-]{10,2000}\.[\w-]{10,}\.[\w-]+               # JSON web tokens
      )
    | (?<![\w-])sk-(?=[\w-]*\d)[\w-]{20,}                  # OpenAI, Anthropic, and like them
    """,
    re.DOTALL | re.VERBOSE,
)

_BESIDE = re.compile(
    r"""
    (?P<before>
        ://(?=[^\s:/@"'<>]*:[^\s/@"'<>]*@)                 # user:password@host
        | [?&;](?:access_?token|token|api_?key|key|sig|signature|auth|password|secret|code
            |x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature)=
        | \bbearer\s+(?=\S*\d)(?=\S{16})
        | \blogin\s+(?:--\S+\s+)*(?=[0-9a-f]{40}\b)        # wandb login
        | \bauthorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest)\s+)?
    )
    (?P<secret>(?<=://)[^\s/@"'<>]*(?=@) | (?<!://)[^\s&\#"'<>]+)
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Secrets told by what stands directly before them."""

_NAMED = re.compile(
    r"""
    (?P<before>(?<![\w-])(?P<flag>--)?["']?(?P<name>[A-Za-z][\w.-]{0,80})["']?
        (?:\s*[:=]\s*|(?(flag)\s+|(?!))))
    (?P<secret>"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [^\s"'<>]+)
    """,
    re.VERBOSE,
)
"""A name and the value beside it: ``api_key=...``, ``"password": "..."``, ``--token ...``."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_SECRET_WORDS = frozenset(
    (
        *("password", "passwd", "pwd", "passphrase", "secret", "secrets", "credential"),
        *("credentials", "authorization", "apikey", "apitoken", "authtoken", "webhook", "cookie"),
    )
)
_OWNERS = frozenset(
    (
        *("api", "access", "secret", "private", "auth", "hub", "hf", "huggingface", "hugging"),
        *("wandb", "swanlab", "bearer", "github", "gh", "gitlab", "session", "refresh", "slack"),
        *("bot", "signing", "encryption", "ssh", "aws", "azure", "gcp", "openai", "anthropic"),
        *("modelscope", "comet", "neptune", "mlflow", "push", "login", "account", "sas", "service"),
    )
)
"""Words before ``token`` and ``key`` that make them secrets; ``eos_token`` and ``map_key`` stay."""

_RANDOM = re.compile(r"(?=\S*\d)\S{16,}")
"""What the value beside a bare ``token`` in a text must look like to be none of the language's."""


def masked(value: Value) -> Value:
    """Return a text, a nested document or a dataclass with its secrets masked.

    What is no text, container or dataclass (a number, a frame of polars) is returned as it is,
    unless its name says that it is a secret.
    """
    result: Any = _masked(value)
    return result  # type: ignore[no-any-return]


def secret_name(name: str) -> bool:
    """Say whether a name is that of a secret; ``token`` alone is one, ``max_tokens`` is none."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not _SECRET_WORDS.isdisjoint(words) or words == ["token"]:
        return True
    return len(words) > 1 and words[-1] in ("token", "key") and words[-2] in _OWNERS


def _masked(value: Any, named: bool = False) -> Any:
    """Mask a value; ``named``: something around it is called a secret."""
    if isinstance(value, str):
        return (MASK if value else value) if named else _text(value)
    if isinstance(value, Mapping):
        return {
            _masked(key): _masked(item, named or _hides(key, item)) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)([_masked(item, named) for item in value])
    if is_dataclass(value) and not isinstance(value, type):
        told = {item.name: _masked(getattr(value, item.name), named) for item in fields(value)}
        return replace(value, **told)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return MASK if named and number else value


def _hides(key: object, value: object) -> bool:
    """Say whether a key is a secret's; a ``token`` that is no text counts or limits tokens."""
    if not isinstance(key, str) or not secret_name(key):
        return False
    return isinstance(value, str) or key.lower() != "token"


def _text(text: str) -> str:
    text = _SHAPES.sub(MASK, text)
    text = _BESIDE.sub(lambda match: match["before"] + MASK, text)
    return _NAMED.sub(_beside_name, text)


def _beside_name(match: re.Match[str]) -> str:
    """Mask the value beside a secret's name; the quotes around it stay."""
    name, secret = match["name"], match["secret"]
    inner, words = secret.strip("\"'"), [word.lower() for word in _WORDS.findall(name)]
    if not secret_name(name) or words == ["authorization"] or not inner:
        return match[0]
    if words == ["token"] and not match["flag"] and not _RANDOM.fullmatch(inner):
        return match[0]
    quote = secret[0] if secret[0] in "\"'" else ""
    return f"{match['before']}{quote}{MASK}{quote}"
