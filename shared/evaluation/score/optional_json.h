// Values that may not exist as fields of a JSON object: null then.
#pragma once

#include <optional>
#include <string_view>

#include "shared/base/json.h"
#include "shared/evaluation/score/interval.h"

namespace retina {

template <class T>
void write_optional(JsonWriter& json, std::string_view key, const std::optional<T>& value) {
  json.key(key);
  if (value) {
    json.value(*value);
  } else {
    json.null();
  }
}

// [low, high].
inline void write_interval(JsonWriter& json, std::string_view key,
                           const std::optional<Interval>& interval) {
  json.key(key);
  if (!interval) {
    json.null();
    return;
  }
  json.begin_array().value(interval->low).value(interval->high).end_array();
}

}  // namespace retina
