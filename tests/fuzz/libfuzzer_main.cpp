// libFuzzer's entry for the parser that RETINA_FUZZED names.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/fuzz/parsers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  static const auto run = [] {
    for (const retina::FuzzedParser& parser : retina::fuzzed_parsers()) {
      if (std::strcmp(parser.name, RETINA_FUZZED) == 0) return parser.run;
    }
    __builtin_trap();
  }();
  run({reinterpret_cast<const char*>(bytes), size_bytes});
  return 0;
}
