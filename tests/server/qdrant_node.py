"""A real Qdrant server, run from its program in a folder of its own."""

import os
import random
import signal
import socket
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Self

# With 100,000 memories or hundreds of collections, a start takes long.
STARTUP_SECONDS = 300.0


class QdrantNode:
    """A node with its data in `folder`; `settings` are Qdrant's own, such as `service__api_key`."""

    def __init__(self, program: str | Path, folder: Path, **settings: object) -> None:
        self.folder = folder
        self.log = folder / "log"
        http, grpc = _free_ports()
        self.url = f"http://127.0.0.1:{http}"
        self._command = [str(Path(program).absolute())]
        self._settings = {
            "service__host": "127.0.0.1",
            "service__http_port": http,
            "service__grpc_port": grpc,
            "storage__storage_path": folder / "storage",
            "storage__snapshots_path": folder / "snapshots",
            "telemetry_disabled": "true",
            **settings,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run the server on what the folder holds, and wait until it is ready.

        Raises RuntimeError if it does not become so.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        named = {f"QDRANT__{name.upper()}": str(value) for name, value in self._settings.items()}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env={**os.environ, **named},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        self.stop(signal.SIGKILL)
        raise RuntimeError(f"The server did not start: {self.log.read_text()[-2000:]}")

    def stop(self, signal_number: int = signal.SIGTERM) -> None:
        """End the server with this signal, if it runs, and wait for its end."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal_number)
            self.process.wait(STARTUP_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGKILL)


def _free_ports() -> list[int]:
    # Not those that the system gives to clients: one could be taken while the server is down.
    ports: list[int] = []
    while len(ports) < 2:
        port = random.randrange(20_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(port)
    return ports
