#include "train/reduce/bucket_choice.h"

#include <algorithm>
#include <numeric>

#include "shared/base/counted.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "train/reduce/link_probe.h"

namespace retina {
namespace {

constexpr const char* kStoredName = "the stored buckets";
constexpr std::size_t kAloneBytes = std::size_t{25} << 20;
constexpr std::size_t kEdgePart = 32;  // the edge of buckets whose link is not measured

std::optional<RingFit> fit_from(const JsonView& root, int ranks) {
  if (!root.has("link")) return std::nullopt;
  const JsonView link = root.at("link");
  RingFit fit{.ranks = ranks};
  fit.link.latency_seconds = link.at("latency_seconds").as_double();
  // An unlimited bandwidth is stored as null.
  const JsonView bandwidth = link.at("bytes_per_second");
  if (!bandwidth.raw().IsNull()) fit.link.bytes_per_second = bandwidth.as_double();
  fit.worst_relative_error = link.at("worst_relative_error").as_double();
  return fit;
}

// On rank 0.
std::optional<BucketChoice> stored_choice(const BucketOptions& options, int ranks) {
  if (options.stored.empty()) return std::nullopt;
  try {
    const JsonFile file = JsonFile::parse(options.stored, kStoredName);
    const JsonView root = file.root();
    const bool same = root.at("ranks").as_int() == ranks &&
                      root.at("wire").as_string() == word_of(kWireTypes, options.wire.type) &&
                      root.at("ordered").as_bool() == options.wire.ordered;
    if (!same) return std::nullopt;
    return BucketChoice{.origin = BucketChoice::Origin::kStored,
                        .ranks = ranks,
                        .wire = options.wire,
                        .bytes = {.most = root.at("bucket_bytes").as_uint(),
                                  .edge = root.at("edge_bytes").as_uint()},
                        .fit = fit_from(root, ranks)};
  } catch (const Error& error) {
    log_warning(error.what(), ": measuring again");
    return std::nullopt;
  }
}

void agree(BucketSize& bytes, Communicator& communicator) {
  std::int64_t numbers[] = {static_cast<std::int64_t>(bytes.most),
                            static_cast<std::int64_t>(bytes.edge)};
  communicator.broadcast(numbers, 2, ElementType::kInt64, 0);
  bytes = {.most = static_cast<std::size_t>(numbers[0]),
           .edge = static_cast<std::size_t>(numbers[1])};
}

}  // namespace

BucketChoice choose_buckets(const BucketOptions& options, std::size_t element_count,
                            Communicator& communicator) {
  using Origin = BucketChoice::Origin;
  BucketChoice choice{.ranks = communicator.size(), .wire = options.wire};
  if (options.bucket_bytes > 0) {
    choice.origin = Origin::kGiven;
    choice.bytes = {.most = options.bucket_bytes, .edge = options.bucket_bytes / kEdgePart};
    return choice;
  }
  if (communicator.size() == 1) {
    choice.bytes = {.most = kAloneBytes, .edge = kAloneBytes / kEdgePart};
    return choice;
  }
  const auto stored = communicator.is_root() ? stored_choice(options, communicator.size())
                                             : std::optional<BucketChoice>();
  if (communicator.all_reduce_max(stored ? 1 : 0) != 0) {
    choice = stored.value_or(choice);
    choice.origin = Origin::kStored;
  } else {
    choice.origin = Origin::kMeasured;
    choice.fit =
        probe_link(communicator, {.type = options.wire.type, .ordered = options.wire.ordered});
    choice.bytes = best_bucket_bytes(
        *choice.fit, static_cast<double>(element_count * element_size_bytes(options.wire.type)));
  }
  agree(choice.bytes, communicator);
  return choice;
}

std::string to_json(const BucketChoice& choice, const BucketPlan& plan) {
  JsonWriter json;
  json.begin_object()
      .field("ranks", choice.ranks)
      .field("wire", word_of(kWireTypes, choice.wire.type))
      .field("ordered", choice.wire.ordered)
      .field("bucket_bytes", std::uint64_t{choice.bytes.most})
      .field("edge_bytes", std::uint64_t{choice.bytes.edge})
      .field("layout_hash", hex64(plan.layout_hash));
  if (choice.fit) {
    json.key("link").begin_object();
    json.field("latency_seconds", choice.fit->link.latency_seconds);
    json.field("bytes_per_second", choice.fit->link.bytes_per_second);
    json.field("worst_relative_error", choice.fit->worst_relative_error).end_object();
  }
  json.key("bucket_values").begin_array();
  for (const std::size_t count : plan.bucket_counts) json.value(std::uint64_t{count});
  return json.end_array().end_object().pretty_text();
}

std::string describe(const BucketChoice& choice, const BucketPlan& plan) {
  const std::vector<std::size_t>& counts = plan.bucket_counts;
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  const auto total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const auto megabytes = [&](std::size_t count) {
    return fixed(static_cast<double>(count * element_size_bytes(choice.wire.type)) * 1e-6, 2);
  };
  std::string text =
      cat("gradients: ", fixed(static_cast<double>(total) * 1e-6, 1), " M values in ",
          counted(counts.size(), "bucket"), " of ", megabytes(*least), " to ", megabytes(*most),
          " MB (", word_of(kWireTypes, choice.wire.type),
          choice.wire.ordered ? ", in rank order)" : ")");
  if (choice.fit) {
    text += cat("; the link: ", fixed(choice.fit->link.latency_seconds * 1e3, 3), " ms and ",
                fixed(choice.fit->link.bytes_per_second * 1e-6, 1), " MB/s, ",
                choice.origin == BucketChoice::Origin::kStored ? "as the run began" : "measured");
  }
  return text;
}

}  // namespace retina
