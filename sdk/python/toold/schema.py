"""JSON Schemas of Python functions."""
import collections.abc
import dataclasses
import enum
import inspect
import types
import typing


def of_function(function):
    """Returns the schema of a function's parameters except the first, the call, and a function that builds them from JSON."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    hints = typing.get_type_hints(function, include_extras=True)
    properties, required = {}, []
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TypeError(f"{function.__name__}: *{p.name} has no schema; give parameters=")
        properties[p.name] = of_type(hints.get(p.name, typing.Any))
        if p.default is p.empty:
            required.append(p.name)
        elif p.default is not None and isinstance(p.default, (str, int, float, bool)):
            properties[p.name] = {**properties[p.name], "default": p.default}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required

    def bind(arguments):
        return {name: build(hints.get(name, typing.Any), value) for name, value in arguments.items()}

    return schema, bind


SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def of_type(hint):
    """Returns the schema of a type: a JSON type, a type of typing, a dataclass, an Enum, a TypedDict, or Annotated with a description."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any:
        return {}
    if hint in SIMPLE:
        return {"type": SIMPLE[hint]}
    if origin is typing.Annotated:
        schema = of_type(args[0])
        for note in args[1:]:
            schema = {**schema, **(note if isinstance(note, dict) else {"description": str(note)})}
        return schema
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [of_type(a) for a in args]}
    if hint in (list, tuple) or origin in (list, tuple, collections.abc.Sequence):
        return {"type": "array", **({"items": of_type(args[0])} if args else {})}
    if hint is dict or origin in (dict, collections.abc.Mapping):
        return {"type": "object", **({"additionalProperties": of_type(args[1])} if args else {})}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [m.value for m in hint]}
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        fields = dataclasses.fields(hint)
        required = [f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
        return _object({f.name: hints[f.name] for f in fields}, required)
    if typing.is_typeddict(hint):
        return _object(typing.get_type_hints(hint, include_extras=True), sorted(hint.__required_keys__))
    raise TypeError(f"{hint!r} has no schema; give parameters=")


def _object(hints, required):
    schema = {"type": "object", "properties": {n: of_type(h) for n, h in hints.items()}, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def build(hint, value):
    """Converts a JSON value that matches the schema of a type. It builds dataclasses and Enums, and returns other values unchanged."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return build(args[0], value)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        rest = [a for a in args if a is not type(None)]
        return build(rest[0], value) if len(rest) == 1 else value
    if isinstance(value, list) and args:
        return [build(args[0], v) for v in value]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return hint(**{n: build(hints[n], v) for n, v in value.items()})
    return value
