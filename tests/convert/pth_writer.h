// Makes .pth files by hand, both containers, for tests of the import: what torch.save writes, and
// what it never would.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace retina {

// Text of a pickle, opcode by opcode (names of Python's pickletools).
class PickleText {
 public:
  PickleText() : text_("\x80\x02") {}

  PickleText& op(std::string_view opcodes);                      // as they are
  PickleText& text(std::string_view value);                      // BINUNICODE
  PickleText& number(std::int64_t value);                        // LONG1 of 8 bytes
  PickleText& numbers(const std::vector<std::int64_t>& values);  // a tuple
  PickleText& global(std::string_view module, std::string_view name);
  // ('storage', torch.TYPE, key, 'cpu', count) as a persistent id; `legacy`: with a view of None.
  PickleText& storage(std::string_view type, std::string_view key, std::int64_t count, bool legacy);
  // A tensor over that storage.
  PickleText& tensor(std::string_view type, std::string_view key, std::int64_t count,
                     std::int64_t offset, const std::vector<std::int64_t>& shape,
                     const std::vector<std::int64_t>& strides, bool legacy = false);

  std::string stop() const { return text_ + "."; }

 private:
  std::string text_;
};

using NamedBytes = std::vector<std::pair<std::string, std::string>>;

// A zip of stored files with right CRCs; with `zip64`, closed by a zip64 record as torch does.
std::string stored_zip(const NamedBytes& files, bool zip64 = true);

// torch.save's zip around a pickle and its storages (key, bytes).
std::string pth_zip(const std::string& pickle, const NamedBytes& storages);

// The format before PyTorch 1.6. `element_bytes` divides each storage's size into its count.
struct LegacyStorage {
  std::string key{}, bytes{};
  std::size_t element_bytes = 4;
};
std::string pth_legacy(const std::string& pickle, const std::vector<LegacyStorage>& storages);

}  // namespace retina
