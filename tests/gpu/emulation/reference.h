// What the kernels are to give, on the CPU: reference_ops.cpp asks the operations of shared/ops,
// for the norms LibTorch's; reference_formulas.cpp, in builds without LibTorch, goes through their
// formulas one value at a time.
#pragma once

#include "shared/ops/kernels.h"

namespace retina::emulation {

// Writes all that is an output in kernels.h; of scratch, nothing.
template <class T>
void compute(const kernels::Match<T>& m);
template <class T>
void compute(const kernels::Atss<T>& a);
template <class T>
void compute(const kernels::IgnorePartial<T>& p);
template <class T>
void compute(const kernels::Nms<T>& n);
template <class Stored>
void compute(const kernels::Focal<Stored>& f);
template <class Stored>
void compute(const kernels::BoxLoss<Stored>& b);
void compute(const kernels::PrepareImages& p);
template <class Stored>
void compute(const kernels::Dropout<Stored>& d);
template <class Stored>
void compute(const kernels::BiasRelu<Stored>& b);
template <class Stored>
void compute(const kernels::BiasReluBackward<Stored>& b);
// Not the statistics: an operation keeps them to itself.
template <class Stored>
void compute(const kernels::GroupNormForward<Stored>& f);
// With the statistics of x, whatever it is given.
template <class Stored>
void compute(const kernels::GroupNormBackward<Stored>& b, double eps);

// With the running statistics, not the batch's own.
template <class Stored>
void compute(const kernels::BatchNormForward<Stored>& f);
// With the statistics of x, whatever it is given; `residual` [R, C] where there is an output.
template <class Stored>
void compute(const kernels::BatchNormBackward<Stored>& b, const Stored* residual, double eps);

}  // namespace retina::emulation
