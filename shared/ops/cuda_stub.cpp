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

template <class T>
const char* match_cuda(const Match<T>&, void*) {
  unavailable();
}
template <class T>
const char* atss_cuda(const Atss<T>&, void*) {
  unavailable();
}
template <class T>
const char* ignore_partial_cuda(const IgnorePartial<T>&, void*) {
  unavailable();
}
template <class T>
const char* nms_cuda(const Nms<T>&, void*) {
  unavailable();
}
template <class Stored>
const char* focal_cuda(const Focal<Stored>&, void*) {
  unavailable();
}
template <class Stored>
const char* box_loss_cuda(const BoxLoss<Stored>&, void*) {
  unavailable();
}
const char* prepare_images_cuda(const PrepareImages&, void*) {
  unavailable();
}
template <class Stored>
const char* dropout_cuda(const Dropout<Stored>&, void*) {
  unavailable();
}
template <class Stored>
const char* bias_relu_cuda(const BiasRelu<Stored>&, void*) {
  unavailable();
}
template <class Stored>
const char* bias_relu_backward_cuda(const BiasReluBackward<Stored>&, void*) {
  unavailable();
}
template <class Stored>
const char* group_norm_forward_cuda(const GroupNormForward<Stored>&, void*) {
  unavailable();
}
template <class Stored>
const char* group_norm_backward_cuda(const GroupNormBackward<Stored>&, void*) {
  unavailable();
}
template <class Stored>
const char* batch_norm_forward_cuda(const BatchNormForward<Stored>&, void*) {
  unavailable();
}
template <class Stored>
const char* batch_norm_backward_cuda(const BatchNormBackward<Stored>&, void*) {
  unavailable();
}

template const char* match_cuda(const Match<float>&, void*);
template const char* match_cuda(const Match<double>&, void*);
template const char* atss_cuda(const Atss<float>&, void*);
template const char* atss_cuda(const Atss<double>&, void*);
template const char* ignore_partial_cuda(const IgnorePartial<float>&, void*);
template const char* ignore_partial_cuda(const IgnorePartial<double>&, void*);
template const char* nms_cuda(const Nms<float>&, void*);
template const char* nms_cuda(const Nms<double>&, void*);
template const char* focal_cuda(const Focal<float>&, void*);
template const char* focal_cuda(const Focal<double>&, void*);
template const char* focal_cuda(const Focal<Bfloat16>&, void*);
template const char* focal_cuda(const Focal<Float16>&, void*);
template const char* box_loss_cuda(const BoxLoss<float>&, void*);
template const char* box_loss_cuda(const BoxLoss<double>&, void*);
template const char* box_loss_cuda(const BoxLoss<Bfloat16>&, void*);
template const char* box_loss_cuda(const BoxLoss<Float16>&, void*);
template const char* dropout_cuda(const Dropout<float>&, void*);
template const char* dropout_cuda(const Dropout<double>&, void*);
template const char* dropout_cuda(const Dropout<Bfloat16>&, void*);
template const char* dropout_cuda(const Dropout<Float16>&, void*);
template const char* bias_relu_cuda(const BiasRelu<float>&, void*);
template const char* bias_relu_cuda(const BiasRelu<double>&, void*);
template const char* bias_relu_cuda(const BiasRelu<Bfloat16>&, void*);
template const char* bias_relu_cuda(const BiasRelu<Float16>&, void*);
template const char* bias_relu_backward_cuda(const BiasReluBackward<float>&, void*);
template const char* bias_relu_backward_cuda(const BiasReluBackward<double>&, void*);
template const char* bias_relu_backward_cuda(const BiasReluBackward<Bfloat16>&, void*);
template const char* bias_relu_backward_cuda(const BiasReluBackward<Float16>&, void*);
template const char* group_norm_forward_cuda(const GroupNormForward<float>&, void*);
template const char* group_norm_forward_cuda(const GroupNormForward<double>&, void*);
template const char* group_norm_forward_cuda(const GroupNormForward<Bfloat16>&, void*);
template const char* group_norm_forward_cuda(const GroupNormForward<Float16>&, void*);
template const char* group_norm_backward_cuda(const GroupNormBackward<float>&, void*);
template const char* group_norm_backward_cuda(const GroupNormBackward<double>&, void*);
template const char* group_norm_backward_cuda(const GroupNormBackward<Bfloat16>&, void*);
template const char* group_norm_backward_cuda(const GroupNormBackward<Float16>&, void*);
template const char* batch_norm_forward_cuda(const BatchNormForward<float>&, void*);
template const char* batch_norm_forward_cuda(const BatchNormForward<double>&, void*);
template const char* batch_norm_forward_cuda(const BatchNormForward<Bfloat16>&, void*);
template const char* batch_norm_forward_cuda(const BatchNormForward<Float16>&, void*);
template const char* batch_norm_backward_cuda(const BatchNormBackward<float>&, void*);
template const char* batch_norm_backward_cuda(const BatchNormBackward<double>&, void*);
template const char* batch_norm_backward_cuda(const BatchNormBackward<Bfloat16>&, void*);
template const char* batch_norm_backward_cuda(const BatchNormBackward<Float16>&, void*);

}  // namespace retina::kernels
