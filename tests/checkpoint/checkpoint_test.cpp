#include "shared/checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/checkpoint/sealed_file.h"
#include "shared/numeric/random.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/wire.h"
#include "tests/convert/pth_writer.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Checkpoint sample() {
  Checkpoint checkpoint;
  checkpoint.model = {
      {"conv.weight", at::arange(24, at::kFloat).reshape({2, 3, 2, 2})},
      {"conv.channels_last",
       at::arange(72, at::kFloat).reshape({2, 4, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast)},
      {"bn.num_batches_tracked", at::scalar_tensor(7, at::kLong)},
      {"empty", at::empty({0, 4})},
      {"half", at::ones({3}, at::kBFloat16)}};
  checkpoint.optimizer = {{"exp_avg.conv.weight", at::full({2, 3, 2, 2}, 0.5, at::kDouble)}};
  checkpoint.trainer_json =
      R"({"step":12,"lr":0.1,"names":["a","b"],"done":false,"seed":18446744073709551615})";
  checkpoint.config_json = R"({"model":{"backbone":"resnet18"},"train":{"epochs":3}})";
  checkpoint.categories = {{.id = 3, .name = "Zelle \"α\"", .supercategory = "x"},
                           {.id = 90, .name = "b", .supercategory = ""}};
  return checkpoint;
}

void expect_equal(const NamedTensors& got, const NamedTensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].name, want[i].name);
    EXPECT_EQ(got[i].tensor.scalar_type(), want[i].tensor.scalar_type()) << want[i].name;
    EXPECT_TRUE(at::equal(got[i].tensor, want[i].tensor)) << want[i].name;
  }
}

// What load_checkpoint says to a file that it must refuse as bad data; "accepted" otherwise.
std::string refusal(const std::string& path) {
  return refusal_of(ErrorKind::kData, [&] { load_checkpoint(path); });
}

void overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

TEST(Checkpoint, ReadsBackWhatWasWritten) {
  const TestFolder folder;
  const Checkpoint want = sample();
  const std::uint64_t hash = save_checkpoint(folder / "c.pt", want);
  const Checkpoint got = load_checkpoint(folder / "c.pt");
  expect_equal(got.model, want.model);
  expect_equal(got.optimizer, want.optimizer);
  EXPECT_EQ(got.trainer_json, want.trainer_json);
  EXPECT_EQ(got.config_json, want.config_json);
  ASSERT_EQ(got.categories.size(), 2u);
  EXPECT_EQ(got.categories[0].id, 3);
  EXPECT_EQ(got.categories[0].name, want.categories[0].name);
  EXPECT_EQ(got.categories[0].supercategory, "x");
  EXPECT_EQ(check_seal(folder / "c.pt", "checkpoint"), hash);
  EXPECT_FALSE(path_exists(folder / "c.pt.tmp"));
  EXPECT_EQ(got.model[1].tensor.strides(), want.model[1].tensor.strides());
  EXPECT_TRUE(got.model[1].tensor.is_contiguous(at::MemoryFormat::ChannelsLast));
  const CheckpointHeader header = read_checkpoint_header(folder / "c.pt");
  EXPECT_EQ(header.trainer_json, want.trainer_json);
  EXPECT_EQ(header.config_json, want.config_json);
  EXPECT_EQ(header.categories.size(), 2u);
}

TEST(Checkpoint, WritesViewsOfOneBufferApartAndSmall) {
  const TestFolder folder;
  const at::Tensor buffer = at::arange(1'000'000, at::kFloat);
  Checkpoint checkpoint;
  checkpoint.model = {{"a", buffer.slice(0, 10, 20)},
                      {"same", buffer.slice(0, 10, 20)},
                      {"strided", buffer.slice(0, 0, 20, 2)},
                      {"expanded", buffer.slice(0, 5, 6).expand({4})},
                      {"needs_grad", buffer.slice(0, 0, 3).clone().requires_grad_()}};
  save_checkpoint(folder / "c.pt", checkpoint);
  expect_equal(load_checkpoint(folder / "c.pt").model, checkpoint.model);
  EXPECT_LT(file_size_bytes(folder / "c.pt"), 10'000u);
}

TEST(Checkpoint, SameContentGivesTheSameBytes) {
  const TestFolder folder;
  save_checkpoint(folder / "a.pt", sample());
  save_checkpoint(folder / "b.pt", sample());
  EXPECT_EQ(read_file(folder / "a.pt"), read_file(folder / "b.pt"));
}

TEST(Checkpoint, ThreadsWriteAtTheSameTime) {
  const TestFolder folder;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] { save_checkpoint(folder / cat("c", i), sample()); });
  }
  for (auto& thread : threads) thread.join();
  for (int i = 0; i < 4; ++i) {
    expect_equal(load_checkpoint(folder / cat("c", i)).model, sample().model);
  }
}

TEST(Checkpoint, EveryFlippedBitAndEveryTruncationIsFound) {
  const TestFolder folder;
  const std::string path = folder / "c.pt";
  save_checkpoint(path, sample());
  const std::string good = read_file(path);
  const RandomStream random{.seed = 1};
  SCOPED_TRACE("seed 1");
  for (std::uint64_t i = 0; i < 400; ++i) {
    // The first and the last 100 bytes' bits too: zip headers and the seal.
    const std::uint64_t bit = i < 100   ? i
                              : i < 200 ? good.size() * 8 - 1 - (i - 100)
                                        : random.below(i, good.size() * 8);
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    overwrite(path, bad);
    EXPECT_NE(refusal(path), "accepted") << "bit " << bit;
  }
  for (std::size_t size = 0; size < good.size(); size += 1 + good.size() / 300) {
    overwrite(path, good.substr(0, size));
    EXPECT_NE(refusal(path), "accepted") << "size " << size;
  }
  overwrite(path, good + "x");
  EXPECT_NE(refusal(path), "accepted");
  for (const std::string& missing : {folder / "missing.pt", folder.path()}) {
    EXPECT_NE(refusal_of(ErrorKind::kNoInput, [&] { load_checkpoint(missing); }), "accepted");
  }
}

// A zip of stored records that ends as a sealed one does.
std::string sealable_zip(const NamedBytes& records) {
  std::string zip = stored_zip(records);
  zip[zip.size() - 2] = 28;
  return zip;
}

std::string sealed(const std::string& zip) {
  return cat(zip, "retina-xxh3:", hex64(xxh3(zip)));
}

// A sealed file with this index and one record of 8 bytes.
void write_with_index(const std::string& path, const std::string& index) {
  write_sealed(path, [&](const ByteSink& sink) {
    caffe2::serialize::PyTorchStreamWriter zip(sink);
    zip.writeRecord("retina/index.json", index.data(), index.size());
    zip.writeRecord("data/0", "12345678", 8);
    zip.writeEndOfFile();
  });
}

TEST(Checkpoint, FilesOfOtherToolsAreNamedForWhatTheyAreWithTheWayToACheckpoint) {
  const TestFolder folder;
  const std::string path = folder / "w";
  const auto answer = [&](const std::string& bytes) -> std::string {
    overwrite(path, bytes);
    EXPECT_NE(refusal(path), "accepted");
    try {
      check_seal(path, "checkpoint");
    } catch (const Error& error) {
      return cat(error.what(), "; hint: ", error.hint());
    }
    return "accepted";
  };
  const std::string pickle =
      PickleText().op("}").text("w").tensor("ByteStorage", "k", 8, 0, {8}, {1}).op("s").stop();
  for (const std::string& weights : {pth_zip(pickle, {{"k", "12345678"}}),
                                     pth_legacy(pickle, {{.key = "k", .bytes = "12345678"}})}) {
    EXPECT_THAT(answer(weights),
                AllOf(HasSubstr("is a file that torch.save wrote, not a checkpoint"),
                      HasSubstr(cat("retina-convert --import ", path, " --output CHECKPOINT.pt"))));
  }
  EXPECT_THAT(answer("version https://git-lfs.github.com/spec/v1\noid sha256:1f\nsize 9\n"),
              AllOf(HasSubstr("Git LFS pointer"), HasSubstr("git lfs pull")));
  EXPECT_THAT(answer(std::string(5000, 'a')), HasSubstr("not a checkpoint"));
}

TEST(Checkpoint, AnInferenceModelOfOursIsSaidToBeOne) {
  const TestFolder folder;
  const std::string text = InferenceHeader{.checkpoint_hash = 1}.to_json();
  const auto field = [](std::uint32_t number, const std::string& bytes) {
    return wire_prefix(number, bytes.size()) + bytes;
  };
  const std::string entry =
      field(onnx_field::kEntryKey, kInferenceHeaderKey) + field(onnx_field::kEntryValue, text);
  write_onnx_file(folder / "m.onnx", "\x08\x08" + field(onnx_field::kModelMetadata, entry));
  EXPECT_THAT(refusal(folder / "m.onnx"),
              HasSubstr("m.onnx: is an inference model that retina-convert wrote"));
}

TEST(Checkpoint, AnotherFormatVersionIsRefused) {
  const TestFolder folder;
  for (const auto& [version, words] : {std::pair{1, "an earlier version (format got 1, want 2)"},
                                       {3, "a newer version (format got 3, want 2)"}}) {
    write_with_index(folder / "c.pt", cat(R"({"format_version":)", version, "}"));
    EXPECT_THAT(refusal(folder / "c.pt"), HasSubstr(words));
  }
}

std::string index_of(const std::string& tensors) {
  return cat(R"({"format_version":2,"trainer":"{}","config":"{}","categories":[],)",
             R"("optimizer":[],"model":[)", tensors, "]}");
}
constexpr const char* kTwoFloats =
    R"({"name":"a","dtype":"float32","shape":[2],"strides":[1],"record":0})";

TEST(Checkpoint, ATensorThatIsNotAllOfItsOwnRecordIsRefused) {
  const TestFolder folder;
  const auto answer = [&](const std::string& tensors) {
    write_with_index(folder / "c.pt", index_of(tensors));
    return refusal(folder / "c.pt");
  };
  EXPECT_EQ(answer(kTwoFloats), "accepted");
  EXPECT_THAT(answer(cat(kTwoFloats, ",", kTwoFloats)), HasSubstr("is used by another tensor"));
  for (const std::string tensor :
       {R"("dtype":"float32","shape":[3],"strides":[1],"record":0)",
        R"("dtype":"float32","shape":[4611686018427387904,8],"strides":[8,1],"record":0)",
        R"("dtype":"float32","shape":[1000000,2],"strides":[0,1],"record":0)",
        R"("dtype":"float32","shape":[4611686018427387904,8,2],"strides":[0,0,1],"record":0)",
        R"("dtype":"float32","shape":[2],"strides":[-1],"record":0)",
        R"("dtype":"float32","shape":[2],"strides":[1,1],"record":0)",
        R"("dtype":"float31","shape":[2],"strides":[1],"record":0)",
        R"("dtype":"float32","shape":[2],"strides":[1],"record":1)"}) {
    EXPECT_NE(answer(cat(R"({"name":"a",)", tensor, "}")), "accepted") << tensor;
  }
}

// What load_checkpoint says of these bytes under a right seal; "accepted" when it takes them.
std::string answer_to(const std::string& path, const std::string& bytes) {
  overwrite(path, sealed(bytes));
  return refusal(path);
}

TEST(Checkpoint, ACompressedRecordIsRefusedBeforeItIsUnpacked) {
  const TestFolder folder;
  const std::size_t element_count = 16 << 20;
  const std::string zeros(element_count * sizeof(float), '\0');
  const std::string index = index_of(cat(R"({"name":"a","dtype":"float32","shape":[)",
                                         element_count, R"(],"strides":[1],"record":0})"));
  write_sealed(folder / "c.pt", [&](const ByteSink& sink) {
    caffe2::serialize::PyTorchStreamWriter zip(sink);
    zip.writeRecord("retina/index.json", index.data(), index.size());
    zip.writeRecord("data/0", zeros.data(), zeros.size(), /*compress=*/true);
    zip.writeEndOfFile();
  });
  ASSERT_LT(file_size_bytes(folder / "c.pt"), zeros.size() / 100);
  EXPECT_THAT(refusal(folder / "c.pt"), HasSubstr("archive/data/0 is compressed"));
}

TEST(Checkpoint, RecordsThatLibTorchWouldFindInsteadAreRefused) {
  const TestFolder folder;
  const std::string index = index_of(kTwoFloats), path = folder / "c.pt";
  const NamedBytes good = {{"archive/retina/index.json", index},
                           {"archive/data/0", "12345678"},
                           {"archive/version", "3\n"}};
  EXPECT_EQ(answer_to(path, sealable_zip(good)), "accepted");
  for (const char* name : {"archive/data/0", "archive/DATA/0", "archive/../x", "other/data/1"}) {
    NamedBytes bad = good;
    bad.emplace_back(name, "abcdefgh");
    EXPECT_THAT(answer_to(path, sealable_zip(bad)), HasSubstr("c.pt: ")) << name;
  }
}

// Bounds the address space to what the program has and `more_bytes`, while it lives.
class BoundedMemory {
 public:
  explicit BoundedMemory(std::uint64_t more_bytes) {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    EXPECT_EQ(::getrlimit(RLIMIT_AS, &before_), 0);
    rlimit bounded = before_;
    bounded.rlim_cur = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + more_bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_AS, &bounded), 0);
  }
  ~BoundedMemory() { EXPECT_EQ(::setrlimit(RLIMIT_AS, &before_), 0); }
  BoundedMemory(const BoundedMemory&) = delete;
  BoundedMemory& operator=(const BoundedMemory&) = delete;

 private:
  rlimit before_{};
};

// Anyone can seal a file. The address space is bounded by what the program has already: LibTorch
// says when it cannot allocate.
TEST(Checkpoint, DamageUnderARightSealIsReadOrRefusedInBoundedMemory) {
  const TestFolder folder;
  save_checkpoint(folder / "good.pt", sample());
  std::string good = read_file(folder / "good.pt");
  good.resize(good.size() - 28);
  const std::vector<std::string> words = {"PK\1\2",       "PK\5\6", "PK\6\6",
                                          "\"record\":0", "[0,1]",  "[1152921504606846976]",
                                          "archive/",     "data/1"};
  SCOPED_TRACE("seed 1");
  load_checkpoint(folder / "good.pt");  // what LibTorch needs once
  const BoundedMemory bounded(std::uint64_t{1} << 30);
  int accepted = 0;
  for (std::uint32_t run = 0; run < 400; ++run) {
    Dice dice(1, run);
    std::string bytes = good;
    mutate(bytes, dice, {good}, words);
    const std::string answer = answer_to(folder / "c.pt", bytes);
    EXPECT_EQ(answer.find("allocate"), std::string::npos) << "run " << run << ": " << answer;
    EXPECT_EQ(answer.find('\n'), std::string::npos) << "run " << run << ": " << answer;
    accepted += answer == "accepted" ? 1 : 0;
  }
  EXPECT_GT(accepted, 0);  // bytes of tensors may change
}

TEST(Checkpoint, AnUnwritableFolderIsCannotCreate) {
  const TestFolder folder;
  EXPECT_NE(refusal_of(ErrorKind::kCannotCreate,
                       [&] { save_checkpoint(folder / "missing/c.pt", sample()); }),
            "accepted");
}

// A file size limit stands in for a full disk: write() fails as_io_error with EFBIG.
TEST(Checkpoint, AFullDiskIsAnIoErrorAndLeavesTheOldFile) {
  const TestFolder folder;
  const std::string path = folder / "c.pt";
  save_checkpoint(path, sample());
  const std::string old = read_file(path);
  Checkpoint large = sample();
  large.model.push_back({"large", at::zeros({1 << 20})});

  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string words = refusal_of(ErrorKind::kIo, [&] { save_checkpoint(path, large); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, old_handler);

  EXPECT_NE(words, "accepted");
  EXPECT_EQ(read_file(path), old);
  EXPECT_FALSE(path_exists(path + ".tmp"));
}

}  // namespace
}  // namespace retina
