"""Methods of clients made from the table of calls: signature, defaults and documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from phalanx.service.calls.call_table import CALLS, CallSpec
from phalanx.service.rules.rule_syntax import Condition, print_selector

CALL_SECONDS = 10.0
Method = TypeVar("Method", bound=Callable[..., Any])


class AsyncCaller(Protocol):
    def call(
        self, name: str, arguments: dict[str, Any], timeout: float = ...
    ) -> Coroutine[Any, Any, dict[str, Any]]: ...


class BlockingCaller(Protocol):
    def call(
        self, name: str, arguments: dict[str, Any], timeout: float = ...
    ) -> dict[str, Any]: ...


def asyncio_method(name: str) -> Callable[..., Coroutine[Any, Any, dict[str, Any]]]:
    """The method of a call for a class with a coroutine `call`."""
    signature = _signature(CALLS[name])

    def method(
        client: AsyncCaller, *given: Any, **named: Any
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        arguments, timeout = _bound(signature, client, given, named)
        return client.call(name, arguments, timeout)

    return _documented(method, CALLS[name], signature)


def blocking_method(name: str) -> Callable[..., dict[str, Any]]:
    """The method of a call for a class with a function `call`."""
    signature = _signature(CALLS[name])

    def method(client: BlockingCaller, *given: Any, **named: Any) -> dict[str, Any]:
        arguments, timeout = _bound(signature, client, given, named)
        return client.call(name, arguments, timeout)

    return _documented(method, CALLS[name], signature)


def with_selectors_as_text(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as they travel: a selector may be given as a `Condition`, or as several."""
    out = dict(arguments)
    for key in ("selector", "by"):
        value = out.get(key)
        conditions = (value,) if isinstance(value, Condition) else value
        if isinstance(conditions, tuple | list) and conditions:
            if all(isinstance(each, Condition) for each in conditions):
                out[key] = print_selector(tuple(conditions))
    return out


def _signature(spec: CallSpec) -> inspect.Signature:
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter("self", positional)]
    parameters += [
        inspect.Parameter(a.name, positional, default=inspect.Parameter.empty)
        if a.required
        else inspect.Parameter(a.name, positional, default=a.default)
        for a in spec.arguments
    ]
    timeout = inspect.Parameter("timeout", inspect.Parameter.KEYWORD_ONLY, default=CALL_SECONDS)
    return inspect.Signature([*parameters, timeout])


def _bound(
    signature: inspect.Signature, client: object, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[dict[str, Any], float]:
    """The arguments that were given, by name, and the time-out."""
    arguments = dict(signature.bind(client, *given, **named).arguments)
    del arguments["self"]
    return arguments, arguments.pop("timeout", CALL_SECONDS)


def _documented(method: Method, spec: CallSpec, signature: inspect.Signature) -> Method:
    lines = [spec.meaning, ""]
    lines += [f"{a.name}: {a.meaning}" for a in spec.arguments]
    errors = f"Errors: {', '.join(spec.errors)}." if spec.errors else ""
    lines += ["", f"Returns {', '.join(spec.result)}. {errors}".strip()]
    vars(method)["__signature__"] = signature
    method.__name__ = method.__qualname__ = spec.name
    method.__doc__ = "\n".join(lines)
    return method
