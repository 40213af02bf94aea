"""agent.yaml: what the agent of one node must be told. Strict, every fault with its place.

    agent: 1
    node: n01                                 # its name in facility.yaml
    broker: mqtts://broker.example:8883
    auth: {user: n01, secret: {credential: mqtt}}
    tls: {ca_file: /etc/wattkeeper/ca.pem}
    state_dir: /var/lib/wattkeeper-agent
    fallback: 350 W                           # at boot, and when nobody leads for long
    floor: 200 W                              # no cap goes below it
    power_off: [/usr/local/sbin/node-off]     # hook, run before a breaker opens; default none
    boot_id_file: /proc/sys/kernel/random/boot_id   # another word in it: the machine was rebooted

Only `agent`, `node` and `broker` must stand there. Without `fallback` nothing is written before
a controller commands it.
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from drivers.mqtt.addressing import split_url
from facility.config import Name, SecretSource, Strict
from facility.errors import ConfigError, Problem
from facility.quantities import PowerW
from facility.yamltree import Tree, dotted, parse_tree, read_text


class Login(Strict):
    """User at the broker, and where the password is found."""

    user: str = Field(min_length=1)
    secret: SecretSource


class Tls(Strict):
    """Files of `mqtts`: a private authority, and a certificate of our own."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class AgentConfig(Strict):
    """A whole agent file; watts per GPU."""

    agent: Literal[1]
    node: Name
    broker: str
    auth: Login | None = None
    tls: Tls | None = None
    topic_prefix: str = Field(default="wattkeeper", pattern=r"^[A-Za-z0-9_\-]+(/[A-Za-z0-9_\-]+)*$")
    state_dir: str = "/var/lib/wattkeeper-agent"
    fallback: PowerW | None = None
    floor: PowerW | None = None
    power_off: tuple[str, ...] = ()
    boot_id_file: str = "/proc/sys/kernel/random/boot_id"

    @field_validator("broker")
    @classmethod
    def _address(cls, url: str) -> str:
        split_url(url)
        return url

    @field_validator("power_off")
    @classmethod
    def _hook(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        if words and not words[0].startswith("/"):
            raise ValueError("the hook is named by its whole path")
        return words

    @model_validator(mode="after")
    def _order(self) -> AgentConfig:
        if self.tls is not None and not self.broker.startswith("mqtts://"):
            raise ValueError("tls needs a broker with mqtts://")
        if self.fallback is not None and self.floor is not None and self.fallback < self.floor:
            raise ValueError("fallback lies below floor")
        return self


def load(path: str) -> AgentConfig:
    """Read an agent file.

    Raises:
        ConfigError: every fault, with line and column.
    """
    text, _ = read_text(path)
    return parse(text, path)


def parse(text: str, file: str) -> AgentConfig:
    """Read the text of an agent file; `file` names it in errors.

    Raises:
        ConfigError: every fault, with line and column.
    """
    tree, problems = parse_tree(text, file)
    if problems:
        raise ConfigError(problems)
    try:
        return AgentConfig.model_validate_json(json.dumps(tree.plain()))
    except ValidationError as error:
        raise ConfigError(_problems(error, tree, file)) from None


def _problems(error: ValidationError, tree: Tree, file: str) -> list[Problem]:
    found = []
    for item in error.errors(include_url=False):
        path = tuple(item["loc"])
        unknown = item["type"] == "extra_forbidden"
        line, column = tree.place(path, of_key=unknown)
        words = str(item["msg"]).removeprefix("Value error, ")
        words = {"missing": "is missing", "extra_forbidden": "is no known key"}.get(
            item["type"], words
        )
        found.append(Problem(file, line, column, dotted(path), words))
    return sorted(found, key=lambda problem: (problem.line, problem.column))
