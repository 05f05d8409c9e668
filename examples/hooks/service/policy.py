#!/usr/bin/python3
"""The same HookService in Python. It also removes mail addresses from results.

    apt install python3-grpcio protobuf-compiler protobuf-compiler-grpc libprotobuf-dev; mkdir gen
    protoc -I proto --python_out=gen --grpc_out=gen --plugin=protoc-gen-grpc=$(which grpc_python_plugin) proto/toold/v1/*.proto
    PYTHONPATH=gen examples/hooks/service/policy.py /run/policy.sock
"""
import concurrent.futures
import re
import sys

import grpc
from toold.v1 import assessment_pb2, hook_service_pb2 as hook, hook_service_pb2_grpc, principal_pb2

MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")


class Policy(hook_service_pb2_grpc.HookServiceServicer):
    """Implements two kinds of hooks and leaves the others unimplemented."""

    def Gate(self, request, context):  # no side effects: toold may ask twice, and also when no call will run
        call = request.input
        destroys = call.assessment.safety == assessment_pb2.SAFETY_DESTRUCTIVE
        if destroys and principal_pb2.ROLE_OPERATOR not in call.caller.roles:
            reason = f"{call.tool} would destroy something: only an operator may do that"
            return hook.GateResponse(deny=hook.GateDeny(reason=reason))
        return hook.GateResponse(allow=hook.GateAllow())

    def After(self, request, context):
        was = request.outcome.result
        if not MAIL.search(was.data + was.message + was.error.message):
            return hook.AfterResponse()  # leaves the result unchanged
        result = hook.HookResult(data=MAIL.sub("***", was.data), message=MAIL.sub("***", was.message), metadata=was.metadata)
        result.content.extend(was.content)
        if was.HasField("error"):
            result.error.message = MAIL.sub("***", was.error.message)
        return hook.AfterResponse(result=result)


server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
hook_service_pb2_grpc.add_HookServiceServicer_to_server(Policy(), server)
server.add_insecure_port("unix:" + sys.argv[1])
server.start()
server.wait_for_termination()
