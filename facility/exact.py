"""Frozen dataclasses to JSON and back without losing a bit.

Floats are written by `repr`, which Python reads back to the same bits; infinities and NaN as text;
arrays as base64 of their little-endian bytes. Reading goes by the type hints of the class.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin

import numpy as np

T = TypeVar("T")


def encode(value: Any) -> Any:
    """A JSON-able image of `value`.

    Raises:
        TypeError: something that is neither data nor a dataclass of data.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Enum):
        return encode(value.value)
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        number = float(value)
        return number if math.isfinite(number) else repr(number)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): encode(v) for k, v in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(encode(v) for v in value)
    if isinstance(value, Sequence):
        return [encode(v) for v in value]
    raise TypeError(f"{type(value).__name__} cannot be recorded")


def _encode_array(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    plain = np.ascontiguousarray(value)
    order = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": plain.dtype.str.lstrip("<>=|"),
        "shape": list(plain.shape),
        "bytes": base64.b64encode(order.tobytes()).decode("ascii"),
    }


def decode_array(data: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """An array as `encode` wrote it; read-only.

    Raises:
        ValueError: the bytes do not fill the shape.
    """
    kind = np.dtype(str(data["dtype"])).newbyteorder("<")
    if kind.kind not in "fiub":
        raise ValueError(f"dtype {data['dtype']!r} is not a number")
    flat = np.frombuffer(base64.b64decode(data["bytes"]), dtype=kind)
    return flat.astype(kind.newbyteorder("=")).reshape([int(n) for n in data["shape"]])


@lru_cache(maxsize=256)
def _hints(cls: type) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


def decode(kind: Any, data: Any) -> Any:
    """The value of type `kind` that `encode` made `data` of.

    Raises:
        TypeError, ValueError, KeyError: `data` is no such value.
    """
    origin = get_origin(kind)
    if kind is Any:
        return data
    if origin is typing.Literal:
        if data not in get_args(kind):
            raise ValueError(f"{data!r} is none of {get_args(kind)}")
        return data
    if origin in (typing.Union, types.UnionType):
        return _decode_union(get_args(kind), data)
    if origin is np.ndarray or kind is np.ndarray:
        return decode_array(data)
    if origin is tuple or (isinstance(kind, type) and issubclass(kind, tuple)):
        return _decode_tuple(kind, origin, data)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        item = get_args(kind)[1]
        return {str(k): decode(item, v) for k, v in data.items()}
    if kind is float:
        return float(data)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        return kind(**{name: decode(hints[name], item) for name, item in data.items()})
    if kind in (int, str, bool, type(None)):
        if not isinstance(data, kind):
            raise TypeError(f"{data!r} is not {kind.__name__}")
        return data
    raise TypeError(f"{kind!r} cannot be read back")


def _decode_union(choices: tuple[Any, ...], data: Any) -> Any:
    if data is None:
        return None
    for choice in choices:
        if choice is not type(None):
            return decode(choice, data)
    raise TypeError(f"{data!r} fits none of {choices!r}")


def _decode_tuple(kind: Any, origin: Any, data: Any) -> Any:
    if origin is None:  # a NamedTuple
        hints = _hints(kind)
        return kind(*(decode(hint, item) for hint, item in zip(hints.values(), data, strict=True)))
    items = get_args(kind)
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(decode(items[0], item) for item in data)
    return tuple(decode(item, x) for item, x in zip(items, data, strict=True))


def dumps(value: Any) -> str:
    """Canonical JSON text of `encode(value)`: sorted keys, no spaces, no NaN literal."""
    return json.dumps(encode(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """sha256 of the canonical text, 32 hex digits: equal values have equal digests."""
    return hashlib.sha256(dumps(value).encode()).hexdigest()[:32]


def shape(*kinds: Any) -> str:
    """A digest of the fields and types of these classes and of all within them, 32 hex digits.

    What `encode` made of a value can be read back as long as the shape is the same.
    """
    told: dict[str, list[str]] = {}
    named = [_tell(kind, told) for kind in kinds]
    return digest({"kinds": named, "fields": told})


def _tell(kind: Any, told: dict[str, list[str]]) -> str:
    """The name of a type; what it consists of is added to `told`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is typing.Literal:
        return f"Literal{list(inner)!r}"
    if origin is np.ndarray:  # how NumPy spells the axes differs between its versions
        return f"ndarray[{_tell(inner[-1], told)}]"
    if origin is not None:
        union = origin in (typing.Union, types.UnionType)
        words = "Union" if union else getattr(origin, "__name__", str(origin))
        return f"{words}[{', '.join(_tell(item, told) for item in inner)}]"
    if not isinstance(kind, type):
        return str(kind)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name not in told and issubclass(kind, Enum):
        told[name] = [f"{item.name}={item.value!r}" for item in kind]
    elif name not in told and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        told[name] = []  # a class may hold itself
        told[name] = [f"{field}: {_tell(hint, told)}" for field, hint in _hints(kind).items()]
    return name
