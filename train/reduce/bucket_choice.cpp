#include "train/reduce/bucket_choice.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "shared/base/counted.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"

namespace retina {
namespace {

constexpr const char* kStoredName = "the stored buckets";

// On rank 0.
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
  json.key("bucket_values").begin_array();
  for (const std::size_t count : plan.bucket_counts) json.value(std::uint64_t{count});
  return json.end_array().end_object().pretty_text();
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
