#include "train/reduce/layout_check.h"

#include <sstream>
#include <string>

#include "shared/base/error.h"

namespace retina {
namespace {

// Lines: what the parameters are, and where they lie.
std::string parameters_text(const std::vector<BucketParameter>& parameters) {
  std::string text;
  for (const auto& parameter : parameters) text += cat(parameter.name, " ", parameter.layout, "\n");
  return text;
}

std::string places_text(const std::vector<BucketParameter>& parameters, const BucketPlan& plan) {
  std::string text;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const BucketSlot& slot = plan.slots[i];
    text += cat(parameters[i].name, " at ", slot.offset, " of bucket ", slot.bucket, "\n");
  }
  return text;
}

// "" when they are equal.
std::string first_difference(const std::string& ours, const std::string& theirs, std::size_t rank) {
  std::istringstream a(ours), b(theirs);
  for (int number = 1;; ++number) {
    std::string line_a, line_b;
    const bool has_a = !std::getline(a, line_a).fail(), has_b = !std::getline(b, line_b).fail();
    if (!has_a && !has_b) return "";
    if (line_a == line_b) continue;
    return cat("parameter ", number, " is ", has_b ? line_b : "missing", " on rank ", rank, ", ",
               has_a ? line_a : "missing", " on rank 0");
  }
}

}  // namespace

void check_same_layout(const std::vector<BucketParameter>& parameters, const BucketPlan& plan,
                       Communicator& communicator) {
  const auto hash = static_cast<std::int64_t>(plan.layout_hash);
  auto root_hash = hash;
  communicator.broadcast(&root_hash, 1, ElementType::kInt64, 0);
  if (communicator.all_reduce_max(hash == root_hash ? 0 : 1) == 0) return;
  for (const std::string& ours : {parameters_text(parameters), places_text(parameters, plan)}) {
    const std::vector<std::string> all = communicator.gather(ours, 0);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      const std::string difference = first_difference(ours, all[rank], rank);
      if (difference.empty()) continue;
      throw Error(ErrorKind::kConfig, cat("the ranks' gradients differ: ", difference),
                  "start all ranks with the same program and the same options");
    }
  }
  communicator.barrier();  // rank 0 reports it and ends the job
}

}  // namespace retina
