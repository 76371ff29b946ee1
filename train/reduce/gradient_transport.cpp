#include "train/reduce/gradient_transport.h"

#include "shared/base/error.h"
#include "train/reduce/nccl_communicator.h"

namespace retina {
namespace {

class HostTransport : public GradientTransport {
 public:
  HostTransport(Communicator& communicator, const WireOptions& wire)
      : communicator_(communicator), ordered_(wire.ordered), wire_(communicator, wire) {}

  void sum(at::Tensor bucket, std::size_t number) override {
    const std::string name = cat("bucket ", number);
    const at::Tensor host = bucket.cpu();  // the bucket itself on the CPU
    const auto count = static_cast<std::size_t>(host.numel());
    if (host.scalar_type() == at::kFloat) {
      wire_.sum(host.mutable_data_ptr<float>(), count, name);
    } else {
      RETINA_CHECK(host.scalar_type() == at::kDouble, at::toString(host.scalar_type()));
      wire_.sum(host.mutable_data_ptr<double>(), count, name);
    }
    if (!host.is_same(bucket)) bucket.copy_(host);
  }

  OperationStats traffic() const override {
    const CommStats& stats = communicator_.stats();
    return ordered_ ? stats.all_reduce_ordered : stats.all_reduce;
  }

  std::int64_t repeated_count() const override { return wire_.repeated_count(); }

 private:
  const Communicator& communicator_;
  const bool ordered_;
  WireSum wire_;
};

}  // namespace

bool travels_by_nccl(const WireOptions& wire, const c10::Device& device) {
  return has_nccl() && device.is_cuda() && !wire.ordered;
}

std::unique_ptr<GradientTransport> make_transport(Communicator& communicator,
                                                  const TransportOptions& options) {
  if (travels_by_nccl(options.wire, options.device)) {
    return make_nccl_transport(communicator, options);
  }
  return std::make_unique<HostTransport>(communicator, options.wire);
}

}  // namespace retina
