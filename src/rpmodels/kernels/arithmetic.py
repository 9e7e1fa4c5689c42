"""exp and log for loops over arrays: plain arithmetic, which the compiler turns into vector instructions.

Those of the C library are calls, one number at a time: a loop that has one is no vector loop any more. Both are within
a few units of the last place; an exp below the smallest normal number is zero.
"""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic, overload


def plain(function: Any) -> Any:
    """Compiled, and kept on disk; a product and a sum may be one instruction, nothing else is relaxed."""
    return njit(cache=True, error_model="numpy", nogil=True, fastmath={"contract"})(function)


def summing(function: Any) -> Any:
    """The same for loops that only add: in whatever order."""
    return njit(cache=True, error_model="numpy", nogil=True, fastmath={"contract", "reassoc"})(function)


@intrinsic  # type: ignore[untyped-decorator]
def _bits(typing: Any, x: Any) -> Any:
    """The same bits as a whole number."""
    whole = types.int32 if x == types.float32 else types.int64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return whole(x), generate


@intrinsic  # type: ignore[untyped-decorator]
def _number(typing: Any, bits: Any) -> Any:
    """The same bits as a floating-point number."""
    real = types.float32 if bits == types.int32 else types.float64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return real(bits), generate


def exp(x: Any) -> Any:
    """eˣ."""
    raise NotImplementedError("for compiled code")


def log(x: Any) -> Any:
    """The natural logarithm; not a number for x < 0."""
    raise NotImplementedError("for compiled code")


@plain
def _exp_of_float(x: Any) -> Any:
    """2ⁿ eʳ with n the whole number next to x/ln 2; where n is, adding 1.5·2²³ has put it into the last bits."""
    f, i = np.float32, np.int32
    shifted = x * f(1.4426950408889634) + f(12582912.0)
    n = shifted - f(12582912.0)
    r = (x - n * f(0.693359375)) + n * f(2.12194440e-4)
    e = f(1 / 5040)
    e = e * r + f(1 / 720)
    e = e * r + f(1 / 120)
    e = e * r + f(1 / 24)
    e = e * r + f(1 / 6)
    e = e * r + f(0.5)
    e = e * r + f(1.0)
    e = e * r + f(1.0)
    power = _number(i((_bits(shifted) - i(0x4B400000 - 127)) << i(23)))
    value = e * power
    value = f(0.0) if x < f(-87.0) else value
    return f(np.inf) if x > f(88.0) else value


@plain
def _exp_of_double(x: Any) -> Any:
    """The same in double precision."""
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = (x - n * 0.693145751953125) - n * 1.42860682030941723212e-6
    e = 1 / 6227020800
    e = e * r + 1 / 479001600
    e = e * r + 1 / 39916800
    e = e * r + 1 / 3628800
    e = e * r + 1 / 362880
    e = e * r + 1 / 40320
    e = e * r + 1 / 5040
    e = e * r + 1 / 720
    e = e * r + 1 / 120
    e = e * r + 1 / 24
    e = e * r + 1 / 6
    e = e * r + 0.5
    e = e * r + 1.0
    e = e * r + 1.0
    power = _number((_bits(shifted) - np.int64(0x4338000000000000 - 1023)) << np.int64(52))
    value = e * power
    value = 0.0 if x < -708.0 else value
    return np.inf if x > 709.0 else value


@plain
def _log_of_float(x: Any) -> Any:
    """n ln 2 + log m with m between √½ and √2, by the series of the inverse hyperbolic tangent of (m − 1)/(m + 1)."""
    f, i = np.float32, np.int32
    offset = i(_bits(x) - i(0x3F3504F3))
    n = f(i(offset >> i(23)))
    m = _number(i((offset & i(0x7FFFFF)) + i(0x3F3504F3)))
    s = (m - f(1.0)) / (m + f(1.0))
    q = s * s
    p = f(2 / 11)
    p = p * q + f(2 / 9)
    p = p * q + f(2 / 7)
    p = p * q + f(2 / 5)
    p = p * q + f(2 / 3)
    value = n * f(0.693359375) + ((s * q * p - n * f(2.12194440e-4)) + f(2.0) * s)
    value = f(np.inf) if x > f(3.4028235e38) else value
    value = f(-np.inf) if x == f(0.0) else value
    return value if x >= f(0.0) else f(np.nan)


@plain
def _log_of_double(x: Any) -> Any:
    """The same in double precision."""
    offset = _bits(x) - np.int64(0x3FE6A09E667F3BCD)
    n = np.float64(np.int64(offset >> np.int64(52)))
    m = _number((offset & np.int64(0xFFFFFFFFFFFFF)) + np.int64(0x3FE6A09E667F3BCD))
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    p = 2 / 21
    p = p * q + 2 / 19
    p = p * q + 2 / 17
    p = p * q + 2 / 15
    p = p * q + 2 / 13
    p = p * q + 2 / 11
    p = p * q + 2 / 9
    p = p * q + 2 / 7
    p = p * q + 2 / 5
    p = p * q + 2 / 3
    value = n * 0.693145751953125 + ((s * q * p + n * 1.42860682030941723212e-6) + 2.0 * s)
    value = np.inf if x > 1.7976931348623157e308 else value
    value = -np.inf if x == 0.0 else value
    return value if x >= 0.0 else np.nan


@overload(exp)  # type: ignore[untyped-decorator]
def _choose_exp(x: Any) -> Any:
    def of_float(x: Any) -> Any:
        return _exp_of_float(x)

    def of_double(x: Any) -> Any:
        return _exp_of_double(x)

    return of_float if x == types.float32 else of_double


@overload(log)  # type: ignore[untyped-decorator]
def _choose_log(x: Any) -> Any:
    def of_float(x: Any) -> Any:
        return _log_of_float(x)

    def of_double(x: Any) -> Any:
        return _log_of_double(x)

    return of_float if x == types.float32 else of_double
