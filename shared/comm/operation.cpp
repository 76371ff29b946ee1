#include "shared/comm/operation.h"

#include <algorithm>
#include <cstring>

#include "shared/base/cat.h"
#include "shared/base/hash.h"

namespace retina {
namespace {

constexpr std::string_view kPhaseNames[] = {
    "start",  "data.wait", "data.decode",      "forward", "backward",     "reduce",
    "update", "validate",  "checkpoint.write", "end",     "metrics.write"};

std::string_view kind_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kGather:
      return "gather";
    case CollectiveKind::kBarrier:
      return "barrier";
    case CollectiveKind::kAllReduceOrdered:
      return "all_reduce_ordered";
  }
  return "unknown";
}

std::string_view type_name(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
      return "bytes";
    case ElementType::kInt64:
      return "i64";
    case ElementType::kFloat32:
      return "f32";
    case ElementType::kFloat64:
      return "f64";
    case ElementType::kFloat16:
      return "f16";
    case ElementType::kBFloat16:
      return "bf16";
  }
  return "unknown";
}

}  // namespace

std::string_view phase_name(Phase phase) {
  const auto place = static_cast<std::size_t>(phase);
  return place < std::size(kPhaseNames) ? kPhaseNames[place] : "unknown";
}

bool is_of_step(Phase phase) {
  return phase >= Phase::kDataWait && phase <= Phase::kUpdate;
}

bool is_write(Phase phase) {
  return phase == Phase::kCheckpointWrite || phase == Phase::kMetricsWrite;
}

void Operation::set_label(std::string_view text) {
  label.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), label.size() - 1), label.begin());
}

std::string_view Operation::label_text() const {
  return {label.data(), ::strnlen(label.data(), label.size())};
}

std::uint64_t Operation::hash() const {
  const std::uint64_t fields[] = {static_cast<std::uint64_t>(kind),
                                  static_cast<std::uint64_t>(type),
                                  static_cast<std::uint64_t>(reduce),
                                  static_cast<std::uint64_t>(root),
                                  count,
                                  xxh3(label_text())};
  return xxh3(fields, sizeof(fields));
}

std::string Operation::name() const {
  return std::string(label_text().empty() ? kind_name(kind) : label_text());
}

std::string Operation::describe() const {
  std::string text(kind_name(kind));
  if (kind == CollectiveKind::kAllReduce) text += reduce == ReduceOp::kSum ? " (sum)" : " (max)";
  if (kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kGather)
    text += cat(" (root ", root, ")");
  const bool has_count = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBroadcast ||
                         kind == CollectiveKind::kAllReduceOrdered;
  if (has_count) text += cat(" of ", with_commas(count), " ", type_name(type));
  return text;
}

std::string with_commas(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t place = text.size(); place > 3; place -= 3) text.insert(place - 3, ",");
  return text;
}

}  // namespace retina
