#include "shared/base/error.h"
#include "shared/comm/communicator.h"

namespace retina {
namespace {

class SelfCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  void all_reduce(void*, std::size_t, ElementType, ReduceOp) override {}
  void broadcast(void*, std::size_t, ElementType, int root) override { RETINA_CHECK(root == 0); }
  std::vector<std::string> gather(const std::string& bytes, int root) override {
    RETINA_CHECK(root == 0);
    return {bytes};
  }
  void barrier() override {}
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

}  // namespace retina
