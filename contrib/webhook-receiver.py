#!/usr/bin/env python3
"""Receives the webhooks of Understudy and prints each message once: an example to begin with (docs/hooks.md).

usage: webhook-receiver.py ADDRESS PORT SECRET_FILE [PEM_FILE_WITH_CERTIFICATE_AND_KEY]"""
import hmac
import json
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# Older calls may be somebody's who has recorded them.
AGE_MAX_S = 300
BODY_BYTES_MAX = 1 << 20
IDS_MAX = 10_000
secret = Path(sys.argv[3]).read_text().strip().encode()
seen = {}


class Webhook(BaseHTTPRequestHandler):
    # Whoever sends nothing is not waited for.
    timeout = 10

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if not 0 <= length <= BODY_BYTES_MAX:
            return self.reply(413)
        body = self.rfile.read(length)
        at = self.headers.get("X-Understudy-Timestamp", "")
        wanted = "v1=" + hmac.new(secret, at.encode() + b"." + body, "sha256").hexdigest()
        is_ours = hmac.compare_digest(wanted, self.headers.get("X-Understudy-Signature", ""))
        if not is_ours or abs(time.time() - int(at)) > AGE_MAX_S:
            return self.reply(403)
        # A call whose answer was lost is made again, with the same id.
        number = json.loads(body)["id"]
        if number not in seen:
            seen[number] = at
            if len(seen) > IDS_MAX:
                del seen[next(iter(seen))]
            print(body.decode(), flush=True)
        self.reply(204)

    def reply(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Webhook)
if len(sys.argv) > 4:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[4])
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
