#include "tests/e2e/job.h"

#include <gtest/gtest.h>

#include <sstream>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/scenes/data_set.h"

namespace retina {

Job::Job() {
  const std::string scenes = folder_ / "scenes";
  scenes::write_data_set({.output = scenes, .train_count = 12, .validation_count = 6});
  for (const std::string split : {"train", "val"}) {
    const ProcessResult packed = run_process(
        {"coco-pack", "--annotations", scenes + "/annotations/instances_" + split + "2017.json",
         "--images", scenes + "/images/" + split + "2017", "--output",
         folder_ / ("shards/" + split)});
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
  }
}

std::vector<std::string> small_train_command(const std::string& shards, const std::string& run,
                                             int steps, const std::vector<std::string>& more) {
  std::vector<std::string> command = {"retina-train",
                                      "--train",
                                      shards,
                                      "--output",
                                      run,
                                      "--steps",
                                      std::to_string(steps),
                                      "--images-per-step",
                                      "4",
                                      "--backbone",
                                      "resnet18",
                                      "--min-side",
                                      "64",
                                      "--max-side",
                                      "96",
                                      "--anchor-sizes",
                                      "16,32,64,128,256",
                                      "--lr",
                                      "0.001",
                                      "--clip-norm",
                                      "10",
                                      "--warmup-steps",
                                      "2",
                                      "--compute-threads",
                                      "1",
                                      "--threads",
                                      "1",
                                      "--device",
                                      "cpu"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

std::vector<std::string> Job::train_command(const std::string& run, int steps,
                                            const std::vector<std::string>& more) const {
  return small_train_command(train_shards(), run, steps, more);
}

double first_step(const std::string& run, const char* figure) {
  std::istringstream lines(read_file(run + "/metrics.jsonl"));
  std::string line;
  std::getline(lines, line);
  return JsonFile::parse(line, "metrics.jsonl").root().at(figure).as_double();
}

std::int64_t steps_logged(const std::string& run) {
  const std::string path = run + "/metrics.jsonl";
  if (!path_exists(path)) return 0;
  std::istringstream lines(read_file(path));
  std::int64_t steps = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"loss\"") != std::string::npos) ++steps;
  }
  return steps;
}

std::string last_checkpoint(const std::string& run) {
  const std::string path = run + "/checkpoints.json";
  if (!path_exists(path)) return "";
  return run + "/" + JsonFile::read(path).root().at("last").as_string();
}

}  // namespace retina
