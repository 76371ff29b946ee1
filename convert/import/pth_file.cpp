#include "convert/import/pth_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <span>

#include "shared/base/error.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

constexpr std::size_t kMaxDimensions = 16;
constexpr std::uint64_t kMaxShare = 4;  // bytes of all copies by the file's: storages may be shared
// Keys of the weights in training checkpoints: torchvision's references, torch's ImageNet example,
// MMDetection, timm, RT-DETR, BasicSR, and usual names of users.
constexpr std::array<std::string_view, 8> kWeightKeys = {
    "model", "state_dict", "model_state_dict", "model_state",
    "net",   "network",    "weights",          "params"};
constexpr std::array<std::string_view, 9> kAverageKeys = {
    "model_ema", "ema",       "ema_state_dict", "state_dict_ema", "model_ema_state_dict",
    "ema_model", "ema_state", "params_ema",     "averaged_model"};
// Keys inside such a value: RT-DETR's {"module": ..., "updates": ...}, and similar wrappers.
constexpr std::array<std::string_view, 4> kInnerKeys = {"module", "state_dict", "model",
                                                        "model_state_dict"};
constexpr std::size_t kListedKeys = 8;  // in an error message

class StateDictReader {
 public:
  StateDictReader(const PthContainer& container, std::uint64_t file_bytes,
                  const std::string& subject)
      : pickle_(container.pickle),
        storages_(container.storages),
        subject_(subject),
        left_bytes_(kMaxShare * file_bytes) {}

  ForeignWeights read() {
    const Choice choice = state_dict();
    ForeignWeights result{.average = std::string(choice.average),
                          .weights = std::string(choice.weights)};
    std::vector<ForeignTensor>& tensors = result.tensors;
    std::set<std::string_view> names;
    const std::vector<PickleRef>& items = choice.dict->items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickleValue &key = pickle_.at(items[i]), &value = pickle_.at(items[i + 1]);
      if (key.kind != PickleKind::kText || value.kind != PickleKind::kTensor) continue;
      if (escaped(key.text) != key.text) fail(key.text, "has a name that no model uses");
      if (!names.insert(key.text).second) fail(key.text, "appears twice");
      tensors.push_back(tensor(key.text, value));
    }
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view name, const std::string& problem) const {
    throw Error(ErrorKind::kData, cat(subject_, ": tensor ", escaped(name), " ", problem));
  }

  bool holds_tensors(const PickleValue& value) const {
    if (value.kind != PickleKind::kDict) return false;
    for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
      if (pickle_.at(value.items[i + 1]).kind == PickleKind::kTensor) return true;
    }
    return false;
  }

  // The first of `keys` whose value in `dict` is a state dict, with that dict, or null.
  struct Keyed {
    std::string_view key{};
    const PickleValue* dict = nullptr;
  };
  using Keys = std::span<const std::string_view>;
  Keyed find(const PickleValue& dict, Keys keys) const {
    for (const std::string_view wanted : keys) {
      for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
        const PickleValue& key = pickle_.at(dict.items[i]);
        if (key.kind != PickleKind::kText || key.text != wanted) continue;
        const PickleValue& value = pickle_.at(dict.items[i + 1]);
        if (holds_tensors(value)) return {.key = wanted, .dict = &value};
      }
    }
    return {};
  }
  // As find(), but also searches one dict further down.
  Keyed find_deep(const PickleValue& dict, Keys keys) const {
    if (const Keyed found = find(dict, keys); found.dict != nullptr) return found;
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleValue &key = pickle_.at(dict.items[i]), &value = pickle_.at(dict.items[i + 1]);
      if (key.kind != PickleKind::kText || value.kind != PickleKind::kDict) continue;
      const auto wanted = std::find(keys.begin(), keys.end(), key.text);
      if (wanted == keys.end()) continue;
      if (const Keyed inner = find(value, kInnerKeys); inner.dict != nullptr) {
        return {.key = *wanted, .dict = inner.dict};
      }
    }
    return {};
  }

  struct Choice {
    const PickleValue* dict = nullptr;
    std::string_view average{}, weights{};  // both set, or neither
  };
  Choice state_dict() const {
    const PickleValue& root = pickle_.at(pickle_.root);
    if (root.kind != PickleKind::kDict) {
      throw Error(ErrorKind::kData, cat(subject_, ": holds no dict of tensors"),
                  "in Python: torch.save(model.state_dict(), \"weights.pth\")");
    }
    const Keyed average = find_deep(root, kAverageKeys), weights = find_deep(root, kWeightKeys);
    if (average.dict != nullptr && weights.dict != nullptr) {
      return {.dict = average.dict, .average = average.key, .weights = weights.key};
    }
    if (average.dict != nullptr) return {.dict = average.dict};
    if (weights.dict != nullptr) return {.dict = weights.dict};
    // Last, since a training checkpoint may have a tensor, its best accuracy, beside its weights.
    if (holds_tensors(root)) return {.dict = &root};
    std::string keys;
    for (std::size_t i = 0; i + 1 < root.items.size() && i / 2 < kListedKeys; i += 2) {
      const PickleValue& key = pickle_.at(root.items[i]);
      if (key.kind == PickleKind::kText) keys += cat(keys.empty() ? "" : ", ", escaped(key.text));
    }
    throw Error(ErrorKind::kData,
                cat(subject_, ": holds no tensors, nor a dict of them as \"model\" or ",
                    "\"state_dict\" (its keys: ", keys.empty() ? "none" : keys, ")"),
                "in Python: torch.save(model.state_dict(), \"weights.pth\")");
  }

  std::vector<std::int64_t> sizes(std::string_view name, PickleRef ref) const {
    const PickleValue& tuple = pickle_.at(ref);
    if (tuple.items.size() > kMaxDimensions) fail(name, "has too many dimensions");
    std::vector<std::int64_t> numbers;
    for (const PickleRef item : tuple.items) {
      const PickleValue& number = pickle_.at(item);
      if (number.kind != PickleKind::kInt || number.integer < 0) {
        fail(name, "has a size or stride that is not a non-negative integer");
      }
      numbers.push_back(number.integer);
    }
    return numbers;
  }

  // Size of a tensor, and distance from its first to its last element, in elements.
  struct Extent {
    std::uint64_t count = 1, span = 1;
  };
  static std::optional<Extent> extent(const ForeignTensor& tensor) {
    Extent result;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      if (tensor.shape[i] == 0) return Extent{.count = 0, .span = 0};
    }
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      const auto size = static_cast<std::uint64_t>(tensor.shape[i]);
      std::uint64_t reach = 0;
      if (__builtin_mul_overflow(result.count, size, &result.count) ||
          __builtin_mul_overflow(size - 1, static_cast<std::uint64_t>(tensor.strides[i]), &reach) ||
          __builtin_add_overflow(result.span, reach, &result.span)) {
        return std::nullopt;
      }
    }
    return result;
  }

  ForeignTensor tensor(std::string_view name, const PickleValue& value) {
    const PickleValue& storage = pickle_.at(value.items[0]);
    const std::int64_t offset = pickle_.at(value.items[1]).integer;
    ForeignTensor result{.name = std::string(name),
                         .element = storage.element,
                         .shape = sizes(name, value.items[2]),
                         .strides = sizes(name, value.items[3])};
    if (result.shape.size() != result.strides.size()) {
      fail(name, "has shape and strides of different lengths");
    }
    const std::string_view content = storages_.at(storage.text);
    const std::size_t element = element_bytes(storage.element);
    const std::uint64_t stored = content.size() / element;
    const std::optional<Extent> size = extent(result);
    const bool fits = size && offset >= 0 && static_cast<std::uint64_t>(offset) <= stored &&
                      size->span <= stored - static_cast<std::uint64_t>(offset) &&
                      size->count <= stored;
    if (!fits) {
      fail(name, cat("does not fit its storage of ", stored, " elements (damaged, or expanded)"));
    }
    const std::uint64_t copy_bytes = std::max(size->count, size->span) * element;
    if (copy_bytes > left_bytes_) fail(name, "repeats a storage too often");
    left_bytes_ -= copy_bytes;
    result.bytes = content.substr(static_cast<std::size_t>(offset) * element,
                                  static_cast<std::size_t>(size->span) * element);
    return result;
  }

  const PickleDocument& pickle_;
  const std::map<std::string_view, std::string_view>& storages_;
  const std::string& subject_;
  std::uint64_t left_bytes_;
};

}  // namespace

ForeignWeights parse_pth(std::string_view bytes, const std::string& subject) {
  const PthContainer container = open_container(bytes, subject);
  return StateDictReader(container, bytes.size(), subject).read();
}

}  // namespace retina
