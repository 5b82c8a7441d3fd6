"""A password that a host has accepted: asked for once, in memory, until the host refuses it."""

from typing import Any, cast

import paramiko

from launcher.transports.base import Endpoint
from launcher.transports.ssh import auth

HOST = Endpoint("gpu1", "ssh", "192.0.2.1", user="ada")


class Transport:
    """A server that takes one password."""

    def __init__(self, password: str) -> None:
        self._password = password
        self._in = False

    def auth_password(self, user: str, password: str, *, fallback: bool) -> None:
        del user, fallback
        if password != self._password:
            raise paramiko.AuthenticationException
        self._in = True

    def is_authenticated(self) -> bool:
        return self._in

    def is_active(self) -> bool:
        return True


def connect(
    ring: auth.KeyRing,
    password: str,
    methods: tuple[str, ...] = ("publickey", "password"),
    endpoint: Endpoint = HOST,
) -> bool:
    return auth.Login(cast("Any", Transport(password)), endpoint, ring, methods=methods)._by_password()


def test_a_reconnect_asks_no_second_time_and_a_changed_password_is_asked_for() -> None:
    answers = ["wrong", "one", "two"]
    asked: list[str] = []

    def prompt(question: str) -> str:
        asked.append(question)
        return answers[len(asked) - 1]

    ring = auth.KeyRing(prompt)
    assert connect(ring, "one")
    assert connect(ring, "one")
    assert len(asked) == 2
    assert asked[0] == "ada@gpu1: password (ssh-copy-id 192.0.2.1 spares it): "
    assert connect(ring, "two")  # changed meanwhile
    assert connect(ring, "two")
    assert len(asked) == 3


def test_a_code_or_another_account_is_asked_for_each_time() -> None:
    asked: list[str] = []
    ring = auth.KeyRing(lambda question: asked.append(question) or "one")  # type: ignore[func-returns-value]
    for _ in range(2):
        assert connect(ring, "one", ("keyboard-interactive",))
    assert connect(ring, "one", endpoint=Endpoint("gpu1", "ssh", "192.0.2.1", user="root"))
    assert connect(ring, "one", endpoint=Endpoint("gpu2", "ssh", "192.0.2.2", user="ada"))
    assert len(asked) == 4


def test_a_host_that_takes_no_keys_is_sent_none() -> None:
    asked: list[str] = []
    ring = auth.KeyRing(lambda question: asked.append(question) or "one")  # type: ignore[func-returns-value]
    assert connect(ring, "one", ("password",))
    assert asked == ["ada@gpu1: password: "]
