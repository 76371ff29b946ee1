#include "convert/script/script_part.h"

#include "shared/base/cat.h"

namespace retina {

std::string ScriptPart::conv(const std::string& conv_name, const ConvWeights& weights,
                             const std::string& input, const ConvCall& call) {
  // Channels-last, which the activations then take over: the layout that oneDNN and cuDNN prefer.
  tensors.push_back(
      {conv_name + "_weight", weights.weight.contiguous(at::MemoryFormat::ChannelsLast)});
  tensors.push_back({conv_name + "_bias", weights.bias});
  const auto padding = call.padded ? weights.weight.size(2) / 2 : 0;
  const int stride = call.stride;
  return cat("torch.conv2d(", input, ", self.", conv_name, "_weight, self.", conv_name, "_bias, [",
             stride, ", ", stride, "], [", padding, ", ", padding, "])");
}

std::string ScriptPart::linear(const std::string& layer_name, const ConvWeights& weights,
                               const std::string& input) {
  tensors.push_back({layer_name + "_weight", weights.weight});
  tensors.push_back({layer_name + "_bias", weights.bias});
  return cat("torch.linear(", input, ", self.", layer_name, "_weight, self.", layer_name, "_bias)");
}

}  // namespace retina
