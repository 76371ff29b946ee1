// pth-fuzz: damages .pth files at random and gives them to the import's reader. Each run must end
// with checked tensors or Error{kData} on one line, within memory that its input's size bounds.
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "convert/import/pth_file.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/checkpoint/foreign/pickle_reader.h"
#include "shared/checkpoint/foreign/stored_zip.h"
#include "tests/convert/pth_writer.h"
#include "tests/fuzz/fuzz_loop.h"

namespace retina {
namespace {

using namespace std::string_literals;

constexpr std::size_t kBytesPerByte = 256;       // pickle_reader.h promises this
constexpr std::size_t kBytesAtLeast = 4 * 1024;  // for error texts and the like
constexpr rlim_t kAddressSpace = 512 << 20;
constexpr std::size_t kMaxMessage = 1000;

struct Corpus {
  std::vector<std::string> files{};    // whole .pth files
  std::vector<std::string> pickles{};  // and what zips hold as data.pkl,
  std::vector<NamedBytes> storages{};  // with their storages
};

void add_pickle(Corpus& corpus, std::string pickle, NamedBytes storages) {
  corpus.pickles.push_back(std::move(pickle));
  corpus.storages.push_back(std::move(storages));
}

// Opcodes with and without arguments, and names, that random bytes would seldom hit.
std::vector<std::string> dictionary() {
  std::vector<std::string> words;
  for (const char opcode :
       "(.012NJKMGTUXBC)]}taesucRbQhjqr\x80\x81\x85\x86\x87\x88\x89\x8a\x8c"
       "\x8d\x8f\x90\x93\x94\x95"s) {
    words.emplace_back(1, opcode);
  }
  for (const auto& [module, name] : {std::pair{"collections", "OrderedDict"},
                                     {"torch._utils", "_rebuild_tensor_v2"},
                                     {"torch._utils", "_rebuild_parameter"},
                                     {"torch.nn.parameter", "Parameter"},
                                     {"torch", "FloatStorage"},
                                     {"torch", "BFloat16Storage"},
                                     {"torch", "Size"},
                                     {"os", "system"},
                                     {"argparse", "Namespace"}}) {
    words.push_back(cat("c", module, "\n", name, "\n"));
  }
  words.push_back("q\0h\0"s);
  words.push_back("(((((((((((((((("s);
  words.push_back("]]]]]]]]]]]]]]]]"s);
  words.push_back("X\xff\xff\xff\x7f"s);
  words.push_back("r\xff\xff\xff\x00"s);
  words.push_back("PK\1\2"s);
  words.push_back("PK\5\6"s);
  words.push_back("PK\6\6"s);
  return words;
}

Corpus read_corpus(const std::string& fixtures) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures)) {
    if (entry.path().extension() == ".pth") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  Corpus corpus;
  for (const std::string& path : paths) {
    corpus.files.push_back(read_file(path));
    const std::string& bytes = corpus.files.back();
    if (!StoredZip::looks_like_one(bytes)) continue;
    const StoredZip zip(bytes, path);
    const std::string folder = zip.folder_of("data.pkl");
    NamedBytes storages;
    for (int key = 0; zip.has(cat(folder, "data/", key)); ++key) {
      storages.emplace_back(cat(key), zip.read(cat(folder, "data/", key)));
    }
    add_pickle(corpus, std::string(zip.read(folder + "data.pkl")), std::move(storages));
  }
  const NamedBytes floats = {{"0", std::string(24, 'm')}};
  add_pickle(corpus,
             PickleText()
                 .global("collections", "OrderedDict")
                 .op("(](](")
                 .text("w")
                 .tensor("FloatStorage", "0", 6, 0, {2, 3}, {3, 1})
                 .op("eetR")
                 .stop(),
             floats);
  add_pickle(corpus,
             PickleText()
                 .op("}")
                 .text("w")
                 .global("torch.nn.parameter", "Parameter")
                 .op(")\x81(")
                 .tensor("FloatStorage", "0", 6, 1, {5}, {1})
                 .op("\x88Ntbs")
                 .stop(),
             floats);
  if (paths.empty()) throw Error(ErrorKind::kNoInput, cat(fixtures, ": holds no .pth files"));
  return corpus;
}

void check_tensors(const std::vector<ForeignTensor>& tensors, std::string_view file) {
  std::uint64_t total_bytes = 0;
  for (const ForeignTensor& tensor : tensors) {
    std::uint64_t span = 1;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      if (tensor.shape[i] == 0) span = 0;
    }
    for (std::size_t i = 0; span > 0 && i < tensor.shape.size(); ++i) {
      span += static_cast<std::uint64_t>(tensor.shape[i] - 1) *
              static_cast<std::uint64_t>(tensor.strides[i]);
    }
    require(span * element_bytes(tensor.element) == tensor.bytes.size(),
            "a tensor's shape spans other bytes than it has");
    require(tensor.bytes.empty() ||
                (tensor.bytes.data() >= file.data() &&
                 tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size()),
            "a tensor lies outside of the file");
    total_bytes += tensor.bytes.size();
  }
  require(total_bytes <= 4 * file.size(), "tensors have more than 4 times the file's size");
}

// Input of a try: a whole file, or a pickle alone.
struct Case {
  std::string bytes{};
  bool is_pickle = false;
};

Case make_case(const Corpus& corpus, const std::vector<std::string>& words, Dice& dice) {
  Case made;
  if (dice.below(2) == 0) {  // a file, damaged anywhere
    made.bytes = corpus.files[dice.below(corpus.files.size())];
    mutate(made.bytes, dice, corpus.files, words);
    return made;
  }
  const std::size_t chosen = dice.below(corpus.pickles.size());
  std::string pickle = corpus.pickles[chosen];
  mutate(pickle, dice, corpus.pickles, words);
  if (dice.below(2) == 0) return {.bytes = std::move(pickle), .is_pickle = true};
  return {.bytes = pth_zip(pickle, corpus.storages[chosen])};  // with right checksums
}

// Returns true if the reader took it.
bool run_case(const Case& input) {
  try {
    if (input.is_pickle) {
      const PickleDocument document = read_pickle(input.bytes, "case");
      require(document.size_bytes <= input.bytes.size(), "a pickle ends after its bytes");
    } else {
      check_tensors(parse_pth(input.bytes, "case").tensors, input.bytes);
    }
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kAnswerNo) throw;
    require(error.kind() == ErrorKind::kData, "refused with another kind than kData");
    require_short_line(error.what(), kMaxMessage);
    return false;
  }
}

FuzzTry make_try(Dice& dice, std::int64_t) {
  static const Corpus corpus = read_corpus(RETINA_SOURCE_DIR "/tests/convert/fixtures");
  static const std::vector<std::string> words = dictionary();
  Case input = make_case(corpus, words, dice);
  const std::size_t most_bytes = kBytesAtLeast + kBytesPerByte * input.bytes.size();
  return {.run = [input = std::move(input)] { return run_case(input); }, .most_bytes = most_bytes};
}

void bound_address_space() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const rlimit limit{.rlim_cur = kAddressSpace, .rlim_max = kAddressSpace};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) {
    throw Error(ErrorKind::kUnavailable, "the address space cannot be limited");
  }
#endif
}

}  // namespace
}  // namespace retina

int main(int argc, char** argv) {
  return retina::fuzz_main(argc, argv, "pth-fuzz", retina::make_try, retina::bound_address_space);
}
