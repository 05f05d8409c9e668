"""The way to a daemon."""
import grpc

OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
]


def connect(address, credentials=None):
    """A channel to host:port or unix:/path. Credentials are grpc.ssl_channel_credentials(...); None is without TLS."""
    if credentials is None:
        return grpc.insecure_channel(address, options=OPTIONS)
    return grpc.secure_channel(address, credentials, options=OPTIONS)


def metadata(token):
    return [("authorization", "Bearer " + token.strip())] if token else []
