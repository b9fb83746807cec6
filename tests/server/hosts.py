"""Hosts of their own on one network, as network namespaces.

That needs root and iproute2, and a firewall that lets bridged packets through.
"""

import os
import subprocess
from contextlib import suppress
from typing import Self


class Host:
    """A host at `address`. `wrapper`, before a command, runs it there."""

    def __init__(self, network: str, number: int, address: str) -> None:
        self.address = address
        self._network = network
        self._space = f"{network}-{number}"
        self._plug = f"{network}p{number}"  # the network's end of the host's cable
        self.wrapper = ["ip", "netns", "exec", self._space]

    def connect(self) -> None:
        """Make this host, and connect it to its network."""
        address = self.address
        _ip("netns", "add", self._space)
        _ip("link", "add", self._plug, "type", "veth", "peer", "eth0", "netns", self._space)
        _ip("link", "set", self._plug, "master", self._network, "up")
        _ip("-n", self._space, "address", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", self._space, "link", "set", "eth0", "up")
        _ip("-n", self._space, "link", "set", "lo", "up")

    def cut(self) -> None:
        """Pull the cable: nothing arrives, and no side is told."""
        _ip("link", "set", self._plug, "down")

    def join(self) -> None:
        """Plug it in again."""
        _ip("link", "set", self._plug, "up")

    def remove(self) -> None:
        """The end of this host; what runs there must have ended."""
        _ip("netns", "delete", self._space)


class Network:
    """A network with this process at its address 1."""

    _count = 0

    def __init__(self) -> None:
        Network._count += 1  # a host may outlive the network of a test that failed
        self._name = f"am{os.getpid()}x{Network._count}"
        self._start = f"10.{64 + os.getpid() % 64}.{Network._count}."
        self._hosts: list[Host] = []

    def host(self) -> Host:
        """A new host."""
        number = len(self._hosts) + 11
        host = Host(self._name, number, f"{self._start}{number}")
        self._hosts.append(host)
        host.connect()
        return host

    def __enter__(self) -> Self:
        _ip("link", "add", self._name, "type", "bridge")
        _ip("address", "add", f"{self._start}1/24", "dev", self._name)
        _ip("link", "set", self._name, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for host in self._hosts:
            with suppress(subprocess.CalledProcessError):
                host.remove()
        _ip("link", "delete", self._name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
