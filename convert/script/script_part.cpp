#include "convert/script/script_part.h"

#include "shared/base/cat.h"

namespace retina {

std::string ScriptPart::conv(const std::string& conv_name, const ConvWeights& weights,
                             const std::string& input, int stride) {
  // Channels-last, which the activations then take over: the layout that oneDNN and cuDNN prefer.
  tensors.push_back(
      {conv_name + "_weight", weights.weight.contiguous(at::MemoryFormat::ChannelsLast)});
  tensors.push_back({conv_name + "_bias", weights.bias});
  const auto padding = weights.weight.size(2) / 2;
  return cat("torch.conv2d(", input, ", self.", conv_name, "_weight, self.", conv_name, "_bias, [",
             stride, ", ", stride, "], [", padding, ", ", padding, "])");
}

}  // namespace retina
