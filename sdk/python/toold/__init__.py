"""Client and worker of toold, the daemon that runs tools for LLM orchestrators.

    from toold import Client, Worker

See README.md beside this package.
"""
from .client import Client, DigestMismatch
from .worker import Call, CallCancelled, Fail, LeaseLost, NotRun, Question, Worker

__all__ = ["Call", "CallCancelled", "Client", "DigestMismatch", "Fail", "LeaseLost", "NotRun", "Question", "Worker"]
