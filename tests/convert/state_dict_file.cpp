#include "tests/convert/state_dict_file.h"

#include <vector>

#include "tests/convert/pth_writer.h"

namespace retina {

std::string pth_of(const NamedTensors& tensors, bool legacy) {
  PickleText pickle;
  pickle.global("collections", "OrderedDict").op(")R(");
  NamedBytes storages;
  std::vector<LegacyStorage> legacy_storages;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor dense = tensor.contiguous();
    const bool is_float = dense.scalar_type() == at::kFloat;
    const std::string key = std::to_string(storages.size());
    pickle.text(name).tensor(is_float ? "FloatStorage" : "LongStorage", key, dense.numel(), 0,
                             dense.sizes().vec(), dense.strides().vec(), legacy);
    storages.emplace_back(key,
                          std::string(static_cast<const char*>(dense.data_ptr()), dense.nbytes()));
    if (legacy) {
      legacy_storages.push_back({.key = key,
                                 .bytes = storages.back().second,
                                 .element_bytes = static_cast<std::size_t>(dense.element_size())});
    }
  }
  const std::string text = pickle.op("u").stop();
  return legacy ? pth_legacy(text, legacy_storages) : pth_zip(text, storages);
}

}  // namespace retina
