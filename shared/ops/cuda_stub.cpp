// The CUDA kernels in a build without CUDA.
#include "shared/base/error.h"
#include "shared/ops/kernels.h"

namespace retina::kernels {
namespace {

[[noreturn]] void unavailable() {
  throw Error(ErrorKind::kUnavailable, "CUDA: this program was built without it",
              "build on a machine with a CUDA toolkit, or run with --device cpu");
}

}  // namespace

const char* prepare_images_cuda(const PrepareImages&, void*) {
  unavailable();
}

// A kernel of f32 and f64, and of the 16-bit types, too.
#define RETINA_STUB(kernel, Arguments)                         \
  template <class T>                                           \
  const char* kernel(const Arguments<T>&, void*) {             \
    unavailable();                                             \
  }                                                            \
  template const char* kernel(const Arguments<float>&, void*); \
  template const char* kernel(const Arguments<double>&, void*);
#define RETINA_STORED_STUB(kernel, Arguments)                     \
  RETINA_STUB(kernel, Arguments)                                  \
  template const char* kernel(const Arguments<Bfloat16>&, void*); \
  template const char* kernel(const Arguments<Float16>&, void*);

RETINA_STUB(match_cuda, Match)
RETINA_STUB(atss_cuda, Atss)
RETINA_STUB(ignore_partial_cuda, IgnorePartial)
RETINA_STUB(nms_cuda, Nms)
RETINA_STORED_STUB(focal_cuda, Focal)
RETINA_STORED_STUB(box_loss_cuda, BoxLoss)
RETINA_STORED_STUB(dropout_cuda, Dropout)
RETINA_STORED_STUB(bias_relu_cuda, BiasRelu)
RETINA_STORED_STUB(bias_relu_backward_cuda, BiasReluBackward)
RETINA_STORED_STUB(group_norm_forward_cuda, GroupNormForward)
RETINA_STORED_STUB(group_norm_backward_cuda, GroupNormBackward)
RETINA_STORED_STUB(batch_norm_forward_cuda, BatchNormForward)
RETINA_STORED_STUB(batch_norm_backward_cuda, BatchNormBackward)

}  // namespace retina::kernels
