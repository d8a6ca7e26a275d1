# expect: completed record=ReturnedValue | run: network=allowlist policy=observe
# What tests of adapters do: serve on loopback and ask oneself, past the proxy.
import asyncio
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"well")

    def log_message(self, *arguments):
        pass


async def echo():
    async def serve(reader, writer):
        writer.write(await reader.read(10))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"echo")
    answer = await reader.read()
    writer.close()
    server.close()
    return answer


def extract(path):
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/", timeout=3) as answer:
        said = answer.read()
    server.shutdown()
    server.server_close()
    return {"escaped": [] if (said, asyncio.run(echo())) == (b"well", b"echo") else ["not well"]}
