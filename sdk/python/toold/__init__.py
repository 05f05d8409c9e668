"""Client and worker of toold, the daemon that runs tools for LLM orchestrators.

    from toold import Client, Worker

toold.aio has the client for asyncio, and toold.reasons an exception for each reason of a refused request. See README.md beside this package.
"""
from . import aio, reasons
from .client import Client, DigestMismatch, Toolset, Turn
from .errors import TooldError
from .turns import Provider, TurnResult, new_turn_id
from .version import __version__
from .worker import Call, CallCancelled, Continue, Fail, LeaseLost, NoInput, NoOperation, NotRun, Question, Worker

__all__ = [
    "Call", "CallCancelled", "Client", "Continue", "DigestMismatch", "Fail", "LeaseLost", "NoInput", "NoOperation", "NotRun", "Provider", "Question",
    "TooldError", "Toolset", "Turn", "TurnResult", "Worker", "__version__", "aio", "new_turn_id", "reasons",
]
