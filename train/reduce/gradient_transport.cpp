#include "train/reduce/gradient_transport.h"

#include "shared/base/error.h"

namespace retina {
namespace {

class HostTransport : public GradientTransport {
 public:
  HostTransport(Communicator& communicator, const WireOptions& wire)
      : communicator_(communicator), ordered_(wire.ordered), wire_(communicator, wire) {}

  void sum(at::Tensor bucket, std::size_t number) override {
    const std::string name = cat("bucket ", number);
    const at::Tensor host = bucket.cpu();  // on the CPU the bucket itself
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

std::unique_ptr<GradientTransport> make_transport(Communicator& communicator,
                                                  const TransportOptions& options) {
  if (options.device.is_cuda() && !options.wire.ordered) {
    if (auto nccl = make_nccl_transport(communicator, options)) return nccl;
  }
  return std::make_unique<HostTransport>(communicator, options.wire);
}

}  // namespace retina
