// The concept by which those of kernels' problems (gemm_problem.h, attention_problem.h) say what an expression gives.
#pragma once

template <class A, class B>
concept SameType = __is_same(__remove_cvref(A), B);
