"""Client and worker of toold, the daemon that runs tools for LLM orchestrators.

    from toold import Client, Worker

See README.md beside this package.
"""
from .client import Client, DigestMismatch
from .worker import Call, CallCancelled, Continue, Fail, LeaseLost, NoInput, NoOperation, NotRun, Question, Worker

__all__ = [
    "Call", "CallCancelled", "Client", "Continue", "DigestMismatch", "Fail", "LeaseLost", "NoInput", "NoOperation", "NotRun", "Question", "Worker",
]
