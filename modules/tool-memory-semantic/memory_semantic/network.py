"""What the network's own settings do to a request to a service, in words for people."""

import re
from urllib.parse import urljoin, urlsplit

# What may be repeated of where an answer points: a name or a number, and no sentence.
_HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]{2,45}")
_UNKNOWN = "another address"


def redirection(service: str, status: int, asked: str, location: str) -> str:
    """That `service` answered a request to the address `asked` with a redirect, which is not
    followed: what was asked may hold memories and a key, and the address was the user's choice.
    """
    return f"{service} redirects to {_origin(asked, location)} (HTTP {status}); nothing went there."


def _origin(asked: str, location: str) -> str:
    """Scheme, host and port of the address; the rest of it may hold a password."""
    try:
        parts = urlsplit(urljoin(asked, location))
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except ValueError:  # it is no address
        return _UNKNOWN
    if not (location and parts.scheme in ("http", "https") and _HOST.fullmatch(host)):
        return _UNKNOWN
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"
