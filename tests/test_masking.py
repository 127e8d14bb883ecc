from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.masking import MASK, masked, secret_name
from rlhfdoctor.model import Change, Location, Setting
from rlhfdoctor.vocabulary import METRICS, SETTINGS

BODY = "Q7x9" * 9  # 36 letters and digits

SECRETS = {
    "Hugging Face": f"hf_{BODY}",
    "OpenAI": f"sk-{BODY}",
    "OpenAI project": f"sk-proj-{BODY}-_x1",
    "Anthropic": f"sk-ant-api03-{BODY}",
    "GitHub": f"ghp_{BODY}",
    "GitHub, fine-grained": f"github_pat_11AB_{BODY}",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "Google": f"AIza{BODY}",
    "Slack token": "xoxb-123456789012-abcdefghij",
    "Slack hook": "https://hooks.slack.com/services/T000/B000/XXXXabcd",
    "Discord hook": "https://discord.com/api/webhooks/123/abc-def",
    "web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----",
    "private key cut off": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r",
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_known_by_its_shape(secret: str) -> None:
    assert masked(secret) == MASK
    assert masked({"command": ["x", f"run {secret}"]}) == {"command": ["x", f"run {MASK}"]}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("WANDB_API_KEY=" + "0123456789abcdef" * 2 + "01234567", f"WANDB_API_KEY={MASK}"),
        ("wandb login " + "0123456789abcdef" * 2 + "01234567", f"wandb login {MASK}"),
        ("wandb login --relogin " + "ab" * 20, f"wandb login --relogin {MASK}"),
        ("--hub_token abc --lr 1", f"--hub_token {MASK} --lr 1"),
        ("--token abc", f"--token {MASK}"),
        ('{"password": "a b, \\"c\\" d"}', f'{{"password": "{MASK}"}}'),
        ("password = 'two words' # x", f"password = '{MASK}' # x"),
        ("secret: hunter2", f"secret: {MASK}"),
        ("Authorization: Bearer abc", f"Authorization: Bearer {MASK}"),
        ("authorization: Basic dXNlcjpwYXNz", f"authorization: Basic {MASK}"),
        ("curl -H 'bearer abcdef0123456789xyz'", f"curl -H 'bearer {MASK}'"),
        ("postgres://me:pa55@db.example/x", f"postgres://{MASK}@db.example/x"),
        ("redis://:pa55@db", f"redis://{MASK}@db"),
        ("https://a.example/x?token=abc&step=3", f"https://a.example/x?token={MASK}&step=3"),
        ("https://a.example/x?a=1&sig=abc", f"https://a.example/x?a=1&sig={MASK}"),
        ("?X-Amz-Signature=0af1", f"?X-Amz-Signature={MASK}"),
        ("token: abcdefgh01234567", f"token: {MASK}"),
    ],
    ids=lambda text: text[:30],
)
def test_a_secret_is_known_by_what_stands_beside_it(text: str, left: str) -> None:
    assert masked(text) == left


@pytest.mark.parametrize(
    "name",
    [
        *("api_key", "apiKey", "API-KEY", "OPENAI_API_KEY", "wandb_api_key", "token", "hub_token"),
        *("HF_TOKEN", "auth.token", "push_to_hub_token", "secret", "aws_secret_access_key"),
        *("password", "db_passwd", "Authorization", "accessToken", "slack_webhook", "private_key"),
    ],
)
def test_the_value_under_a_secret_name_goes(name: str) -> None:
    assert secret_name(name)
    assert masked({name: "x"}) == {name: MASK}
    if name != "token":
        assert masked({name: ["x", {"a": 7}]}) == {name: [MASK, {"a": MASK}]}


@pytest.mark.parametrize(
    "name",
    [
        *("max_tokens", "token_ids", "tokenizer", "num_tokens", "eos_token", "pad_token_id"),
        *("pad_token", "bos_token", "tokens", "special_tokens", "kl_ref_token", "token_level"),
        *("key", "keys", "primary", "map_key", "hash", "keyword", "max_new_tokens", "stop_token"),
        *("tokenizer_name_or_path", "completions/mean_length", "reward_per_token", "author"),
        *METRICS,
        *SETTINGS,
    ],
)
def test_a_name_that_only_sounds_like_one_keeps_its_value(name: str) -> None:
    assert masked({name: "value"}) == {name: "value"}
    assert masked({name: 512}) == {name: 512}
    for text in (f"{name}=512", f"{name}: 0.25", f"--{name} value", json.dumps({name: "value"})):
        assert masked(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "0f" * 20,
        "da39a3ee5e6b4b0d3255bfef95601890afd80709 is a commit",
        "sha256:" + "ab" * 32,
        "the next token: the",
        "task-0123456789abcdef0123",
        "sk-learn-is-a-nice-library-of-tools",
        "hf_model_of_some_organisation_with_a_long_name",
        "https://example.org/a/b?step=40&run=7",
        "a bearer certificate is a security",
        "mailto:me@example.org, 12:30 @ home",
        "org/model-7B-v0.1",
        "And he said unto them: Go",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked(text) == text


def test_hashes_stay_under_their_names() -> None:
    scan = {"hash": "ab" * 32, "sha256": "cd" * 32, "commit": "ef" * 20}
    assert masked(scan) == scan


def test_a_token_that_is_no_text_is_a_number_of_tokens() -> None:
    limits = {"KL003": {"token": 1.0, "response": 5.0}, "token": ["a", 2]}
    assert masked(limits) == limits


def test_keys_and_dataclasses_are_masked_too() -> None:
    setting = Setting("model", f"/x/hf_{BODY}", Location("c.json", key="model"))
    assert masked((setting,)) == (Setting("model", f"/x/{MASK}", Location("c.json", key="model")),)
    assert masked({f"hf_{BODY}": 1}) == {MASK: 1}
    change = Change("learning_rate", 1e-4, 1e-5, "a tenth")
    assert masked(change) == change


def test_numbers_flags_and_nothing_stay_what_they_are() -> None:
    told = {"a": 1, "b": None, "c": True, "d": float("inf"), "token": None, "secret": True}
    assert masked(told) == told


@given(st.text())
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert masked(masked(text)) == masked(text)


@given(st.text(max_size=30), st.sampled_from(sorted(SECRETS)), st.text(max_size=30))
def test_no_part_of_a_secret_is_kept_whatever_stands_around_it(
    before: str, name: str, after: str
) -> None:
    secret = SECRETS[name]
    assert secret not in masked(f"{before} {secret} {after}")
