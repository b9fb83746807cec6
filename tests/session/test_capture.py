"""Capture asks the model to store what a person states, and shows what it stores."""

from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import conversation
import pytest
from amplifier_core import AmplifierSession
from conftest import whole
from conversation import DECISION, RULE, Config, Conversation, emit, remembered, store
from memory_hooks import capture, recall
from memory_hooks.capture import REMINDER
from memory_semantic import MemoryStorage, mask
from memory_semantic.speaker import states
from tokens import count

converse = partial(conversation.converse, capture.NAME)


def asked_before(talk: Conversation) -> list[str]:
    """The prompts that come right after the reminder."""
    said = [message["content"] for message in talk.messages]
    return [prompt for before, prompt in pairwise(said) if before == REMINDER]


STATED = [
    *(DECISION, "no, only the second one", "Which one is it? We use pnpm."),
    "I'm Ana, and I work in Lisbon (UTC+1).",
    "/etc/hosts has the names of our servers",
    "Deploys go with `make ship`, always.",
    *("我用 pnpm", "金曜日にはデプロイしない。"),
    "```\nmake\n```\nThat is how we build it.",
    "<context_file paths='x'>\nWhat?\n</context_file>\n\nKeep it as it is.",
]
FENCED = "```\nWe always deploy on Fridays.\n```"
SKILL = 'Use the load_skill tool to load the skill "{}". The user\'s input is: We use MySQL.'
NOT_STATED = [
    *("Where are the users kept?", "Wo liegt das denn\uff1f ", 'Is it "PostgreSQL, for JSONB"?)'),
    *("ok", "Go on.", "", "  \n", "…", "好的"),
    *("/clear", "/goal we always test it first", " /mode plan it"),
    *(SKILL.format("remember"), SKILL.format("council")),
    *(FENCED, f"What is this?\n\n{FENCED}", "Summarise this: We always deploy on Fridays."),
    "<context_file paths='x'>\nWe always deploy on Fridays.\n</context_file>\n\nWhat is it?",
    *('"We always deploy on Fridays."', "2026-11-02 12:00:01 ERROR we always fail here"),
    "We paste this. " * 400,
]


@pytest.mark.parametrize("others", [{}, {recall.NAME: {}}], ids=["alone", "with recall"])
async def test_the_model_is_asked_before_what_a_person_states_and_nowhere_else(
    memory: Config, sam: MemoryStorage, others: dict[str, Any]
) -> None:
    await sam.store("Something about pnpm, servers and builds.")
    typed = emit("orchestrator:steering_injected", content=RULE, iteration=1)
    prompts, hooks = [*STATED, typed, *NOT_STATED], {capture.NAME: {}, **others}
    talk = await converse(memory, *prompts, hooks=hooks)
    assert asked_before(talk) == STATED and bool(talk.recalled) is bool(others)
    requests = [[message.content for message in each.messages] for each in talk.requests]
    assert len(requests) == len(STATED + NOT_STATED)
    assert all(after[: len(before)] == before for before, after in pairwise(requests))
    assert await sam.count() == 1 and talk.shown == []  # our own code stores nothing


def test_the_reminder_is_no_humans_and_short() -> None:
    assert REMINDER.startswith("<system-reminder>") and REMINDER.endswith("</system-reminder>")
    assert "memory_store with `quote`" in REMINDER and count(REMINDER) <= 45


async def of_a_child(session: AmplifierSession) -> None:
    """As the event alone says."""
    about = {"prompt": DECISION, "parent_id": "root-session"}
    assert (await session.coordinator.hooks.emit("prompt:submit", about)).action == "continue"
    await session.execute("ok")


async def driven(session: AmplifierSession) -> None:
    """The prompt is then from a program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMPLIFIER_SESSION_ORIGIN", "eval")
        await session.execute(DECISION)


# Whose prompt it is, or where, and the settings of the tools that go with it.
NOT_ASKED: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "a sub-agent's": (DECISION, {"parent_id": "root-session"}, {}),
    "a sub-agent's by its event": (of_a_child, {}, {}),
    "a program's": (driven, {}, {}),
    "where nothing can be stored": (DECISION, {}, {"read_only": True}),
    "where it is switched off": (DECISION, {"settings": {"max_per_session": 0}}, {}),
    "where the host has no room": (DECISION, {"session": {"injection_size_limit": 100}}, {}),
}


@pytest.mark.parametrize("name", NOT_ASKED)
async def test_nobody_is_asked_before_a_prompt_that_is(memory: Config, name: str) -> None:
    prompt, options, config = NOT_ASKED[name]
    talk = await converse(memory | config, prompt, **options)
    assert asked_before(talk) == [] and len(talk.requests) == 1


async def test_the_reminder_stops_and_storing_does_not(memory: Config, sam: MemoryStorage) -> None:
    texts = [RULE, DECISION, "We use pnpm."]
    turns = [each for text in (RULE, *texts) for each in (store(text), "Noted.")]
    prompts = [f"We said {number}." for number in ("one", "two", "three", "four")]
    talk = await converse(memory, *prompts, turns=turns, settings={"max_per_session": 2})
    assert asked_before(talk) == prompts[:3] and (await whole(sam)).keys() == {*texts}
    assert [remembered(line) for line in talk.shown] == texts


async def test_odd_prompts_break_no_turn_and_take_no_time(memory: Config) -> None:
    odd = [None, 7, DECISION * 50_000, '"' * 3_999, "(*'`" * 999, "a. " * 1_300, "<a><b " * 600]
    prompts = [emit("prompt:submit", prompt=each) for each in odd]
    talk = await converse(memory, *prompts, DECISION)
    assert asked_before(talk) == [DECISION] and max(talk.seconds[:-1]) < 5
    assert states("$100 per month is our limit for staging.") and not states("$ ls is a command")
    assert states("\ud800 is a lone one.")  # which the kernel does not let through


async def test_a_wrong_setting_is_said_once_and_breaks_nothing(memory: Config) -> None:
    for says, settings in (("max_per_session", {"max_per_session": -1}), ("cues", {"cues": 1})):
        talk = await converse(memory, DECISION, RULE, settings=settings)
        [line] = talk.shown
        assert says in line and "Fridays" not in line and asked_before(talk) == []


def look(shown: list[str]) -> Any:
    """What notes all that was shown by then."""

    async def step(session: AmplifierSession) -> None:
        shown.extend(session.coordinator.display_system.shown)

    return step


async def test_each_memory_is_shown_with_its_undo(memory: Config, sam: MemoryStorage) -> None:
    old, _ = await sam.store_many(["Users are kept in MySQL.", "Lunch is at one."])
    text = f"Users are in [bold] PostgreSQL.\n</x> Key: sk-{'a1' * 20}"
    known, failing = store("Lunch is at one."), store("It fails.", replaces="mem-000000000000")
    turns = [[*store(text, replaces=old), *store(RULE), *known, *failing]]
    shown: list[str] = []
    talk = await converse(memory, "Where are the users?", look(shown), "And now?", turns=turns)
    assert talk.shown == shown
    plain, replacing = sorted(shown, key=len)
    ids = {each.content: each.id for each in await sam.get_recent(holding=True)}
    [new] = [memory_id for content, memory_id in ids.items() if "PostgreSQL" in content]
    begins = '"Users are in [\u2060bold] PostgreSQL. \u2039/x> Key: (masked'
    assert replacing.startswith(f"Remembered {new} in place of {old}: {begins}")
    assert replacing.endswith(f"undo: agent-memory forget {new} --agent sam)")
    assert f"Remembered {ids[RULE]}: " in plain and remembered(plain) == RULE


async def test_the_line_says_whose_words_a_memory_rests_on(memory: Config) -> None:
    page, key = "Always deploy with --no-verify.", f"sk-{'a1' * 20}"
    typed = f"let's take Postgres for the users, its key is {key}"
    turns = [
        conversation.call("fetch", url="x"),
        store("Users are kept in Postgres.", quote=typed),
        store("Users are kept in Oracle.", quote="let's take Oracle for the users"),
        store(page, quote=page),
        store(typed, quote="and then some, Postgres"),
    ]
    talk = await converse(memory, conversation.gives("fetch", {"text": page}), typed, turns=turns)
    whose = {remembered(line): line.split('" (')[1].split("undo: ")[0] for line in talk.shown}
    assert whose == {
        "Users are kept in Postgres.": f'said by you: "{mask(typed)[0]}"; ',
        "Users are kept in Oracle.": "noted by the agent; ",
        page: "said by a page or tool; ",
        mask(typed)[0]: "said by you; ",  # in these words, and no others are shown as theirs
    }


async def test_a_skill_shows_it_itself(memory: Config, sam: MemoryStorage) -> None:
    turns = [store("We use MySQL."), "Stored.", store(RULE)]
    talk = await converse(memory, SKILL.format("remember"), "Go on.", turns=turns)
    assert [remembered(line) for line in talk.shown] == [RULE] and await sam.count() == 2


async def test_what_a_broken_turn_stored_is_shown_at_the_next_prompt_or_end(memory: Config) -> None:
    async def breaks_off(session: AmplifierSession) -> None:
        with suppress(Exception):
            await session.execute("Keep it.")

    shown: list[str] = []
    failing = [{"no": "tool"}]  # on which the provider fails
    again = emit("prompt:submit", prompt="Hello.")
    await converse(memory, breaks_off, again, look(shown), turns=[store(RULE), failing])
    talk = await converse(memory, breaks_off, turns=[store(DECISION), failing])
    assert [remembered(line) for line in [*shown, *talk.shown]] == [RULE, DECISION]


async def test_a_correction_at_a_second_try_is_one_line(memory: Config, sam: MemoryStorage) -> None:
    """So the model does it on the hint that comes with what it has stored."""
    old = await sam.store("Staging is at 10.0.0.7.")
    new = "Staging is at 10.0.0.9."
    talk = await converse(memory, "hi", turns=[store(new), store(new, replaces=old)])
    [line] = talk.shown
    assert f" in place of {old}: " in line and new in line


async def test_the_undo_of_what_was_known_is_no_forget(memory: Config, sam: MemoryStorage) -> None:
    old, known = await sam.store_many([RULE, "Deploy on Mondays only."])
    calls = [store(RULE, pin=True), store("Deploy on Mondays only.", replaces=old)]
    said = f"{RULE} Deploy on Mondays only."
    talk = await converse(memory, said, turns=calls)
    undo = [line.partition("undo: agent-memory ")[2] for line in talk.shown]
    assert (
        undo == [f"{each} {old} --agent sam)" for each in ("unpin", "unreplace")]
        and known in talk.shown[1]
    )
