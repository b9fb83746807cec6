"""Keys and passwords do not become memories: known credential shapes are masked.

By shape alone, without guessing from entropy, so that commit hashes, UUIDs and base64 stay. Each
shape has a test and a near miss. Yelp's detect-secrets 1.5 was tried instead: without its entropy
guesses it missed 19 of the 32 examples of that test, and took 23 ms for 10,000 characters.
"""

import re
from functools import partial
from typing import Any

from .models import MAX_CONTENT_CHARS, MAX_TAGS
from .plaintext import normal, without_tags

# What a shape is called where it is masked, and its pattern. Where a pattern has a group named
# `secret`, only that part is masked. Repetitions that can start anywhere are bounded, so that no
# text of 10,000 characters takes more than about 5 ms.
SHAPES: dict[str, str] = {
    "private key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:.*?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|.*)",
    "web token": r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
    # OpenAI, Anthropic, OpenRouter; a digit tells them from words such as sk-fading-circle.
    "API key": r"\bsk-(?=[\w-]{0,60}\d)[\w-]{20,}",
    "Stripe key": r"\b(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}",
    "GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{22,})",
    "GitLab token": r"\bgl(?:pat|ptt|dt|rt|cbt)-[\w-]{20,}",
    "AWS key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "AWS secret": r"(?i:aws_?secret_?access_?key)[\"']?\s*[=:]\s*[\"']?(?P<secret>[\w/+=]{40})",
    "Azure key": r"\b(?:AccountKey|SharedAccessKey)=(?P<secret>[\w/+]{40,}={0,2})",
    "Google key": r"\b(?:AIza[\w-]{35}|GOCSPX-[\w-]{28}|ya29\.[\w-]{20,})",
    "Slack token": r"\bxox[a-z]-[A-Za-z0-9-]{10,}|\bxapp-\d-[A-Za-z0-9-]{10,}",
    "Slack webhook": r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[\w/]{20,})",
    "SendGrid key": r"\bSG\.[\w-]{22}\.[\w-]{43}",
    "Telegram token": r"\b\d{8,10}:AA[\w-]{33}\b",
    "package token": r"\b(?:npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,}|hf_[A-Za-z0-9]{30,})",
    "DigitalOcean token": r"\bdo[opr]_v1_[0-9a-f]{64}\b",
    "credentials": r"(?i:\b(?:Bearer|Basic))\s+(?=[\w.~+/-]*\d)(?P<secret>[\w.~+/-]{16,}=*)",
    # user:password@ in an address; a variable or placeholder in its place is no secret.
    "password": r"://[^\s:/@]{0,200}:(?![$<{\[*])(?P<secret>[^\s/]{1,200})(?=@)",
    # NAME_PASSWORD=…, and "password": "…"; something in it that is no letter tells it from words.
    "password or secret": r"(?i:password|passwd|pwd|secret|api_?key|auth_?token)"
    r"(?:=|[\"']\s*[:=]\s*[\"']|\s*[:=]\s*[\"'])"
    r"(?=[^\s\"']{0,200}[\d!@#%^&*])(?P<secret>[^\s\"'$<{\[()][^\s\"'()]{5,200})",
}

_SHAPES = [(name, re.compile(pattern, re.DOTALL)) for name, pattern in SHAPES.items()]


def mask(text: str) -> tuple[str, int]:
    """`text` with every credential that it shows replaced by what it was, and how many were."""
    masked = 0
    for name, pattern in _SHAPES:
        text, count = pattern.subn(partial(_masked, name), text)
        masked += count
    return text, masked


def _masked(name: str, match: re.Match[str]) -> str:
    start, end = match.span("secret" if "secret" in match.re.groupindex else 0)
    # Round brackets: Amplifier's console takes square ones for its own markup.
    return f"{match.string[match.start() : start]}(masked {name}){match.string[end : match.end()]}"


def mask_all(value: Any) -> tuple[Any, int]:
    """The same for a text, for those in a list, and for the fields of an object; anything else
    stays as it is.

    So do a text that is too long to be stored and a list that is too long for tags: they are
    refused anyway, and masking them would only take time.
    """
    if isinstance(value, str) and len(normal(value)) <= MAX_CONTENT_CHARS:
        return mask(without_tags(value).strip())  # which could stand between two parts of one
    if isinstance(value, list) and len(value) <= MAX_TAGS:
        items = [mask_all(item) if isinstance(item, str) else (item, 0) for item in value]
        return [item for item, _ in items], sum(count for _, count in items)
    if isinstance(value, dict):
        fields = {
            key: (item, 0) if isinstance(item, dict) else mask_all(item)
            for key, item in value.items()
        }
        masked = sum(count for _, count in fields.values())
        return {key: item for key, (item, _) in fields.items()}, masked
    return value, 0
