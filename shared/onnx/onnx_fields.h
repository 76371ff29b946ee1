// The fields of onnx.proto's messages, by their numbers. Part of ONNX.
#pragma once

#include <cstdint>

namespace retina::onnx_field {

inline constexpr std::uint32_t kModelGraph = 7, kModelMetadata = 14;
inline constexpr std::uint32_t kEntryKey = 1, kEntryValue = 2;
inline constexpr std::uint32_t kGraphNode = 1, kGraphName = 2, kGraphInitializer = 5,
                               kGraphInput = 11, kGraphOutput = 12;
inline constexpr std::uint32_t kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeOperator = 4,
                               kNodeAttribute = 5, kNodeDomain = 7;
inline constexpr std::uint32_t kAttributeName = 1, kAttributeFloat = 2, kAttributeInt = 3,
                               kAttributeString = 4, kAttributeInts = 8, kAttributeType = 20;
inline constexpr std::uint32_t kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorRaw = 9;
inline constexpr std::uint32_t kValueName = 1;

}  // namespace retina::onnx_field
