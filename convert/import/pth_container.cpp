#include "convert/import/pth_file.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/foreign_content.h"
#include "shared/checkpoint/foreign/stored_zip.h"

namespace retina {
namespace {

// torch/serialization.py: MAGIC_NUMBER 0x1950a86a20f9469cfc6c, PROTOCOL_VERSION 1001.
constexpr std::string_view kLegacyMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr std::int64_t kLegacyProtocol = 1001;
constexpr std::string_view kLegacyStart("\x80\x02\x8a\x0a", 4);  // PROTO 2, LONG1 of 10 bytes
constexpr const char* kWantHint = "give weights that torch.save wrote: a .pth file";

[[noreturn]] void fail(const std::string& subject, const std::string& problem,
                       const std::string& hint = "copy or download the file again") {
  throw Error(ErrorKind::kData, cat(subject, ": ", problem), hint);
}

std::uint64_t storage_bytes(const PickleValue& storage, const std::string& subject) {
  std::uint64_t size_bytes = 0;
  if (storage.integer < 0 || __builtin_mul_overflow(static_cast<std::uint64_t>(storage.integer),
                                                    element_bytes(storage.element), &size_bytes)) {
    fail(subject, cat("a storage has an impossible size (got ", storage.integer, " elements)"));
  }
  return size_bytes;
}

// Adds a storage. Storages of one key are one storage: they must agree.
void add_storage(PthContainer& container, const PickleValue& storage, std::string_view content,
                 const std::string& subject) {
  const std::uint64_t want_bytes = storage_bytes(storage, subject);
  if (content.size() != want_bytes) {
    fail(subject, cat("damaged: a storage has a different size than its tensors say (got ",
                      content.size(), " bytes, want ", want_bytes, ")"));
  }
  container.storages.emplace(storage.text, content);
}

PthContainer open_zip(std::string_view bytes, const std::string& subject) {
  const StoredZip zip(bytes, subject);
  const std::string folder = zip.folder_of("data.pkl");
  if (zip.has(folder + "retina/index.json")) {
    fail(subject, "is already a checkpoint of retina-batch",
         "give it to retina-train --init or retina-convert --checkpoint as it is");
  }
  if (zip.has(folder + "byteorder") && zip.read(folder + "byteorder") != "little") {
    fail(subject, "was written on a big-endian machine", "load and save it again on another");
  }
  PthContainer container{.pickle = read_pickle(zip.read(folder + "data.pkl"), subject)};
  for (const PickleValue& value : container.pickle.values) {
    if (value.kind != PickleKind::kStorage) continue;
    const auto known = container.storages.find(value.text);
    add_storage(container, value,
                known != container.storages.end() ? known->second
                                                  : zip.read(cat(folder, "data/", value.text)),
                subject);
  }
  return container;
}

// Reads pickle after pickle, then the storages, from the front of `bytes`.
class LegacyReader {
 public:
  LegacyReader(std::string_view bytes, const std::string& subject)
      : rest_(bytes), subject_(subject) {}

  PthContainer read() {
    const PickleDocument magic = next_pickle();
    if (magic.at(magic.root).kind != PickleKind::kBigInt ||
        magic.at(magic.root).text != kLegacyMagic) {
      fail(subject_, "not a file of torch.save");
    }
    const PickleDocument protocol = next_pickle();
    if (protocol.at(protocol.root).integer != kLegacyProtocol) {
      fail(subject_, cat("another version of PyTorch's old format (got ",
                         protocol.at(protocol.root).integer, ", want ", kLegacyProtocol, ")"));
    }
    check_machine(next_pickle());
    PthContainer container{.pickle = next_pickle()};
    const PickleDocument keys = next_pickle();
    if (keys.at(keys.root).kind != PickleKind::kList) {
      fail(subject_, "damaged: its list of storages is not a list");
    }
    read_storages(keys, container);
    return container;
  }

 private:
  PickleDocument next_pickle() {
    PickleDocument document = read_pickle(rest_, subject_);
    rest_.remove_prefix(document.size_bytes);
    return document;
  }

  void check_machine(const PickleDocument& machine) const {
    const std::vector<PickleRef>& items = machine.at(machine.root).items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (machine.at(items[i]).text == "little_endian" && machine.at(items[i + 1]).integer != 1) {
        fail(subject_, "was written on a big-endian machine", "load and save it again on another");
      }
    }
  }

  std::string_view take(std::uint64_t size_bytes) {
    if (size_bytes > rest_.size()) fail(subject_, "cut short inside its tensors");
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(size_bytes));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::uint64_t take_count() {
    const std::string_view digits = take(sizeof(std::uint64_t));
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < digits.size(); ++i) {
      count |= static_cast<std::uint64_t>(static_cast<unsigned char>(digits[i])) << (8 * i);
    }
    return count;
  }

  // Reads storages, each of which is its number of elements in 8 bytes, then the elements.
  void read_storages(const PickleDocument& keys, PthContainer& container) {
    std::map<std::string_view, const PickleValue*> wanted;
    for (const PickleValue& value : container.pickle.values) {
      if (value.kind != PickleKind::kStorage) continue;
      const auto [place, is_new] = wanted.emplace(value.text, &value);
      if (!is_new && storage_bytes(value, subject_) != storage_bytes(*place->second, subject_)) {
        fail(subject_, "damaged: its tensors disagree about a storage's size");
      }
    }
    for (const PickleRef ref : keys.at(keys.root).items) {
      const auto found = wanted.find(keys.at(ref).text);
      if (found == wanted.end()) fail(subject_, "damaged: it holds a storage that no tensor uses");
      const PickleValue& storage = *found->second;
      if (take_count() != static_cast<std::uint64_t>(storage.integer)) {
        fail(subject_, "damaged: a storage has a different size than its tensors say");
      }
      add_storage(container, storage, take(storage_bytes(storage, subject_)), subject_);
      wanted.erase(found);
    }
    if (!wanted.empty()) fail(subject_, "damaged: a storage is missing");
  }

  std::string_view rest_;
  const std::string& subject_;
};

}  // namespace

PthContainer open_container(std::string_view bytes, const std::string& subject) {
  const std::string_view end = bytes.substr(bytes.size() - std::min(bytes.size(), kKindBytes));
  const auto kind = file_kind(bytes.substr(0, kKindBytes), end);
  if (kind && !kind->is_torch_save) {
    fail(subject, cat("is ", kind->what), kind->cure.empty() ? kWantHint : kind->cure);
  }
  if (StoredZip::looks_like_one(bytes)) return open_zip(bytes, subject);
  if (bytes.starts_with(kLegacyStart)) return LegacyReader(bytes, subject).read();
  fail(subject, "not a file of torch.save (neither of its two formats begins like this)",
       kWantHint);
}

}  // namespace retina
