#include "train/reduce/bucket_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <sstream>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"

namespace retina {
namespace {

std::uint64_t layout_hash(const std::vector<BucketParameter>& parameters, const BucketPlan& plan) {
  Hasher hasher;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const BucketSlot& slot = plan.slots[i];
    for (const std::string& text : {parameters[i].name, parameters[i].layout}) {
      const std::uint64_t length = text.size();
      hasher.update(&length, sizeof length);
      hasher.update(text.data(), text.size());
    }
    const std::uint64_t numbers[] = {slot.bucket, slot.offset, slot.count};
    hasher.update(numbers, sizeof numbers);
  }
  return hasher.digest();
}

// Returns how many of the first parameters make up the last bucket.
std::size_t last_bucket_parameters(const std::vector<BucketParameter>& parameters,
                                   std::size_t edge) {
  std::size_t count = 0, i = 0;
  while (i < parameters.size() && count < edge) count += parameters[i++].count;
  return i;
}

// Returns a line for each parameter, with its layout and place.
std::string layout_text(const std::vector<BucketParameter>& parameters, const BucketPlan& plan) {
  std::string text;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const BucketSlot& slot = plan.slots[i];
    text += cat(parameters[i].name, " ", parameters[i].layout, " at ", slot.offset, " of bucket ",
                slot.bucket, "\n");
  }
  return text;
}

// Returns the first difference, or "" when they are equal.
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

constexpr const char* kStoredName = "the stored buckets";

// Returns the sizes that the run began with, on rank 0, if ranks and wire are the same.
std::optional<BucketSize> stored_size(const BucketOptions& options, int ranks) {
  if (options.stored.empty()) return std::nullopt;
  try {
    const JsonFile file = JsonFile::parse(options.stored, kStoredName);
    const JsonView root = file.root();
    const bool same = root.at("ranks").as_int() == ranks &&
                      root.at("wire").as_string() == word_of(kWireTypes, options.wire.type) &&
                      root.at("ordered").as_bool() == options.wire.ordered;
    if (!same) return std::nullopt;
    return BucketSize{.most = root.at("bucket_bytes").as_uint(),
                      .edge = root.at("edge_bytes").as_uint()};
  } catch (const Error& error) {
    log_warning(error.what(), ": buckets of the default size");
    return std::nullopt;
  }
}

}  // namespace

BucketPlan plan_buckets(const std::vector<BucketParameter>& parameters, const BucketSize& size) {
  BucketPlan plan;
  plan.slots.resize(parameters.size());
  std::vector<std::size_t>& counts = plan.bucket_counts;
  const std::size_t last = last_bucket_parameters(parameters, size.edge);
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const std::size_t count = parameters[i].count;
    if (counts.empty()) {
      counts.push_back(0);
    } else if (counts.back() >= size.edge) {
      const bool first_is_full = size.edge > 0 && counts.size() == 1;
      const bool overflows = counts.back() + count > size.most;
      if (first_is_full || overflows || i + 1 == last) counts.push_back(0);
    }
    plan.slots[i] = {.bucket = counts.size() - 1, .offset = counts.back(), .count = count};
    counts.back() += count;
  }
  plan.layout_hash = layout_hash(parameters, plan);
  return plan;
}

void check_same_layout(const std::vector<BucketParameter>& parameters, const BucketPlan& plan,
                       Communicator& communicator) {
  const auto hash = static_cast<std::int64_t>(plan.layout_hash);
  auto root_hash = hash;
  communicator.broadcast(&root_hash, 1, ElementType::kInt64, 0);
  if (communicator.all_reduce_max(hash == root_hash ? 0 : 1) == 0) return;
  const std::string ours = layout_text(parameters, plan);
  const std::vector<std::string> all = communicator.gather(ours, 0);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const std::string difference = first_difference(ours, all[rank], rank);
    if (difference.empty()) continue;
    throw Error(ErrorKind::kConfig, cat("the ranks disagree on the gradient layout: ", difference),
                "start all ranks with the same program and the same options");
  }
  communicator.barrier();  // rank 0 reports it and ends the job
}

BucketSize choose_buckets(const BucketOptions& options, Communicator& communicator) {
  const auto of = [](std::size_t bytes) {
    return BucketSize{.most = bytes, .edge = bytes / kEdgePart};
  };
  if (options.bucket_bytes > 0) return of(options.bucket_bytes);
  BucketSize size = of(kDefaultBucketBytes);
  if (communicator.size() == 1) return size;
  if (communicator.is_root()) size = stored_size(options, communicator.size()).value_or(size);
  std::int64_t numbers[] = {static_cast<std::int64_t>(size.most),
                            static_cast<std::int64_t>(size.edge)};
  communicator.broadcast(numbers, 2, ElementType::kInt64, 0);
  return {.most = static_cast<std::size_t>(numbers[0]),
          .edge = static_cast<std::size_t>(numbers[1])};
}

std::string to_json(const BucketSize& bytes, const BucketPlan& plan, const WireOptions& wire,
                    int ranks) {
  JsonWriter json;
  json.begin_object()
      .field("ranks", ranks)
      .field("wire", word_of(kWireTypes, wire.type))
      .field("ordered", wire.ordered)
      .field("bucket_bytes", std::uint64_t{bytes.most})
      .field("edge_bytes", std::uint64_t{bytes.edge})
      .field("layout_hash", hex64(plan.layout_hash));
  return json.list("bucket_values", plan.bucket_counts).end_object().pretty_text();
}

std::string describe(const BucketPlan& plan, const WireOptions& wire) {
  const std::vector<std::size_t>& counts = plan.bucket_counts;
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  const auto total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const auto megabytes = [&](std::size_t count) {
    return fixed(static_cast<double>(count * element_size_bytes(wire.type)) * 1e-6, 2);
  };
  return cat("gradients: ", fixed(static_cast<double>(total) * 1e-6, 1), " M values in ",
             counted(counts.size(), "bucket"), " of ", megabytes(*least), " to ", megabytes(*most),
             " MB (", word_of(kWireTypes, wire.type), wire.ordered ? ", in rank order)" : ")");
}

}  // namespace retina
