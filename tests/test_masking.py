from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor import masking
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
    "Discord hook of a version": "https://ptb.discord.com/api/v10/webhooks/123/abc-def",
    "Teams hook": "https://x.webhook.office.com/webhookb2/a@b/IncomingWebhook/c/d",
    "Teams workflow": "https://prod-1.westus.logic.azure.com:443/workflows/ab/triggers/x?sig=c",
    "Feishu hook": "https://open.feishu.cn/open-apis/bot/v2/hook/a1b2-c3",
    "Lark hook": "https://open.larksuite.com/open-apis/bot/v2/hook/a1b2-c3",
    "Mattermost hook": "https://chat.example.org/hooks/abcdefghij0123456789abcdef",
    "Telegram bot": "https://api.telegram.org/bot123456:AAE-x/sendMessage",
    "Stripe": f"sk_live_{BODY}",
    "Stripe, restricted": f"rk_live_{BODY}",
    "npm": f"npm_{BODY}",
    "PyPI": f"pypi-AgEIcHlwaS5vcmc{BODY}",
    "Groq": f"gsk_{BODY}",
    "NVIDIA": f"nvapi-{BODY}",
    "Replicate": f"r8_{BODY}",
    "DigitalOcean": "dop_v1_" + "0a" * 32,
    "SendGrid": f"SG.{BODY[:22]}.{BODY}",
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
    ("text", "left"),
    [
        ("env: WANDB_API_KEY=abc123", "env: WANDB_API_KEY=*"),
        ("args: --api_key=hunter2", "args: --api_key=*"),
        ("args: --password hunter2", "args: --password *"),
        ("config: {api_key: hunter2}", "config: {api_key: *}"),
        ("lr=1e-5,password=hunter2", "lr=1e-5,password=*"),
        ('params = dict(password="hunter2")', 'params = dict(password="*")'),
        ('note: password = "hunter2"', 'note: password = "*"'),
        ("INFO:root:api_key=hunter2", "INFO:root:api_key=*"),
        ("--env=HF_TOKEN=hunter2", "--env=HF_TOKEN=*"),
        ('"cmd": "export WANDB_API_KEY=hunter2"', '"cmd": "export WANDB_API_KEY=*"'),
        (r"{\"api_key\": \"hunter2\", \"lr\": 1}", r"{\"api_key\": \"*\", \"lr\": 1}"),
        (r'"a\npassword=hunter2"', r'"a\npassword=*"'),
        ("['--password', 'hunter2']", "['--password', '*']"),
        ('{"name":"WANDB_API_KEY","value":"hunter2"}', '{"name":"WANDB_API_KEY","value":"*"}'),
        ("- name: HF_TOKEN\n  value: hunter2", "- name: HF_TOKEN\n  value: *"),
        ('os.environ["API_KEY"] = "hunter2"', 'os.environ["API_KEY"] = "*"'),
        ('"api_keys": ["a1", "b2"]', '"api_keys": *'),
        ('x password="hunter2 and so', 'x password="*'),
        ("https://0123abcd@host/x", "https://*@host/x"),
        ("postgres://me:p@55@db/x", "postgres://*@db/x"),
        ("API KEY: hunter2", "API KEY: *"),
        ("your access key: hunter2", "your access key: *"),
        ("db_pass=hunter", "db_pass=*"),
        ("pass = hunter2", "pass = *"),
        ("f(pass=hunter2, beta=0.1)", "f(pass=*, beta=0.1)"),
        ("pass=hunter2,beta=0.1", "pass=*,beta=0.1"),
        ("password=hunter2]: x", "password=* x"),
        ("credential_file: password: hunter2", "credential_file: password: *"),
        ("my_token: hunter2", "my_token: *"),
        ("credentials_file:\n  password: hunter2", "credentials_file:\n  password: *"),
        ('Authorization:\n"api_key": "hunter2"', 'Authorization:\n"api_key": "*"'),
        ("MLFLOW_TRACKING_TOKEN=hunter2", "MLFLOW_TRACKING_TOKEN=*"),
        ("dingtalk_token: hunter2", "dingtalk_token: *"),
        ("run_token: 0123456789abcdef", "run_token: *"),
        ("SharedAccessSignature=sv=1&sig=ab", "SharedAccessSignature=*"),
        ("AccountKey=abc==;", "AccountKey=*;"),
    ],
    ids=lambda text: text[:30],
)
def test_a_secret_is_known_behind_any_other_name(text: str, left: str) -> None:
    assert masked(text) == left.replace("*", MASK)
    assert masked(f"a: b=1 {text}") == f"a: b=1 {left}".replace("*", MASK)


def test_the_words_of_a_command_and_pairs_of_name_and_value_are_masked() -> None:
    assert masked(["--password", "hunter2", "--lr", "1"]) == ["--password", MASK, "--lr", "1"]
    assert masked(["--use_auth_token", "--lr", "1"]) == ["--use_auth_token", "--lr", "1"]
    assert masked({"name": "HF_TOKEN", "value": "x"}) == {"name": "HF_TOKEN", "value": MASK}
    assert masked({"name": "beta", "value": "x"}) == {"name": "beta", "value": "x"}
    assert masked({"pass": "hunter2"}) == {"pass": MASK}
    setting = Setting("api_key", "x", Location("c.json"))
    assert masked(setting) == Setting("api_key", MASK, Location("c.json"))


@pytest.mark.parametrize("name", ["_SHAPES", "_BESIDE", "_NAME"])
def test_what_is_searched_at_every_place_looks_no_further_than_its_bounds(name: str) -> None:
    """An unbounded repetition that fails at every place makes masking quadratic."""
    pattern: str = getattr(masking, name).pattern
    bare = re.sub(r"\\.|\[(?:\\.|[^\]\\])+\]|\#.*|[ ]\# .*", "x", pattern)
    assert re.findall(r"[*+]|\{\d*,\}", bare) == []


@pytest.mark.parametrize(
    "unit",
    [
        *("login --", "a.", "token=", 'token="', 'password="\\"', "password=[", "-eyJ", "sk-"),
        *("-----BEGIN PRIVATE KEY", "://a:", "http://a", "bearer ", "--a ", "a: ", '\\"a\\":'),
        *("a" + " " * 50, "password={ ", "token='a=\"", "value: a, ", "password=[masked]"),
    ],
)
def test_a_long_text_is_masked_in_one_pass(unit: str) -> None:
    """Where it were quadratic, half a megabyte would take hours."""
    text = unit * (2**19 // len(unit))
    assert masked(text)


@pytest.mark.parametrize(
    "name",
    [
        *("api_key", "apiKey", "API-KEY", "OPENAI_API_KEY", "wandb_api_key", "token", "hub_token"),
        *("HF_TOKEN", "auth.token", "push_to_hub_token", "secret", "aws_secret_access_key"),
        *("password", "db_passwd", "Authorization", "accessToken", "slack_webhook", "private_key"),
        *("db_pass", "my_token", "MLFLOW_TRACKING_TOKEN", "dingtalk_token", "AccountKey"),
        *("SharedAccessSignature", "api_keys", "accesskey"),
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
        *("forward_pass", "pass_rate", "image_token", "sort_key", "github_tokens"),
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
        "pass: 3 of 5, pass@1: 0.3",
        "pass: 12.55ms",
        "the token: a word",
        "the secret: go on and on",
        "the API key: see the manual",
        "key: value tables",
        "max_tokens: 5",
        "eos_token='<|im_end|>', pad_token: <|reserved_special_token_250|>",
        "{{ bos_token + message['content'] }}{% set pass = 1 %}",
        "image_token: '<image_0001_placeholder>'",
        "hub_token=None, password: null, hub_token=<HUB_TOKEN>",
        "--use_auth_token --lr 1",
        "ssh://git@host/x",
        "def f(token: str, key: int = 5):",
        "kl_ref_token=0.0123456789012345",
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
