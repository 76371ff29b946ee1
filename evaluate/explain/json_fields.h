// Shared parts of the JSON files of evaluations: optional values, lists, bins, and long lists on a
// line of their own.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shared/base/cat.h"
#include "shared/base/json.h"
#include "shared/evaluation/score/calibration.h"
#include "shared/evaluation/score/proportion.h"

namespace retina {

// Writes the value; null if there is none.
template <class T>
void write_optional(JsonWriter& json, std::string_view key, const std::optional<T>& value) {
  json.key(key);
  value ? json.value(*value) : json.null();
}

// Writes [low, high], or null.
inline void write_interval(JsonWriter& json, std::string_view key,
                           const std::optional<Interval>& interval) {
  json.key(key);
  if (!interval) {
    json.null();
    return;
  }
  json.begin_array().value(interval->low).value(interval->high).end_array();
}

// Writes {"bins": [{"low", "high", "count", "mean_score", "precision"}, ...], "error"}: bins of
// equal width over 0..1.
inline void write_bins(JsonWriter& json, std::span<const CalibrationBin> bins, double error) {
  json.begin_object().key("bins").begin_array();
  for (std::size_t i = 0; i < bins.size(); ++i) {
    json.begin_object()
        .field("low", static_cast<double>(i) / static_cast<double>(bins.size()))
        .field("high", static_cast<double>(i + 1) / static_cast<double>(bins.size()))
        .field("count", bins[i].count)
        .field("mean_score", bins[i].mean_score())
        .field("precision", bins[i].precision())
        .end_object();
  }
  json.end_array().field("error", error).end_object();
}

// Returns `"key": ...` as a line.
template <class Write>
std::string json_line(const char* key, const Write& write) {
  JsonWriter json;
  write(json);
  return cat("  \"", key, "\": ", json.text());
}

// Appends fields to the object, each a json_line(): indented, long lists would be several times as
// long.
inline std::string with_lines(std::string pretty_object, std::initializer_list<std::string> lines) {
  pretty_object.erase(pretty_object.rfind("\n}"));
  for (const std::string& line : lines) pretty_object += ",\n" + line;
  return pretty_object + "\n}\n";
}

}  // namespace retina
