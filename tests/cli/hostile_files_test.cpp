// Every input option of every program, given what is not a file: it is refused at once, and no
// standard stream that came closed or full changes a file or hides an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <memory>
#include <sstream>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "tests/cli/programs.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Longer than the slowest start of a program on a busy machine; a program that waits for a pipe
// never ends.
constexpr double kHangS = 60;

std::vector<std::string> words_of(const std::string& command) {
  std::istringstream words(command);
  return {std::istream_iterator<std::string>(words), {}};
}

// A command line with one input that is not a regular file. In `command`, "@" is a folder of small
// inputs and `hostile` the one that is replaced, below it.
struct HostileInput {
  const char *name, *hostile, *command;
  friend void PrintTo(const HostileInput& input, std::ostream* out) { *out << input.name; }
};

constexpr HostileInput kHostileInputs[] = {
    {"PackConfig", "x.json", "coco-pack --config @/x.json"},
    {"PackCoco", "x.json", "coco-pack --annotations @/x.json --images @/images --output @/out"},
    {"PackVoc", "voc/a.xml",
     "coco-pack --format voc --annotations @/voc --images @/images --output @/out"},
    {"PackCsv", "x.csv",
     "coco-pack --format csv --annotations @/x.csv --classes @/classes.csv --images @/images "
     "--output @/out"},
    {"PackClasses", "classes.csv",
     "coco-pack --format csv --annotations @/boxes.csv --classes @/classes.csv --images @/images "
     "--output @/out"},
    {"PackYolo", "data.yaml",
     "coco-pack --format yolo --annotations @/data.yaml --images @/images --output @/out"},
    {"PackYoloLabels", "labels/a.txt",
     "coco-pack --format yolo --annotations @/data.yaml --images @/images --output @/out"},
    {"PackXview", "x.geojson",
     "coco-pack --format xview --annotations @/x.geojson --images @/images --output @/out"},
    {"PackDota", "labelTxt/a.txt",
     "coco-pack --format dota --annotations @/labelTxt --images @/images --output @/out"},
    {"PackFolderClasses", "x.txt",
     "coco-pack --format folders --images @/classes --classes @/x.txt --output @/out"},
    {"PackFolderLabels", "x.txt",
     "coco-pack --format folders --images @/images --classes @/names.txt --annotations @/x.txt "
     "--output @/out"},
    {"PackCifarFile", "x.bin", "coco-pack --format cifar10 --images @/x.bin --output @/out"},
    {"PackCifarBatch", "cifar/data_batch_1.bin",
     "coco-pack --format cifar10 --images @/cifar --output @/out"},
    {"PackVerify", "set/manifest.json", "coco-pack --verify @/set"},
    {"PackInspect", "set/manifest.json", "coco-pack --inspect @/set"},
    {"TrainConfig", "x.json", "retina-train --config @/x.json"},
    {"Train", "set/manifest.json", "retina-train --train @/set --output @/out"},
    {"TrainInit", "x.pt", "retina-train --synthetic 4 --steps 1 --init @/x.pt --output @/out"},
    {"TrainResume", "x.pt", "retina-train --synthetic 4 --steps 1 --resume @/x.pt --output @/out"},
    {"EvalConfig", "x.json", "retina-eval --config @/x.json"},
    {"EvalModel", "x.pt", "retina-eval --model @/x.pt --images @/images --output @/out"},
    {"EvalRun", "run/checkpoint-01.pt",
     "retina-eval --model @/run --images @/images --output @/out"},
    {"EvalDetections", "x.json",
     "retina-eval --detections @/x.json --annotations @/coco.json --output @/out"},
    {"EvalAnnotations", "x.json",
     "retina-eval --detections @/detections.json --annotations @/x.json --output @/out"},
    {"EvalCompare", "x.json",
     "retina-eval --compare @/x.json @/detections.json --annotations @/coco.json --output @/out"},
    {"ConvertConfig", "x.json", "retina-convert --config @/x.json"},
    {"ConvertCheckpoint", "x.pt", "retina-convert --checkpoint @/x.pt --output @/m.onnx"},
    {"ConvertRun", "run/checkpoint-01.pt", "retina-convert --checkpoint @/run --output @/m.onnx"},
    {"ConvertImport", "x.pth", "retina-convert --import @/x.pth --output @/m.pt"},
    {"ConvertCategories", "x.json",
     "retina-convert --import @/weights.pth --categories @/x.json --output @/m.pt"}};

std::vector<HostileInput> hostile_inputs() {
  std::vector<HostileInput> all;
  for (const HostileInput& one : kHostileInputs) {
    const std::string program = words_of(one.command).front();
    const auto built = built_programs();
    if (std::find(built.begin(), built.end(), program) != built.end()) all.push_back(one);
  }
  return all;
}

// Inputs that are good, or at least not the first to be refused.
void write_small_inputs(const TestFolder& folder) {
  for (const char* name :
       {"images", "labels", "labelTxt", "voc", "set", "run", "cifar", "classes/a"}) {
    make_folder(folder / name);
  }
  const std::string image = R"({"images":[{"id":1,"width":9,"height":9,"file_name":"a.jpg"}],)";
  write_file_atomically(folder / "coco.json",
                        image + R"("categories":[{"id":1,"name":"a"}],"annotations":[]})");
  write_file_atomically(folder / "detections.json", "[]");
  write_file_atomically(folder / "classes.csv", "a,1\n");
  write_file_atomically(folder / "boxes.csv", "a.jpg,1,1,2,2,a\n");
  write_file_atomically(folder / "names.txt", "a\n");
  write_file_atomically(folder / "data.yaml", "names: [a]\n");
  write_file_atomically(folder / "images/a.jpg", "no JPEG");
  write_file_atomically(folder / "weights.pth", "no weights");
}

std::vector<std::string> in_folder(const std::string& command, const TestFolder& folder) {
  std::vector<std::string> arguments = words_of(command);
  for (std::string& one : arguments) {
    if (one.starts_with('@')) one = folder.path() + one.substr(1);
  }
  arguments.insert(arguments.end(), {"--log-level", "error"});
  return arguments;
}

class HostileFiles : public testing::TestWithParam<HostileInput> {};

TEST_P(HostileFiles, ArePipesAndEndlessFilesRefusedAtOnce) {
  const TestFolder pipe, endless, unreadable;
  for (const TestFolder* folder : {&pipe, &endless, &unreadable}) {
    write_small_inputs(*folder);
    fs::remove(*folder / GetParam().hostile);
  }
  ASSERT_EQ(::mkfifo((pipe / GetParam().hostile).c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", endless / GetParam().hostile);
  fs::create_symlink("/proc/kmsg", unreadable / GetParam().hostile);
  // Beside each other: most of the time is the start of a program.
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (const TestFolder* folder : {&pipe, &endless, &unreadable}) {
    children.push_back(std::make_unique<ChildProcess>(in_folder(GetParam().command, *folder)));
  }
  for (const auto& child : children) {
    child->run_until([] { return false; }, kHangS);
    child->signal(SIGKILL);
    const ProcessResult result = child->wait();
    // Or the answer of --verify, whose report is its result.
    EXPECT_THAT(result.exit_code, testing::AnyOf(65, 66, 78, 1)) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(result.out + result.err,
                HasSubstr(fs::path(GetParam().hostile).filename().string()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostileFiles, testing::ValuesIn(hostile_inputs()),
                         [](const auto& instance) { return instance.param.name; });

class StandardStreams : public testing::TestWithParam<std::string> {
 protected:
  // The program's exit code, with the shell's `redirections`.
  ProcessResult run(const std::string& arguments, const std::string& redirections) const {
    return run_process(
        {"sh", "-c",
         cat("exec ", RETINA_BIN_DIR, "/", GetParam(), " ", arguments, " ", redirections)});
  }
};

TEST_P(StandardStreams, ThatAreFullAreAnErrorOfTheResults) {
  if (!path_exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  for (const char* option : {"--help", "--version"}) {
    const ProcessResult result = run(option, ">/dev/full");
    EXPECT_EQ(result.exit_code, 74) << option;
    EXPECT_THAT(result.err, HasSubstr("stdout: the results could not be written"));
  }
}

// The first file that is opened would take the place of a closed stream.
TEST_P(StandardStreams, ThatAreClosedNeverBecomeAFile) {
  const TestFolder folder;
  const std::string config = folder / "config.json";
  write_file_atomically(config, R"({"no-such-option": 1})");
  const std::string arguments = cat("--config ", config);
  EXPECT_EQ(run(arguments, "<&- >&- 2>&-").exit_code, 64);
  EXPECT_EQ(run("--help", "<&- >&- 2>&-").exit_code, 0);
  EXPECT_THAT(run(arguments, "<&- >&-").err, HasSubstr("no-such-option"));
}

INSTANTIATE_TEST_SUITE_P(All, StandardStreams, testing::ValuesIn(built_programs()),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace retina
