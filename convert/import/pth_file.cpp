#include "convert/import/pth_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "shared/base/error.h"
#include "shared/base/foreign_content.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/foreign/stored_zip.h"

namespace retina {
namespace {

constexpr const char* kWantHint = "give weights that torch.save wrote: a .pth file";
constexpr const char* kSaveHint = "in Python: torch.save(model.state_dict(), \"weights.pth\")";

[[noreturn]] void fail_file(const std::string& subject, const std::string& problem,
                            const std::string& hint = "copy or download the file again") {
  throw Error(ErrorKind::kData, cat(subject, ": ", problem), hint);
}

// --- The containers of torch.save ---------------------------------------------------------------

// A pickle and the bytes of its storages, by their keys.
struct PthContainer {
  PickleDocument pickle{};
  std::map<std::string_view, std::string_view> storages{};
};

PthContainer open_zip(std::string_view bytes, const std::string& subject) {
  const StoredZip zip(bytes, subject);
  const std::string folder = zip.folder_of("data.pkl");
  if (zip.has(folder + "retina/index.json")) {
    fail_file(subject, "is already a checkpoint of retina-batch",
              "give it to retina-train --init or retina-convert --checkpoint as it is");
  }
  if (zip.has(folder + "byteorder") && zip.read(folder + "byteorder") != "little") {
    fail_file(subject, "was written on a big-endian machine", "load and save it again on another");
  }
  PthContainer container{.pickle = read_pickle(zip.read(folder + "data.pkl"), subject)};
  for (const PickleValue& value : container.pickle.values) {
    if (value.kind != PickleKind::kStorage || container.storages.contains(value.text)) continue;
    container.storages.emplace(value.text, zip.read(cat(folder, "data/", value.text)));
  }
  return container;
}

// The first pickle of the format before PyTorch 1.6: MAGIC_NUMBER of torch/serialization.py.
constexpr std::string_view kLegacyStart("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
                                        15);

// Opens a file of four pickles after the magic number (version, machine, content, keys of the
// storages) and the storages, each its number of elements in 8 bytes, then the elements.
PthContainer open_legacy(std::string_view bytes, const std::string& subject) {
  std::string_view rest = bytes.substr(kLegacyStart.size());
  const auto next_pickle = [&] {
    PickleDocument document = read_pickle(rest, subject);
    rest.remove_prefix(document.size_bytes);
    return document;
  };
  const auto take = [&](std::uint64_t size_bytes) {
    if (size_bytes > rest.size()) fail_file(subject, "cut short inside its tensors");
    const std::string_view taken = rest.substr(0, static_cast<std::size_t>(size_bytes));
    rest.remove_prefix(taken.size());
    return taken;
  };
  next_pickle();
  next_pickle();
  PthContainer container{.pickle = next_pickle()};
  std::map<std::string_view, std::size_t> element_sizes;
  for (const PickleValue& value : container.pickle.values) {
    if (value.kind == PickleKind::kStorage) {
      element_sizes.emplace(value.text, element_bytes(value.element));
    }
  }
  const PickleDocument keys = next_pickle();
  for (const PickleRef ref : keys.at(keys.root).items) {
    const auto found = element_sizes.find(keys.at(ref).text);
    if (found == element_sizes.end()) fail_file(subject, "damaged: no tensor uses a storage of it");
    std::uint64_t size_bytes = 0;
    const std::string_view digits = take(sizeof size_bytes);
    std::copy(digits.begin(), digits.end(), reinterpret_cast<char*>(&size_bytes));  // little-endian
    if (__builtin_mul_overflow(size_bytes, found->second, &size_bytes)) take(~std::uint64_t{0});
    container.storages.emplace(found->first, take(size_bytes));
  }
  return container;
}

// Opens either container, recognised by its first bytes. Throws Error{kData}.
PthContainer open_container(std::string_view bytes, const std::string& subject) {
  const std::string_view end = bytes.substr(bytes.size() - std::min(bytes.size(), kKindBytes));
  const auto kind = file_kind(bytes.substr(0, kKindBytes), end);
  if (kind && !kind->is_torch_save) {
    fail_file(subject, cat("is ", kind->what), kind->hint.empty() ? kWantHint : kind->hint);
  }
  if (StoredZip::looks_like_one(bytes)) return open_zip(bytes, subject);
  if (bytes.starts_with(kLegacyStart)) return open_legacy(bytes, subject);
  fail_file(subject, "not a file of torch.save", kWantHint);
}

// --- The state dict -----------------------------------------------------------------------------

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
    std::set<std::string_view> names;
    each_item(*choice.dict, [&](std::string_view name, const PickleValue& value) {
      if (value.kind != PickleKind::kTensor) return false;
      if (escaped(name) != name) fail(name, "has a name that no model uses");
      if (!names.insert(name).second) fail(name, "appears twice");
      result.tensors.push_back(tensor(name, value));
      return false;
    });
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view name, const std::string& problem) const {
    fail_file(subject_, cat("tensor ", escaped(name), " ", problem), "");
  }

  bool holds_tensors(const PickleValue& value) const {
    if (value.kind != PickleKind::kDict) return false;
    for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
      if (pickle_.at(value.items[i + 1]).kind == PickleKind::kTensor) return true;
    }
    return false;
  }

  // Calls `use(key, value)` for the items of `dict` whose key is a text, until it returns true.
  template <class Use>
  void each_item(const PickleValue& dict, Use use) const {
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleValue& key = pickle_.at(dict.items[i]);
      if (key.kind == PickleKind::kText && use(key.text, pickle_.at(dict.items[i + 1]))) return;
    }
  }

  // A state dict and the key of `keys` that it is found under; null if there is none.
  struct Keyed {
    std::string_view key{};
    const PickleValue* dict = nullptr;
  };
  using Keys = std::span<const std::string_view>;
  // Searches the values of `dict` under each of `keys`, first the ones that are state dicts, then
  // with `depth` the dicts in them.
  Keyed find(const PickleValue& dict, Keys keys, int depth = 0) const {
    Keyed found;
    for (const std::string_view wanted : keys) {
      each_item(dict, [&](std::string_view key, const PickleValue& value) {
        if (key == wanted && holds_tensors(value)) found = {.key = key, .dict = &value};
        return found.dict != nullptr;
      });
      if (found.dict != nullptr) return found;
    }
    if (depth == 0) return found;
    each_item(dict, [&](std::string_view key, const PickleValue& value) {
      if (value.kind == PickleKind::kDict &&
          std::find(keys.begin(), keys.end(), key) != keys.end()) {
        found = {.key = key, .dict = find(value, kInnerKeys).dict};
      }
      return found.dict != nullptr;
    });
    return found;
  }

  struct Choice {
    const PickleValue* dict = nullptr;
    std::string_view average{}, weights{};  // both set, or neither
  };
  Choice state_dict() const {
    const PickleValue& root = pickle_.at(pickle_.root);
    if (root.kind != PickleKind::kDict) fail_file(subject_, "holds no dict of tensors", kSaveHint);
    const Keyed average = find(root, kAverageKeys, 1), weights = find(root, kWeightKeys, 1);
    if (average.dict != nullptr && weights.dict != nullptr) {
      return {.dict = average.dict, .average = average.key, .weights = weights.key};
    }
    if (average.dict != nullptr) return {.dict = average.dict};
    if (weights.dict != nullptr) return {.dict = weights.dict};
    // Last, since a training checkpoint may have a tensor, its best accuracy, beside its weights.
    if (holds_tensors(root)) return {.dict = &root};
    std::string keys;
    std::size_t count = 0;
    each_item(root, [&](std::string_view key, const PickleValue&) {
      keys += cat(keys.empty() ? "" : ", ", escaped(key));
      return ++count == kListedKeys;
    });
    fail_file(subject_,
              cat("holds no tensors, nor a dict of them as \"model\" or \"state_dict\" (its keys: ",
                  keys.empty() ? "none" : keys, ")"),
              kSaveHint);
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
    if (std::count(tensor.shape.begin(), tensor.shape.end(), 0) > 0) return Extent{0, 0};
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
    const auto found = storages_.find(storage.text);
    if (found == storages_.end()) fail(name, "is damaged: its storage is missing");
    const std::string_view content = found->second;
    const std::size_t element = element_bytes(storage.element);
    const std::uint64_t stored = content.size() / element;
    if (storage.integer < 0 || static_cast<std::uint64_t>(storage.integer) != stored ||
        content.size() % element != 0) {
      fail(name, cat("is damaged: its storage has ", content.size(), " bytes, and should have ",
                     storage.integer, " elements"));
    }
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
