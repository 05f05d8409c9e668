"""The connection to a daemon."""
from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable
from typing import Any, Union
from urllib.parse import urlsplit

import grpc

# A token, or a function that returns the token for each request. The function is for tokens that expire.
Token = Union[str, Callable[[], str]]

OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
]


def connect(address: str, credentials: grpc.ChannelCredentials | None = None, token: Token = "", module: Any = grpc) -> Any:
    """Returns a channel of `module` (grpc or grpc.aio) to host:port, the path of a socket (also as unix:/path), or an http:// or https:// URL.

    `credentials` are grpc.ssl_channel_credentials(...). None means no TLS, except for https://, which then uses grpc's default
    certificates. Without TLS, a token is sent only to this machine; for other addresses connect raises ValueError.
    """
    target, credentials = _target(address, credentials)
    if credentials is not None:
        return module.secure_channel(target, credentials, options=OPTIONS)
    if token and not _local(target):
        raise ValueError(f"the token would be sent to {target} unencrypted; use https:// or credentials=grpc.ssl_channel_credentials(...)")
    # Without TLS, do not use a proxy from the environment (http_proxy): it could read the token.
    return module.insecure_channel(target, options=[*OPTIONS, ("grpc.enable_http_proxy", 0 if token else 1)])


def _target(address: str, credentials: grpc.ChannelCredentials | None) -> tuple[str, grpc.ChannelCredentials | None]:
    """Returns the address in the form that grpc accepts, and the credentials for it."""
    if address.startswith(("unix:", "unix-abstract:", "dns:")):
        return address, credentials
    if ":" not in address and "/" not in address:
        raise ValueError(f"the address {address!r} has no port; give host:port or the path of a socket")
    if "://" not in address:
        return ("unix:" + os.path.abspath(address) if "/" in address else address), credentials
    url = urlsplit(address)
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.path not in ("", "/") or url.query or url.fragment:
        raise ValueError(f"{address} is not host:port, the path of a socket, http://host:port or https://host:port")
    if url.scheme == "https" and credentials is None:
        credentials = grpc.ssl_channel_credentials()
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return f"{host}:{url.port or (443 if url.scheme == 'https' else 80)}", credentials


def _local(target: str) -> bool:
    """Reports whether a connection to the target stays on this machine."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    host = target.rpartition(":")[0].strip("[]")
    if host.lower() == "localhost":
        return True
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def metadata(token: Token) -> list[tuple[str, str]]:
    token = token() if callable(token) else token
    return [("authorization", "Bearer " + token.strip())] if token else []
