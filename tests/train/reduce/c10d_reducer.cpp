#include "tests/train/reduce/c10d_reducer.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shared/base/error.h"

namespace retina {
namespace {

// What was done when it was asked for.
class DoneWork : public c10d::Work {
 public:
  explicit DoneWork(std::vector<at::Tensor> tensors)
      : future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {
    future_->markCompleted(c10::IValue(std::move(tensors)));
  }
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// The wheel has no process group that compiles from its headers: this one is the project's ranks.
class RankBackend : public c10d::Backend {
 public:
  explicit RankBackend(Communicator& communicator)
      : Backend(communicator.rank(), communicator.size()), communicator_(communicator) {}

  const std::string getBackendName() const override { return "ranks"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    RETINA_CHECK(options.reduceOp == c10d::ReduceOp::SUM);
    for (const at::Tensor& tensor : tensors) {
      communicator_.all_reduce(tensor.data_ptr(), count_of(tensor), type_of(tensor),
                               retina::ReduceOp::kSum);
    }
    return c10::make_intrusive<DoneWork>(tensors);
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    for (const at::Tensor& tensor : tensors) {
      communicator_.broadcast(tensor.data_ptr(), count_of(tensor) * tensor.element_size(),
                              ElementType::kUint8, static_cast<int>(options.rootRank));
    }
    return c10::make_intrusive<DoneWork>(tensors);
  }

 private:
  static std::size_t count_of(const at::Tensor& tensor) {
    RETINA_CHECK(tensor.is_non_overlapping_and_dense() && tensor.is_cpu());
    return static_cast<std::size_t>(tensor.numel());
  }
  static ElementType type_of(const at::Tensor& tensor) {
    RETINA_CHECK(tensor.scalar_type() == at::kDouble);
    return ElementType::kFloat64;
  }

  Communicator& communicator_;
};

}  // namespace

void reduce_by_c10d(
    RetinaNet& model, std::size_t bucket_bytes, Communicator& communicator,
    const std::function<void(const std::function<void(const std::vector<at::Tensor>&)>&)>& passes) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(communicator.rank(), communicator.size());
  group->setBackend(c10::kCPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<RankBackend>(communicator));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);

  std::vector<at::Tensor> parameters;
  std::unordered_map<std::size_t, std::string> names;
  for (const auto& [name, tensor] : state_of(model)) {
    if (!tensor.requires_grad()) continue;
    names[parameters.size()] = name;
    parameters.push_back(tensor);
  }
  const auto buckets =
      std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, {bucket_bytes}));
  const auto cap = static_cast<std::int64_t>(bucket_bytes);
  c10d::Reducer reducer(parameters, {buckets.rbegin(), buckets.rend()}, group,
                        std::vector<bool>(parameters.size(), false), cap,
                        /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/false, names,
                        cap, /*skip_all_reduce_unused_params=*/false,
                        /*use_python_reducer=*/false, /*bucket_bytes_cap_list=*/{});
  reducer.prepare_for_forward();
  passes([&](const std::vector<at::Tensor>& outputs) { reducer.prepare_for_backward(outputs); });
}

}  // namespace retina
