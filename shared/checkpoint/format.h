// Names inside a checkpoint (FORMAT.md). Part of the format; never change.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace retina::checkpoint_format {

inline constexpr int kVersion = 2;
inline constexpr const char* kIndexRecord = "retina/index.json";
inline constexpr const char* kPickleRecord = "data.pkl";
inline constexpr const char* kModelGroup = "model";
inline constexpr const char* kOptimizerGroup = "optimizer";

inline std::string tensor_record(std::size_t number) {
  return "data/" + std::to_string(number);
}

// Element types, under numpy's names.
struct DtypeName {
  c10::ScalarType dtype;
  std::string_view name;
};
inline constexpr std::array<DtypeName, 9> kDtypes = {{{c10::ScalarType::Float, "float32"},
                                                      {c10::ScalarType::Double, "float64"},
                                                      {c10::ScalarType::Half, "float16"},
                                                      {c10::ScalarType::BFloat16, "bfloat16"},
                                                      {c10::ScalarType::Long, "int64"},
                                                      {c10::ScalarType::Int, "int32"},
                                                      {c10::ScalarType::Short, "int16"},
                                                      {c10::ScalarType::Byte, "uint8"},
                                                      {c10::ScalarType::Bool, "bool"}}};

inline std::optional<c10::ScalarType> dtype_of(std::string_view name) {
  for (const auto& entry : kDtypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

inline std::optional<std::string_view> name_of(c10::ScalarType dtype) {
  for (const auto& entry : kDtypes) {
    if (entry.dtype == dtype) return entry.name;
  }
  return std::nullopt;
}

}  // namespace retina::checkpoint_format
