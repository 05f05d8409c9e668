"""toold works in a process that also loads Google's google/rpc/status.proto, which googleapis-common-protos and grpcio-status contain."""
import pathlib
import subprocess
import sys
import unittest

# Google's file has options that ours lacks, such as objc_class_prefix and cc_enable_arenas.
GOOGLES = """
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool
f = descriptor_pb2.FileDescriptorProto(name="google/rpc/status.proto", package="google.rpc", syntax="proto3", dependency=["google/protobuf/any.proto"])
f.options.cc_enable_arenas, f.options.objc_class_prefix = True, "RPC"
m = f.message_type.add(name="Status")
for i, (name, kind, label, of) in enumerate([("code", 5, 1, ""), ("message", 9, 1, ""), ("details", 11, 3, ".google.protobuf.Any")]):
    m.field.add(name=name, json_name=name, number=i + 1, type=kind, label=label, type_name=of or None)
descriptor_pool.Default().AddSerializedFile(f.SerializeToString())
"""
OURS = """
import toold
from toold.v1 import call_service_pb2 as pb
"""
USE = """
status = pb.SessionResponse.DESCRIPTOR.file.message_types_by_name
assert any(f.message_type and f.message_type.name == "Status" for m in status.values() for f in m.fields), "nothing has a status"
"""


class BesideGoogle(unittest.TestCase):
    def test_both_orders(self):
        root = str(pathlib.Path(__file__).parent.parent)
        for program in (GOOGLES + OURS + USE, OURS + GOOGLES + USE):
            done = subprocess.run([sys.executable, "-B", "-c", program], env={"PYTHONPATH": root}, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
