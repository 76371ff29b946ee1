// Marks functions that CPUs and GPUs share. nvcc reads their headers too: C++17, no std:: beyond
// <cmath>.
#pragma once

#ifdef __CUDACC__
#define RETINA_HOST_DEVICE __host__ __device__ inline
#else
#define RETINA_HOST_DEVICE inline
#endif
