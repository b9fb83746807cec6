"""A real Qdrant server, run from its program in a folder of its own."""

import os
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Self

# With 100,000 memories or hundreds of collections, a start takes long.
STARTUP_SECONDS = 300.0


class QdrantNode:
    """A node with its data in `folder`, during the `with` block."""

    def __init__(self, program: str | Path, folder: Path) -> None:
        self._program, self._folder = Path(program).absolute(), folder
        with (
            socket.create_server(("127.0.0.1", 0)) as a,
            socket.create_server(("127.0.0.1", 0)) as b,
        ):
            http, grpc = (each.getsockname()[1] for each in (a, b))
        self.url = f"http://127.0.0.1:{http}"
        self._settings = {
            "service__host": "127.0.0.1",
            "service__http_port": http,
            "service__grpc_port": grpc,
            "storage__storage_path": folder / "storage",
            "storage__snapshots_path": folder / "snapshots",
            "telemetry_disabled": "true",
        }

    def __enter__(self) -> Self:
        """Raises RuntimeError if it does not become ready."""
        self._folder.mkdir(parents=True, exist_ok=True)
        named = {f"QDRANT__{name.upper()}": str(value) for name, value in self._settings.items()}
        path = self._folder / "log"
        with path.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._program)],
                cwd=self._folder,
                env={**os.environ, **named},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=1):
                    return self
            except OSError:
                time.sleep(0.05)
        self.__exit__()
        raise RuntimeError(f"The server did not start: {path.read_text()[-2000:]}")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(STARTUP_SECONDS)
