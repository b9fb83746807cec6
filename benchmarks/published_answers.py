"""Questions answered from what a search finds, and every miss put down to the search or the answer.

The answerer and the judge are models behind any address that is compatible with OpenAI's; their
names are in the results, and the instructions are these.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from openai import OpenAI
from published_sets import Asked

ANSWER = """Answer the question from these memories alone, in as few words as possible. If they do
not hold the answer, say "I do not know".

{memories}

Question: {question}"""
JUDGE = """Question: {question}
Correct answer: {correct}
Given answer: {given}

Does the given answer say the same as the correct one? A date in another form is the same date. More
words than needed do not matter. Reply with one word, yes or no."""


class Model:
    """A model by its name and the address of its service; the key is OPENAI_API_KEY, if any."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._client = OpenAI(base_url=url)

    def says(self, text: str) -> str:
        """Its reply to `text`. Raises ValueError if it is empty."""
        messages: Any = [{"role": "user", "content": text}]
        done = self._client.chat.completions.create(
            model=self.name, messages=messages, temperature=0
        )
        if reply := (done.choices[0].message.content or "").strip():
            return reply
        raise ValueError(f"{self.name} gave an empty answer")


def answered(
    found: Iterable[tuple[Asked, list[str], bool]], answerer: Model, judge: Model
) -> dict[str, Any]:
    """How the questions went: `right`; `search`, wrong and not all evidence was found; `answer`,
    wrong although all of it was; and `lucky`, right without all evidence. `found` has each question
    with the texts that a search found, and whether all evidence is among them.
    """
    counts: Counter[str] = Counter()
    for asked, texts, complete in found:
        memories = "\n".join(f"- {text}" for text in texts)
        given = answerer.says(ANSWER.format(memories=memories, question=asked.text))
        verdict = judge.says(JUDGE.format(question=asked.text, correct=asked.answer, given=given))
        right = verdict.casefold().startswith("yes")
        counts[_outcome(right, complete)] += 1
    return {"answerer": answerer.name, "judge": judge.name, **counts}


def _outcome(right: bool, complete: bool) -> str:
    if right:
        return "right" if complete else "lucky"
    return "answer" if complete else "search"
