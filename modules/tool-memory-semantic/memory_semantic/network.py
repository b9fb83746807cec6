"""What proxies, certificates and redirects do to a request to a service, in words for people."""

import os
import re
from contextlib import suppress
from urllib.parse import urljoin, urlsplit

# What may be repeated of a redirect's address: a host's name or number, not a sentence.
_HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]{2,45}")

# The environment variables that a client reads, in upper or lower case.
_PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSLKEYLOGFILE")


def obstacle(error: Exception, setting: str) -> str:
    """What in the environment, or in the address in `setting`, prevents creating a client. The text
    of `error` is not used, because it may contain a proxy's password.
    """
    if isinstance(error, OSError):
        check = " and ".join(_set_of(_CERTIFICATES)) or "the package certifi"
        return f"The certificates for TLS cannot be loaded. Check {check}."
    reason = "The service's address, or a proxy's, cannot be used."
    if isinstance(error, ImportError):
        reason = "A SOCKS proxy needs the package socksio. Install it, or name an HTTP proxy."
    return f"{reason} Check {' and '.join([*_set_of(_PROXIES), setting])}."


def proxied() -> str:
    """Which variables name a proxy, in words to follow `the service's address`; blank if none."""
    return "".join(f" and the proxy in {name}" for name in _set_of(_PROXIES))


def _set_of(names: tuple[str, ...]) -> list[str]:
    spelt = [spelling for name in names for spelling in (name, name.lower())]
    return [name for name in spelt if os.environ.get(name)]


def redirection(service: str, status: int, asked: str, location: str) -> str:
    """A message that `service` answered a request to the address `asked` with a redirect. None is
    followed: the request may hold memories and a key, and the user chose the address.
    """
    where = "another address"
    with suppress(ValueError):  # not a valid address
        parts = urlsplit(urljoin(asked, location))
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
        if location and parts.scheme in ("http", "https") and _HOST.fullmatch(host):
            # Not the rest: it may hold a password.
            where = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"
    return f"{service} redirects to {where} (HTTP {status}); nothing went there."
