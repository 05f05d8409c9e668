"""The inbox of daemon.TestInboxOfSDKs. For each line that it reads, it prints the id of the next call. With the argument `aio`, it uses asyncio."""
import asyncio
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from google.protobuf.field_mask_pb2 import FieldMask

from toold import Client, aio

address, token = sys.argv[1], os.environ["TOOLD_TEST_TOKEN"]
MASK = FieldMask(paths=["call_id"])


async def main():
    async with aio.Client(address, token) as client:
        inbox = client.inbox(read_mask=MASK)
        while await asyncio.to_thread(sys.stdin.readline):
            print((await anext(inbox)).call_id, flush=True)


if sys.argv[2:] == ["aio"]:
    asyncio.run(main())
else:
    inbox = Client(address, token).inbox(read_mask=MASK)
    while sys.stdin.readline():
        print(next(inbox).call_id, flush=True)
