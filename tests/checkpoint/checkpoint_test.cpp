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
#include <functional>
#include <thread>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/random.h"
#include "shared/checkpoint/sealed_file.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/wire.h"
#include "tests/convert/pth_writer.h"
#include "tests/fuzz/mutate.h"
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

ErrorKind kind_of_loading(const std::string& path) {
  try {
    load_checkpoint(path);
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << path << " was accepted";
  return ErrorKind::kInternal;
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
}

TEST(Checkpoint, HeaderEqualsTheWholeCheckpoints) {
  const TestFolder folder;
  save_checkpoint(folder / "c.pt", sample());
  const CheckpointHeader header = read_checkpoint_header(folder / "c.pt");
  EXPECT_EQ(header.trainer_json, sample().trainer_json);
  EXPECT_EQ(header.config_json, sample().config_json);
  EXPECT_EQ(header.categories.size(), 2u);
}

TEST(Checkpoint, KeepsChannelsLastStrides) {
  const TestFolder folder;
  save_checkpoint(folder / "c.pt", sample());
  const auto got = load_checkpoint(folder / "c.pt");
  EXPECT_EQ(got.model[1].tensor.strides(), sample().model[1].tensor.strides());
  EXPECT_TRUE(got.model[1].tensor.is_contiguous(at::MemoryFormat::ChannelsLast));
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

TEST(Checkpoint, EveryFlippedBitIsFound) {
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
    EXPECT_EQ(kind_of_loading(path), ErrorKind::kData) << "bit " << bit;
  }
}

TEST(Checkpoint, EveryTruncationIsFound) {
  const TestFolder folder;
  const std::string path = folder / "c.pt";
  save_checkpoint(path, sample());
  const std::string good = read_file(path);
  for (std::size_t size = 0; size < good.size(); size += 1 + good.size() / 300) {
    overwrite(path, good.substr(0, size));
    EXPECT_EQ(kind_of_loading(path), ErrorKind::kData) << "size " << size;
  }
  overwrite(path, good + "x");
  EXPECT_EQ(kind_of_loading(path), ErrorKind::kData);
}

TEST(Checkpoint, AFileOfAnotherKindIsRefused) {
  const TestFolder folder;
  overwrite(folder / "text.pt", std::string(5000, 'a'));
  EXPECT_EQ(kind_of_loading(folder / "text.pt"), ErrorKind::kData);
  EXPECT_EQ(kind_of_loading(folder / "missing.pt"), ErrorKind::kNoInput);
  EXPECT_EQ(kind_of_loading(folder.path()), ErrorKind::kNoInput);
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

// What load_checkpoint says to a file that it must refuse as bad data, with the hint.
std::string words_about(const std::string& path) {
  try {
    load_checkpoint(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    return cat(error.what(), "; hint: ", error.hint());
  }
  return "accepted";
}

TEST(Checkpoint, FilesOfOtherToolsAreNamedForWhatTheyAreWithTheWayToACheckpoint) {
  const TestFolder folder;
  const std::string path = folder / "w";
  const auto answer = [&](const std::string& bytes) {
    overwrite(path, bytes);
    for (const auto& read : {std::function<void()>([&] { load_checkpoint(path); }),
                             std::function<void()>([&] { read_checkpoint_header(path); }),
                             std::function<void()>([&] { check_seal(path, "checkpoint"); })}) {
      try {
        read();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
        continue;
      }
      ADD_FAILURE() << "accepted";
    }
    return words_about(path);
  };
  const std::string pickle =
      PickleText().op("}").text("w").tensor("ByteStorage", "k", 8, 0, {8}, {1}).op("s").stop();
  for (const std::string& weights : {pth_zip(pickle, {{"k", "12345678"}}),
                                     pth_legacy(pickle, {{.key = "k", .bytes = "12345678"}})}) {
    EXPECT_EQ(answer(weights),
              cat(path,
                  ": is a file that torch.save wrote, not a checkpoint of retina-batch; "
                  "hint: import it first: retina-convert --import ",
                  path, " --output CHECKPOINT.pt"));
  }
  EXPECT_THAT(answer("version https://git-lfs.github.com/spec/v1\noid sha256:1f\nsize 9\n"),
              AllOf(HasSubstr("Git LFS pointer"), HasSubstr("git lfs pull")));
  EXPECT_THAT(answer("<!doctype html><html></html>"), HasSubstr("web page"));
  EXPECT_THAT(answer("\x08\x07\x12\x07pytorch" + std::string(100, 'x')), HasSubstr("ONNX model"));
  EXPECT_THAT(answer("\x08\x08\x12\x07pytorch" + std::string(100, 'x')), HasSubstr("ONNX model"));
  EXPECT_THAT(answer(stored_zip({{"m/data.pkl", "."}, {"m/constants.pkl", "."}})),
              AllOf(HasSubstr("TorchScript"), HasSubstr("--import")));
  EXPECT_THAT(answer(std::string("\x10\0\0\0\0\0\0\0{\"a\":{}}", 16) + std::string(50, ' ')),
              HasSubstr("safetensors"));
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
  EXPECT_THAT(words_about(folder / "m.onnx"),
              AllOf(HasSubstr("m.onnx: is an inference model that retina-convert wrote"),
                    HasSubstr("give the run's folder")));
}

TEST(Checkpoint, AnotherFormatVersionSaysWhatToDo) {
  const TestFolder folder;
  for (const auto& [version, what, hint] :
       {std::tuple{1, "an earlier version (format got 1, want 2)", "train or convert again"},
        std::tuple{3, "a newer version (format got 3, want 2)", "update"}}) {
    write_with_index(folder / "c.pt", cat(R"({"format_version":)", version, "}"));
    try {
      load_checkpoint(folder / "c.pt");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_THAT(error.what(), HasSubstr(what));
      EXPECT_THAT(error.hint(), HasSubstr(hint));
    }
  }
}

TEST(Checkpoint, ATensorLargerThanItsRecordIsRefused) {
  const TestFolder folder;
  for (const std::string tensor :
       {R"("dtype":"float32","shape":[3],"strides":[1],"record":0)",
        R"("dtype":"float32","shape":[4611686018427387904,8],"strides":[8,1],"record":0)",
        R"("dtype":"float32","shape":[2],"strides":[-1],"record":0)",
        R"("dtype":"float32","shape":[2],"strides":[1,1],"record":0)",
        R"("dtype":"float31","shape":[2],"strides":[1],"record":0)",
        R"("dtype":"float32","shape":[2],"strides":[1],"record":1)"}) {
    write_with_index(folder / "c.pt",
                     cat(R"({"format_version":2,"trainer":"{}","config":"{}",)",
                         R"("categories":[],"optimizer":[],"model":[{"name":"a",)", tensor, "}]}"));
    EXPECT_EQ(kind_of_loading(folder / "c.pt"), ErrorKind::kData) << tensor;
  }
}

// What load_checkpoint says of these bytes under a right seal; "accepted" when it takes them.
std::string answer_to(const std::string& path, const std::string& bytes) {
  overwrite(path, sealed(bytes));
  try {
    load_checkpoint(path);
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    return error.what();
  }
}

std::string index_of(const std::string& tensors) {
  return cat(R"({"format_version":2,"trainer":"{}","config":"{}","categories":[],)",
             R"("optimizer":[],"model":[)", tensors, "]}");
}
constexpr const char* kTwoFloats =
    R"({"name":"a","dtype":"float32","shape":[2],"strides":[1],"record":0})";

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
  try {
    load_checkpoint(folder / "c.pt");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_THAT(error.what(), HasSubstr("archive/data/0 is compressed"));
  }
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

TEST(Checkpoint, TensorsThatShareBytesAreRefused) {
  const TestFolder folder;
  const std::string path = folder / "c.pt";
  const auto zip_of = [](const std::string& tensors) {
    return sealable_zip({{"archive/retina/index.json", index_of(tensors)},
                         {"archive/data/0", "12345678"},
                         {"archive/version", "3\n"}});
  };
  EXPECT_EQ(answer_to(path, zip_of(kTwoFloats)), "accepted");
  EXPECT_THAT(answer_to(path, zip_of(cat(kTwoFloats, ",", kTwoFloats))),
              HasSubstr("is used by another tensor"));
  for (const char* sizes : {R"("shape":[1000000,2],"strides":[0,1])",
                            R"("shape":[4611686018427387904,8,2],"strides":[0,0,1])"}) {
    EXPECT_NE(
        answer_to(path, zip_of(cat(R"({"name":"a","dtype":"float32",)", sizes, R"(,"record":0})"))),
        "accepted")
        << sizes;
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
  try {
    save_checkpoint(folder / "missing/c.pt", sample());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCannotCreate);
  }
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
  ErrorKind kind = ErrorKind::kInternal;
  try {
    save_checkpoint(path, large);
  } catch (const Error& error) {
    kind = error.kind();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, old_handler);

  EXPECT_EQ(kind, ErrorKind::kIo);
  EXPECT_EQ(read_file(path), old);
  EXPECT_FALSE(path_exists(path + ".tmp"));
}

}  // namespace
}  // namespace retina
