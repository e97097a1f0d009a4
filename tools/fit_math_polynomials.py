#!/usr/bin/env python3
"""Prints the polynomial coefficients of causeway/kernels/math.h, fitted from their definitions.

    pip install numpy mpmath
    python3 tools/fit_math_polynomials.py

Each fit minimises the largest weighted error over a dense set of Chebyshev nodes: Lawson's iteration, least squares
whose weights are multiplied by the error until it is level. Coefficients are rounded to float one at a time from the
lowest power, the rest being fitted again after each, so that rounding one is made up for by the others. The error
printed is that of the rounded coefficients in exact arithmetic, in units of 2^-24 of the result.
"""
import mpmath
import numpy as np

mpmath.mp.dps = 40
NODES = 1200
ITERATIONS = 300


def chebyshev_nodes(low, high):
    angles = np.pi * (np.arange(NODES) + 0.5) / NODES
    return 0.5 * (low + high) + 0.5 * (high - low) * np.cos(angles)


def evaluate(function, points):
    return np.array([float(function(mpmath.mpf(float(x)))) for x in points])


def lawson(basis, target, weight):
    """Coefficients c minimising max |weight * (basis @ c - target)|."""
    scale = np.abs(basis).max(axis=0)
    basis = basis / scale
    importance = np.ones(len(target))
    best, best_error = None, np.inf
    for _ in range(ITERATIONS):
        rows = np.sqrt(importance) * weight
        c = np.linalg.lstsq(basis * rows[:, None], target * rows, rcond=None)[0]
        error = np.abs(weight * (basis @ c - target))
        if error.max() < best_error:
            best, best_error = c, error.max()
        importance *= error / error.max() + 1e-3
        importance /= importance.sum()
    return best / scale


def fit(name, low, high, target, weight, powers, exact=(), wide=0):
    """sum c_k x^powers[k] ~ target(x) on [low, high]. `exact` fixes the first coefficients; the first `wide` of the
    others are kept in double."""
    x = chebyshev_nodes(low, high)
    values, weights = evaluate(target, x), evaluate(weight, x)
    basis = np.stack([x**p for p in powers], axis=1)
    known = list(exact)
    rest = values - basis[:, :len(known)] @ np.array(known)
    while len(known) < len(powers):
        c = lawson(basis[:, len(known):], rest, weights)
        k = len(known)
        known.append(float(c[0]) if k < wide else float(np.float32(c[0])))
        rest = rest - basis[:, k] * known[k]
    report(name, powers, known, np.abs(weights * rest).max(), wide)
    return known


def report(name, powers, coefficients, error, wide=0):
    print(f"{name}: error {error * 2**24:.2g}")
    for k, (power, c) in enumerate(zip(powers, coefficients)):
        print(f"  x^{power:<2d} {c:.17g}" if k < wide else f"  x^{power:<2d} {np.float32(c):.9g}f")


def main():
    log2_e = 1 / mpmath.log(2)

    # 2^f = 1 + f q(f).
    fit("exp2: q", -1, 1, lambda f: mpmath.expm1(f / log2_e) / f, lambda f: f / mpmath.power(2, f), range(7))
    # 2^f - 1 = ln(2) f + f^2 q(f), relative to itself.
    ln2 = float(np.float32(np.log(2)))
    fit("exp2 - 1: ln(2), q", -0.5, 0.5, lambda f: mpmath.expm1(f / log2_e) / f,
        lambda f: f / mpmath.expm1(f / log2_e), range(6), exact=[ln2])
    # (exp(2 f) - 1) / 2 = f + f^2 q(f), relative to itself, on [-ln(2) / 4, ln(2) / 4].
    fit("half expm1: 1, q", -0.1734, 0.1734, lambda f: mpmath.expm1(2 * f) / (2 * f),
        lambda f: 2 * f / mpmath.expm1(2 * f), range(6), exact=[1.0])
    # log2(1 + t) = t q(t).
    for name, terms, wide in (("log2: q", 10, 0), ("pow: q", 13, 4)):
        fit(name, -1 / 3, 1 / 3, lambda t: mpmath.log1p(t) * log2_e / t, lambda t: t / (mpmath.log1p(t) * log2_e),
            range(terms), wide=wide)
    # With z = r^2: sin(r) = r + r z S(z), cos(r) = 1 - z / 2 + z^2 C(z).
    quarter = 0.79**2
    r = mpmath.sqrt
    fit("sin: S", 0, quarter, lambda z: (mpmath.sin(r(z)) - r(z)) / (z * r(z)),
        lambda z: z * r(z) / mpmath.sin(r(z)), range(3))
    fit("cos: C", 0, quarter, lambda z: (mpmath.cos(r(z)) - 1 + z / 2) / z**2,
        lambda z: z**2 / mpmath.cos(r(z)), range(3))
    # erf(a) = 1 - 2^(a G(a)): the error of the exponent matters as its effect on erf.
    fit("erf: G", 0, 4, lambda a: mpmath.log(mpmath.erfc(a)) * log2_e / a,
        lambda a: a * mpmath.erfc(a) / log2_e / mpmath.erf(a), range(9))
    # 1 + erf: its effect on erfc, which is 0 to float beyond 5 for any exponent that goes on falling.
    fit("1 + erf: G", 0, 5, lambda a: mpmath.log(mpmath.erfc(a)) * log2_e / a,
        lambda a: a * mpmath.erfc(a) / log2_e, range(8))


if __name__ == "__main__":
    main()
