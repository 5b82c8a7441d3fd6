"""Secrets are hidden by name and by look; what trains a model is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.facts.redaction import is_secret_name, redact_diff, redact_env, redact_text, redact_words

SECRETS = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "WANDB_API_KEY",
    "PGPASSWORD",
    "PGPASS",
    "DATABASE_URL",
    "SQLALCHEMY_DATABASE_URI",
    "REDIS_URL",
    "SENTRY_DSN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_ACCESS_KEY_ID",
    "MYSQL_PWD",
    "DB_PASS",
    "SLACK_WEBHOOK",
    "GITLAB_CREDENTIALS",
    "apiKey",
    "--api-key",
    "--hub_token",
    "--password",
    "--auth-token",
    "SMTP_PASS",
    "COOKIE",
    "client_secret",
    "SSH_PRIVATE_KEY",
    "--wandb_key",
    "MY_CREDS",
    "PASS_PHRASE",
)
PLAIN = (
    "PWD",
    "OLDPWD",
    "TOKENIZERS_PARALLELISM",
    "--max_new_tokens",
    "--pad_token",
    "--eos_token",
    "--tokenizer_name",
    "SSH_AUTH_SOCK",
    "--label_key",
    "--forward_pass",
    "NCCL_SOCKET_IFNAME",
    "PATH",
    "--lr",
    "WANDB_PROJECT",
    "",
    "MASTER_ADDR",
    "--dataset_url",
    "--model_url",
    "HOME",
    "--num_tokens",
    "--key_column",
    "--authors",
)


@pytest.mark.parametrize("name", SECRETS)
def test_a_name_that_holds_a_secret(name: str) -> None:
    assert is_secret_name(name)
    assert redact_env({name: "plain-value"}) == {name: "***"}


@pytest.mark.parametrize("name", PLAIN)
def test_a_name_that_holds_none(name: str) -> None:
    assert not is_secret_name(name)
    assert redact_env({name: "plain-value"}) == {name: "plain-value"}


_LONG = "0a1b2c3d4e" * 4


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://ana:s3cret@db:5432/x", "postgres://ana:***@db:5432/x"),
        ("redis://:s3cret@cache", "redis://:***@cache"),
        ("https://s3cret-s3cret-s3cret@git.example/x.git", "https://***@git.example/x.git"),
        ("https://a.example/x?token=s3cret&rank=1", "https://a.example/x?token=***&rank=1"),
        ("https://a.example/?X-Amz-Signature=s3cret&y=1#z", "https://a.example/?X-Amz-Signature=***&y=1#z"),
        ("host=db password=s3cret user=ana", "host=db password=*** user=ana"),
        ('{"user": "ana", "password": "s3\\"cret"}', '{"user": "ana", "password": "***"}'),
        ("{'api_key' : 's3cret', 'lr': '1'}", "{'api_key' : '***', 'lr': '1'}"),
        ("export HF_TOKEN='s3 cret'; python t.py", "export HF_TOKEN=***; python t.py"),
        ("Authorization: Bearer s3crets3cret", "Authorization: Bearer ***"),
        (f'wandb.login(key="{_LONG}")', "wandb.login(key=***)"),
        (
            f"wandb login --relogin --host=https://w.example {_LONG}",
            "wandb login --relogin --host=https://w.example ***",
        ),
        (f'wandb.login("{_LONG}")', 'wandb.login("***")'),
        (f'Task.set_credentials({{"key": "{_LONG}"}})', 'Task.set_credentials({"key": "***"})'),
        (
            "-----BEGIN RSA PRIVATE KEY-----\ns3cret\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        ),
        *(
            (f"x {word} y", "x *** y")
            for word in (
                "hf_s3crets3crets3cret",
                "ghp_s3crets3crets3cret",
                "sk-s3crets3crets3cret",
                "AKIAS3CRETS3CRETSEC7",
                "glpat-s3crets3crets3cret",
                "xoxb-s3crets3cret",
                "eyJhbGciOiJI.s3crets3cret.sig",
            )
        ),
    ],
)
def test_what_looks_like_a_secret_is_hidden_in_any_text(text: str, shown: str) -> None:
    assert redact_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org:8080/a@b",
        "lr=1e-4",
        "git@github.com:a/b.git",
        "/data/tokens/x",
        "sk-learn",
        "python train.py --max_new_tokens=512",
        "hf_models/llama",
        "Basic training of a model",
        "rank=3 token_type=1",
        'sorted(rows, key="validation_loss_of_the_second_epoch_1")[0]',
        "frame.sort_values(key='length_of_the_tokenized_sentence')",
        f"commit={_LONG} wandb login",
    ],
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert redact_text(text) == text


_HEAD = "diff --git a/{0} b/{0}\nindex 1..2\n"


@pytest.mark.parametrize(
    ("name", "line", "shown"),
    [
        ("t.py", 'api_key = "s3cret"', 'api_key = "***"'),
        ("t.py", "os.environ['WANDB_API_KEY'] = 's3cret'", "os.environ['WANDB_API_KEY'] = '***'"),
        ("t.py", 'os.environ.setdefault("HF_TOKEN", "s3cret")', 'os.environ.setdefault("HF_TOKEN", "***")'),
        ("t.py", 'def f(password: str = "s3cret"):', 'def f(password: str = "***"):'),
        ("c.yaml", "env: {A_TOKEN: s3cret, LR: 1}", "env: {A_TOKEN: ***, LR: 1}"),
        ("c.yml", "  WANDB_API_KEY: s3 cret  # mine", "  WANDB_API_KEY: ***# mine"),
        ("c.toml", "password = 's3cret'", "password = '***'"),
        (".env", "A_TOKEN=s3cret", "A_TOKEN=***"),
        ("c.json", '{"api_key": "s3cret"}', '{"api_key": "***"}'),
        ("t.py", f"wandb.login(key = '{_LONG}')", "wandb.login(key = '***')"),
        ("t.py", "def f(token: str, pad_token='<pad>'):", "def f(token: str, pad_token='<pad>'):"),
        ("t.py", 'token = os.environ["HF_TOKEN"]', 'token = os.environ["HF_TOKEN"]'),
        ("c.yaml", "API_KEY: ${oc.env:KEY}", "API_KEY: ${oc.env:KEY}"),
    ],
)
def test_a_diff_is_kept_without_secrets_of_code_and_of_settings(name: str, line: str, shown: str) -> None:
    head = _HEAD.format(name)
    other = _HEAD.format("t.py") + "+token: plain\n"
    for mark in "+-":
        assert redact_diff(f"{head}{mark}{line}\n{other}") == f"{head}{mark}{shown}\n{other}"


def test_an_option_of_a_command_names_the_secret_that_follows() -> None:
    words = (
        "t.py",
        "--hub_token",
        "s3cret",
        "--password=s3cret",
        "model.api_key=s3cret",
        "--lr",
        "1e-4",
        "--token",
        "-x",
    )
    shown = (
        "t.py",
        "--hub_token",
        "***",
        "--password=***",
        "model.api_key=***",
        "--lr",
        "1e-4",
        "--token",
        "-x",
    )
    assert redact_words(words) == shown


@given(st.text())
def test_no_text_ends_in_an_error_and_what_is_hidden_stays_hidden(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once
    is_secret_name(text)
