"""Tests to which addresses a token may be sent, and how an address is parsed."""
import os
import pathlib
import select
import socket
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import grpc  # noqa: E402

from toold import Client, Worker  # noqa: E402
from toold.channel import _target, connect  # noqa: E402

NEAR = ["127.0.0.1:7130", "localhost:7130", "[::1]:7130", "127.9.9.9:1", "unix:/run/toold.sock", "/run/toold.sock", "./toold.sock",
        "http://127.0.0.1:7130", "http://[::1]:7130", "https://toold.example", "https://toold.example:7130"]
FAR = ["toold.example:7130", "10.0.0.5:7130", "http://toold.example:7130", "localhost.example:7130", "127.0.0.1.example:7130", "[2001:db8::1]:7130",
       "dns:///toold.example:7130", "ipv4:10.0.0.5:7130", "0.0.0.0:7130"]


class Channel(unittest.TestCase):
    def test_tokens_stay_on_this_machine(self):
        for address in NEAR:
            Client(address, "secret").close()
        for address in FAR:
            with self.assertRaises(ValueError, msg=address):
                Client(address, "secret")
            with self.assertRaises(ValueError, msg=address):
                Worker("pool", address=address, token="secret").run()
        Client("toold.example:7130").close()
        Client("toold.example:7130", "secret", credentials=grpc.ssl_channel_credentials()).close()

    def test_tokens_pass_no_proxy(self):
        with socket.create_server(("127.0.0.1", 0)) as daemon, socket.create_server(("127.0.0.1", 0)) as proxy:
            with unittest.mock.patch.dict(os.environ, http_proxy=f"http://127.0.0.1:{proxy.getsockname()[1]}", no_proxy="", no_grpc_proxy=""):
                with connect(f"127.0.0.1:{daemon.getsockname()[1]}", token="secret") as channel:
                    channel.subscribe(lambda state: None, try_to_connect=True)
                    ready, _, _ = select.select([daemon, proxy], [], [], 60)
        self.assertEqual(ready, [daemon])

    def test_addresses(self):
        for address, target in {
            "127.0.0.1:7130": "127.0.0.1:7130", "unix:/a": "unix:/a", "/a/b": "unix:/a/b", "http://h:1": "h:1", "http://h/": "h:80", "http://[::1]:2": "[::1]:2",
        }.items():
            self.assertEqual(_target(address, None), (target, None))
        self.assertIsNotNone(_target("https://h", None)[1])
        with self.assertRaisesRegex(ValueError, "no port"):
            Client("127.0.0.1", "secret")
        for address in ("ftp://h", "http://", "http://u:p@h", "http://h/path"):
            with self.assertRaises(ValueError, msg=address):
                _target(address, None)


if __name__ == "__main__":
    unittest.main()
