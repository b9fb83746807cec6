"""The skills with which a person sees and corrects what is remembered, inside a session.

Amplifier's tool-skills reads the files; here it is only checked that they have its form. What they
tell the model to do is played by a script, after the prompts that Amplifier writes for them.
"""

import re
from typing import Any

import click
import pytest
import yaml
from agent_memory.cli import cli
from conversation import converse
from memory_hooks import capture
from memory_semantic import MemoryStorage
from scripted import REPOSITORY
from tokens import count

NAMES = ("forget", "memory", "remember")
SAID = "The staging server is at 10.0.0.9."
WRONG = "The staging server is at 10.0.0.7."


def parts(name: str) -> tuple[dict[str, Any], str]:
    """What a skill says about itself, and what it tells the model."""
    file = REPOSITORY / "skills" / name / "SKILL.md"
    _, header, body = file.read_text().split("---\n", 2)
    return yaml.safe_load(header), body


def prompt(skill: str, typed: str) -> str:
    """What Amplifier makes of `/skill typed`."""
    return (
        f'Use the load_skill tool to load the skill "{skill}", passing the user\'s input as the '
        f'`arguments` parameter (load_skill(skill_name="{skill}", arguments=...)) so the skill '
        "receives it — this is required for fork skills, which cannot otherwise see it. "
        f"The user's input is: {typed}"
    )


def call(tool: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"tool": tool, "arguments": arguments}]


@pytest.mark.parametrize("name", NAMES)
def test_a_skill_has_the_form_of_tool_skills_and_only_the_person_invokes_it(name: str) -> None:
    header, body = parts(name)
    assert header["name"] == name
    assert header["user-invocable"] is header["disable-model-invocation"] is True
    assert header["description"] and "$ARGUMENTS" in body
    assert not re.search("!`", body)  # would be run by a shell


def test_the_skills_together_cost_at_most_50_tokens_a_request() -> None:
    headers = [parts(name)[0] for name in NAMES]
    listed = "".join(f"- **{each['name']}**: {each['description']}\n" for each in headers)
    assert count(listed) <= 50


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_that_a_skill_shows_exist_and_none_skips_the_question(name: str) -> None:
    _, body = parts(name)
    shown = re.findall(r"agent-memory ([a-z]+)([^`\n]*)", body)
    assert shown
    for command, rest in shown:
        found = cli.get_command(click.Context(cli), command)
        assert found, command
        options = {option for each in found.params for option in each.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options - {"--yes"}


def test_forget_finds_and_shows_and_leaves_deleting_to_the_person() -> None:
    _, body = parts("forget")
    assert "Never run the command yourself, and never add `--yes`" in body
    assert "memory_store" not in body


async def test_what_follows_remember_is_said_by_the_user(
    memory: dict[str, Any], sam: MemoryStorage
) -> None:
    rule = "Never deploy on Fridays."
    turns = [call("memory_search", query=rule), call("memory_store", content=rule, pin=True)]
    await converse("", memory, prompt("remember", rule), turns=turns, hooks={})
    [kept] = await sam.get_recent()
    assert kept.said_by == "user" and kept.pinned


async def test_the_prompt_of_another_skill_and_the_rest_of_this_one_are_nobodys(
    memory: dict[str, Any], sam: MemoryStorage
) -> None:
    asked = [prompt("council", SAID), prompt("remember", "x").partition("The user's")[0]]
    other = "Use the load_skill tool to load the skill"
    turns = [call("memory_store", content=SAID), "Stored.", call("memory_store", content=other)]
    await converse("", memory, *asked, turns=turns, hooks={capture.NAME: {}})
    assert {each.said_by for each in await sam.get_recent()} == {"agent"}


async def test_remember_corrects_what_the_user_said_and_the_undo_restores_it(
    memory: dict[str, Any], sam: MemoryStorage
) -> None:
    [old] = await sam.upsert([WRONG], said_by="user", pin=True)
    search = call("memory_search", query=SAID)
    store = call("memory_store", content=SAID, replaces=old.id)
    await converse("", memory, prompt("remember", SAID), turns=[search, store], hooks={})
    [new] = await sam.get_recent(holding=True)
    assert new.content == SAID and new.pinned and new.said_by == "user"
    await sam.delete([new.id])
    [again] = await sam.get_recent(holding=True)
    assert again.content == WRONG and again.pinned
