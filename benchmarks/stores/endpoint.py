"""An OpenAI-compatible embeddings service on this machine, for the stores that embed by one.

Prints its port, and ends when its standard input does, so that it cannot outlive who started it.
"""

import base64
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import workload


class Handler(BaseHTTPRequestHandler):
    """Answers any request with the vectors of its texts."""

    protocol_version = "HTTP/1.1"
    # One packet for head and body, sent at once: else the answer waits for the network's timers.
    wbufsize = 65536
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        given, coded = asked["input"], asked.get("encoding_format") == "base64"
        vectors = [workload.vector(each) for each in ([given] if isinstance(given, str) else given)]
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(each).decode() if coded else each.tolist(),
            }
            for index, each in enumerate(vectors)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        answer = {"object": "list", "model": asked["model"], "data": data, "usage": usage}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
