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

const char* launch_kernels(const PrepareImages&, void*) {
  unavailable();
}

#define RETINA_STUB(Arguments, KERNELS)                         \
  template <class Stored>                                       \
  const char* launch_kernels(const Arguments<Stored>&, void*) { \
    unavailable();                                              \
  }                                                             \
  KERNELS(Arguments)

RETINA_STUB(Match, RETINA_WIDE_KERNELS)
RETINA_STUB(Atss, RETINA_WIDE_KERNELS)
RETINA_STUB(IgnorePartial, RETINA_WIDE_KERNELS)
RETINA_STUB(Nms, RETINA_WIDE_KERNELS)
RETINA_STUB(Focal, RETINA_STORED_KERNELS)
RETINA_STUB(BoxLoss, RETINA_STORED_KERNELS)
RETINA_STUB(Dropout, RETINA_STORED_KERNELS)
RETINA_STUB(BiasRelu, RETINA_STORED_KERNELS)
RETINA_STUB(BiasReluBackward, RETINA_STORED_KERNELS)
RETINA_STUB(GroupNormForward, RETINA_STORED_KERNELS)
RETINA_STUB(GroupNormBackward, RETINA_STORED_KERNELS)
RETINA_STUB(BatchNormForward, RETINA_STORED_KERNELS)
RETINA_STUB(BatchNormBackward, RETINA_STORED_KERNELS)

}  // namespace retina::kernels
