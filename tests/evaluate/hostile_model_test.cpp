// A converted model from elsewhere, resealed after its code or its pickle was changed: without
// --trust it is refused by name and nothing of it runs; with --trust it does what it says.
#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/base/file.h"
#include "shared/checkpoint/sealed_file.h"
#include "tests/convert/pth_writer.h"
#include "tests/evaluation/tiny_world.h"
#include "tests/support/child_process.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr const char* kCode = "archive/code/__torch__/retina.py";
constexpr const char* kPickle = "archive/data.pkl";

class HostileModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TestFolder;
    write_tiny_shards(*folder_ / "shards", 2);
    write_tiny_checkpoint(*folder_ / "checkpoint.pt", tiny_network(4));
    const ProcessResult converted =
        run_process({"retina-convert", "--checkpoint", *folder_ / "checkpoint.pt", "--output",
                     *folder_ / "model.pt", "--score-threshold", "0.008", "--proof-images", "1"});
    ASSERT_EQ(converted.exit_code, 0) << converted.err;
    caffe2::serialize::PyTorchStreamReader zip(*folder_ / "model.pt");
    for (const std::string& name : zip.getAllRecords()) {
      std::string bytes(zip.getRecordSize(name), '\0');
      zip.getRecord(name, bytes.data(), bytes.size());
      records_.emplace_back("archive/" + name, bytes);
    }
  }
  static void TearDownTestSuite() { delete folder_; }

  // The good model's records, `from` in `record` replaced by `to`.
  static NamedBytes changed(const std::string& record, const std::string& from,
                            const std::string& to) {
    NamedBytes records = records_;
    for (auto& [name, bytes] : records) {
      if (name != record) continue;
      const std::size_t place = bytes.find(from);
      EXPECT_NE(place, std::string::npos) << from;
      bytes.replace(place, from.size(), to);
    }
    return records;
  }

  // `code` goes before the line that holds `line`, in its method.
  static NamedBytes with_code(const std::string& line, const std::string& code) {
    return changed(kCode, line, code + "\n" + line);
  }

  static ProcessResult evaluate(const NamedBytes& records, const std::vector<std::string>& more) {
    const std::string zip = stored_zip(records);
    write_sealed(*folder_ / "hostile.pt",
                 [&](const ByteSink& sink) { sink(zip.data(), zip.size()); });
    std::vector<std::string> command{"retina-eval",
                                     "--model",
                                     *folder_ / "hostile.pt",
                                     "--data",
                                     *folder_ / "shards",
                                     "--output",
                                     *folder_ / "evaluation",
                                     "--device",
                                     "cpu",
                                     "--compute-threads",
                                     "1",
                                     "--overwrite"};
    command.insert(command.end(), more.begin(), more.end());
    return run_process(command);
  }

  static std::string target() { return *folder_ / "written"; }
  static std::string save_call() { return cat("ops.aten.save([1, 2], \"", target(), "\")"); }

  static void expect_refused(const NamedBytes& records, const std::string& reason) {
    remove_file(target());
    remove_file(*folder_ / "evaluation/detections.json");
    const ProcessResult result = evaluate(records, {});
    EXPECT_EQ(result.exit_code, 65) << result.err;
    EXPECT_THAT(result.err, HasSubstr("hostile.pt: "));
    EXPECT_THAT(result.err, HasSubstr(reason));
    EXPECT_THAT(result.err, HasSubstr("--trust"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_FALSE(path_exists(target()));
    EXPECT_FALSE(path_exists(*folder_ / "evaluation/detections.json"));
  }

  // The attack is real: with --trust the file is there afterwards, whatever the exit code.
  static void expect_refused_though_it_works(const NamedBytes& records, const std::string& reason) {
    expect_refused(records, reason);
    evaluate(records, {"--trust"});
    EXPECT_TRUE(path_exists(target()));
  }

  static TestFolder* folder_;
  static NamedBytes records_;
};
TestFolder* HostileModel::folder_ = nullptr;
NamedBytes HostileModel::records_;

TEST_F(HostileModel, TheSameRecordsUnchangedAreTaken) {
  EXPECT_EQ(evaluate(records_, {}).exit_code, 0);
}

TEST_F(HostileModel, ASetstateThatRunsInsideOfLoadIsRefused) {
  expect_refused_though_it_works(
      with_code("  def forward(self: __torch__.retina.suppression",
                cat("  def __setstate__(self: __torch__.retina.suppression,\n"
                    "    state: Dict[str, bool]) -> NoneType:\n    ",
                    save_call(),
                    "\n    self.training = False\n    return None\n"
                    "  def __getstate__(self: __torch__.retina.suppression) -> Dict[str, bool]:\n"
                    "    return {\"training\": False}")),
      "defines __setstate__, which LibTorch may call");
}

TEST_F(HostileModel, ADefaultArgumentThatIsComputedInsideOfLoadIsRefused) {
  expect_refused_though_it_works(
      changed(kCode, "    width: int) -> Tensor:",
              cat("    width: int, evil: int=torch.len([", save_call(), "])) -> Tensor:")),
      "has the signature def decode");
}

TEST_F(HostileModel, AConstantOfAClassThatIsComputedInsideOfLoadIsRefused) {
  expect_refused_though_it_works(
      with_code("  config : str", cat("  evil : Final[int] = torch.size(torch.from_file(\"",
                                      target(), "\", True, 16), 0)")),
      "has the attribute evil");
}

TEST_F(HostileModel, AForwardThatSavesIsRefused) {
  expect_refused_though_it_works(
      with_code("    count = torch.size(images, 0)", "    " + save_call()),
      "__torch__.retina.RetinaNet.forward uses aten::save");
}

TEST_F(HostileModel, ALoopThatSavesIsRefused) {
  expect_refused_though_it_works(
      with_code("      best_boxes, best_scores, best_labels, =", "      " + save_call()),
      "__torch__.retina.RetinaNet.forward uses aten::save");
}

TEST_F(HostileModel, AMethodOfASubmoduleThatSavesIsRefused) {
  expect_refused_though_it_works(
      with_code("    count = torch.size(boxes, 0)", "    " + save_call()),
      "__torch__.retina.suppression.forward uses aten::save");
}

TEST_F(HostileModel, AnOperatorThatMapsAFileIsRefused) {
  expect_refused_though_it_works(
      changed(kCode, "    count = torch.size(images, 0)",
              cat("    evil = torch.from_file(\"", target(),
                  "\", True, 16)\n    count = torch.mul(torch.size(images, 0), "
                  "torch.floordiv(torch.size(evil, 0), 16))")),
      "uses aten::from_file");
}

TEST_F(HostileModel, AHookThatRunsWithForwardIsRefused) {
  expect_refused(with_code("  training : bool", "  __forward_pre_hooks__ = [\"evil\", ]"),
                 "__forward_pre_hooks__");
}

TEST_F(HostileModel, ACustomClassInAPickleIsRefused) {
  expect_refused(changed(kPickle, "__torch__.retina\nsuppression\n",
                         "__torch__.torch.classes.quantized\nConv2dPackedParamsBase\n"),
                 "__torch__.torch.classes.quantized.Conv2dPackedParamsBase");
}

TEST_F(HostileModel, ATensorBeyondItsStorageIsRefused) {
  // The mean's shape [1, 3, 1, 1], and before it its storage's three elements.
  const std::string shape("(K\1K\3K\1K\1t", 10), longer("(K\1K\xffK\1K\1t", 10);
  expect_refused(changed(kPickle, shape, longer), "does not lie within its storage");
  expect_refused(changed(kPickle, "K\3tQ", "K\xfftQ"),
                 "data/0 has a different size than data.pkl says");
}

TEST_F(HostileModel, RecordsThatLibTorchWouldFindInsteadAreRefused) {
  NamedBytes doubled = records_;
  doubled.emplace_back(kCode, "class evil(Module):\n");
  EXPECT_THAT(evaluate(doubled, {"--trust"}).err,
              HasSubstr("the same name, archive/code/__torch__"));
  doubled.back().first = "archive/CODE/__torch__/Retina.py";
  EXPECT_THAT(evaluate(doubled, {"--trust"}).err,
              HasSubstr("the same name, archive/code/__torch__"));
  doubled.back().first = "archive/code/__torch__/other.py";
  expect_refused(doubled, "holds the record archive/code/__torch__/other.py");
  doubled.back().first = "archive/../other";
  EXPECT_THAT(evaluate(doubled, {"--trust"}).err, HasSubstr("archive/../other"));
}

}  // namespace
}  // namespace retina
