// --init: the commonest first use. Weights of other classes, rows of the class layer by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/coco/instances.h"
#include "shared/model/config.h"
#include "tests/convert/make_checkpoint.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr std::size_t kTunedImages = 12;

// The first images of `all` and their boxes, of the classes that `new_names` has only; a class's
// new id is its place in the map, from 7 on.
Instances subset(const Instances& all, const std::map<std::string, std::string>& new_names) {
  Instances result;
  result.images.assign(all.images.begin(), all.images.begin() + kTunedImages);
  std::map<std::int64_t, std::int64_t> new_ids;
  for (const auto& [old_name, new_name] : new_names) {
    for (const Category& category : all.categories) {
      if (category.name != old_name) continue;
      new_ids[category.id] = 7 + static_cast<std::int64_t>(result.categories.size());
      result.categories.push_back({.id = new_ids[category.id], .name = new_name});
    }
  }
  for (Annotation annotation : all.annotations) {
    const bool has_image = annotation.image_id <= result.images.back().id;
    if (!has_image || !new_ids.contains(annotation.category_id)) continue;
    annotation.category_id = new_ids[annotation.category_id];
    result.annotations.push_back(annotation);
  }
  return result;
}

// Without an option of the model.
std::vector<std::string> plain_command(const std::string& shards, const std::string& run, int steps,
                                       const std::vector<std::string>& more) {
  const std::vector<std::string> command = joined(
      {"retina-train", "--train", shards, "--output", run, "--steps", cat(steps)},
      words(
          "--lr 0.0001 --images-per-step 4 --min-side 64 --max-side 96 --clip-norm 10 --threads 1 "
          "--compute-threads 1 --device cpu"));
  return joined(command, more);
}

ModelConfig model_of(const std::string& run) {
  const std::string checkpoint = last_checkpoint(run);
  return model_config_of(read_checkpoint_header(checkpoint).config_json, checkpoint);
}

class FineTune : public testing::Test {
 protected:
  std::string pack(const std::string& name, const Instances& instances, const std::string& images) {
    const std::string annotations = folder_ / (name + ".json"), shards = folder_ / name;
    write_file_atomically(annotations, instances_to_json(instances));
    const ProcessResult packed = run_process(
        {"coco-pack", "--annotations", annotations, "--images", images, "--output", shards});
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
    return shards;
  }
  ProcessResult train(const std::string& shards, const std::string& run, int steps,
                      const std::vector<std::string>& more) {
    return run_process(small_train_command(shards, run, steps, more));
  }
  const TestFolder folder_;
};

TEST_F(FineTune, ATwoClassSubsetStartsFromTheCopiedRows) {
  RETINA_DATA_OR_SKIP(data, "bccd");
  const Instances all = read_instances(data + "/annotations/instances_train.json");
  const std::string images = data + "/images/train";
  const std::string three = pack(
      "three", subset(all, {{"RBC", "RBC"}, {"WBC", "WBC"}, {"Platelets", "Platelets"}}), images);
  // Other order, other ids.
  const std::string two =
      pack("two", subset(all, {{"Platelets", "Platelets"}, {"RBC", "RBC"}}), images);
  const std::string strangers =
      pack("strangers", subset(all, {{"Platelets", "dust"}, {"RBC", "disc"}}), images);

  const std::string source = folder_ / "source";
  const ProcessResult first = train(three, source, 12, {"--optimizer", "adamw"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string checkpoint = last_checkpoint(source);

  const ProcessResult known = train(two, folder_ / "known", 1, {"--init", checkpoint});
  ASSERT_EQ(known.exit_code, 0) << known.err;
  EXPECT_THAT(known.err, HasSubstr("2 of 2 classes matched by name"));
  const ProcessResult fresh = train(strangers, folder_ / "fresh", 1, {"--init", checkpoint});
  ASSERT_EQ(fresh.exit_code, 0) << fresh.err;
  EXPECT_THAT(fresh.err,
              HasSubstr("0 of 2 classes matched by name, randomly initialised: dust, disc"));

  const double copied_loss = first_step(folder_ / "known", "classification_loss");
  const double fresh_loss = first_step(folder_ / "fresh", "classification_loss");
  RecordProperty("copied", cat(copied_loss));
  RecordProperty("fresh", cat(fresh_loss));
  EXPECT_LT(copied_loss, 0.6 * fresh_loss);
  // Everything but the class layer is copied either way.
  EXPECT_DOUBLE_EQ(first_step(folder_ / "known", "box_loss"),
                   first_step(folder_ / "fresh", "box_loss"));
}

TEST_F(FineTune, WhatNoOptionSaysFollowsTheRunWhoseBestCheckpointIsTaken) {
  const Job job;
  const std::string source = folder_ / "source";
  const std::vector<std::string> v1 = {"--head-norm", "none", "--norm-eps", "0.001"};
  ASSERT_EQ(run_process(job.train_command(source, 1, v1)).exit_code, 0);
  const ProcessResult taken =
      run_process(plain_command(job.train_shards(), folder_ / "taken", 1, {"--init", source}));
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_THAT(taken.err, HasSubstr("the model follows --init: --backbone resnet18 --norm-eps 0.001 "
                                   "--head-norm none --anchor-sizes 16,32,64,128,256\n"));
  EXPECT_THAT(taken.err, HasSubstr(cat(source, ": taking checkpoint-")));
  ModelConfig want = model_of(source);
  want.norm = Norm::kFrozen;  // a detector's with --init
  EXPECT_EQ(model_of(folder_ / "taken").to_json(), want.to_json());
}

TEST_F(FineTune, AnOptionThatContradictsTheWeightsIsRefusedWithWhatFits) {
  const Job job;
  const std::string source = folder_ / "source";
  ASSERT_EQ(run_process(job.train_command(source, 1, {"--head-norm", "none"})).exit_code, 0);
  const ProcessResult refused = run_process(
      job.train_command(folder_ / "taken", 1, {"--init", source, "--head-norm", "group"}));
  EXPECT_EQ(refused.exit_code, 78);
  EXPECT_THAT(refused.err, HasSubstr("(it is --head-norm none, the options say --head-norm group); "
                                     "hint: give --head-norm none; "));
  // The refusal left no run: the same folder takes the corrected command.
  const ProcessResult taken =
      run_process(job.train_command(folder_ / "taken", 1, {"--init", source}));
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_THAT(taken.err, HasSubstr("classes matched by name"));
}

// Stand-ins for torchvision's files, which no test downloads: its architectures with 91 rows on a
// ResNet-18, imported as retina-weights does it.
class NamedWeights : public testing::Test {
 protected:
  NamedWeights() { unsetenv("RETINA_WEIGHTS"); }
  ~NamedWeights() override { unsetenv("RETINA_WEIGHTS"); }

  // An import of torchvision's v1 or v2 under the name `source`.
  void import_as(const std::string& source, const std::string& output, bool v2 = false) {
    const std::string file = job_ / source;
    std::vector<std::string> made = {"--pth", "--classes", "91", "--head-spread", "0"};
    const std::vector<std::string> v1 = {"--norm", "frozen", "--head-norm", "none", "--p6-from-p5"};
    if (!v2) made.insert(made.end(), v1.begin(), v1.end());
    make_checkpoint(file, made);
    const ProcessResult imported =
        run_process({"retina-convert", "--import", file, "--output", output});
    ASSERT_EQ(imported.exit_code, 0) << imported.err;
  }
  // The training set with its first two classes called as two of COCO's.
  std::string pack_with_coco_names() {
    const std::string annotations = job_ / "renamed.json", shards = job_ / "shards/renamed";
    Instances instances = read_instances(job_ / "scenes/annotations/instances_train2017.json");
    instances.categories.at(0).name = "person";
    instances.categories.at(1).name = "dog";
    write_file_atomically(annotations, instances_to_json(instances));
    const ProcessResult packed =
        run_process({"coco-pack", "--annotations", annotations, "--images",
                     job_ / "scenes/images/train2017", "--output", shards});
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
    return shards;
  }
  ProcessResult train(const std::string& run, int steps, const std::vector<std::string>& more) {
    return run_process(plain_command(job_.train_shards(), job_ / run, steps, more));
  }
  void expect_refusal(const ProcessResult& refused, int exit_code, const std::string& text) {
    EXPECT_EQ(refused.exit_code, exit_code) << refused.err;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(text));
    EXPECT_FALSE(path_exists(job_ / "run/config.json")) << "no run was begun";
  }
  const Job job_;
  const std::string v1_source_ = "retinanet_resnet50_fpn_coco-eeacb38b.pth",
                    v2_source_ = "retinanet_resnet50_fpn_v2_coco-5905b1c5.pth",
                    v1_ = job_ / "weights/retinanet_resnet50_fpn_coco-eeacb38b.pt",
                    v2_ = job_ / "weights/retinanet_resnet50_fpn_v2_coco-5905b1c5.pt";
};

TEST_F(NamedWeights, ADetectorBringsItsArchitectureAndTheRowsOfItsClasses) {
  import_as(v1_source_, v1_);
  const std::string run = job_ / "run", shards = pack_with_coco_names();
  const auto command = [&](int steps) {
    return plain_command(shards, run, steps, {"--init", "coco-v1"});
  };
  const ProcessResult first = run_process(under_mpirun(2, command(1)));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr(cat("--init coco-v1: ", v1_, "\n")));
  EXPECT_THAT(first.err, HasSubstr("--backbone resnet18 --norm-eps 0 --head-norm none\n"));
  EXPECT_THAT(first.err, testing::ContainsRegex("2 of [3-9] classes matched by name"));
  const ModelConfig model = model_of(run);
  EXPECT_EQ(model.head_norm, HeadNorm::kNone);
  EXPECT_FALSE(model.p6_from_c5);
  EXPECT_EQ(model.norm, Norm::kFrozen);
  EXPECT_EQ(model.norm_eps, 0);

  // The run goes on by the same command, when the weights are gone.
  std::filesystem::remove_all(job_ / "weights");
  const ProcessResult second = run_process(under_mpirun(2, command(2)));
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(steps_logged(run), 2);
  EXPECT_EQ(model_of(run).to_json(), model.to_json());
  EXPECT_THAT(run_process(command(2)).out, HasSubstr("already finished"));
}

TEST_F(NamedWeights, TheSecondVersionTakesNoOption) {
  import_as(v2_source_, job_ / "own/retinanet_resnet50_fpn_v2_coco-5905b1c5.pt", true);
  setenv("RETINA_WEIGHTS", (job_ / "own").c_str(), 1);
  const ProcessResult trained = train("run", 1, {"--init", "coco-v2"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("the model follows --init: --backbone resnet18\n"));
  EXPECT_EQ(model_of(job_ / "run").head_norm, HeadNorm::kGroup);
  EXPECT_TRUE(model_of(job_ / "run").p6_from_c5);
}

TEST_F(NamedWeights, MissingOnesAreFetchedByTheCommandOfTheHint) {
  const std::string fetch = cat("; hint: make weights DATA=", job_.folder().path(),
                                " WEIGHTS=coco-v2 (without the sources: "
                                "retina-weights --output ",
                                job_ / "weights", " coco-v2)\n");
  const std::string file = "retinanet_resnet50_fpn_v2_coco-5905b1c5.pt";
  expect_refusal(train("run", 1, {"--init", "coco-v2"}), 66,
                 cat("error: --init coco-v2: ", file, " is not in a folder weights beside ",
                     job_.train_shards(), " or above it", fetch));
  setenv("RETINA_WEIGHTS", "/nowhere", 1);
  expect_refusal(train("run", 1, {"--init", "coco-v2"}), 66,
                 cat(file, " is not in $RETINA_WEIGHTS (/nowhere) nor in a folder"));
  expect_refusal(train("run", 1, {"--init", "coco-v9"}), 66,
                 "--init coco-v9: no such file; hint: give a run's folder, a checkpoint, or one of "
                 "coco-v2, coco-v1, imagenet-v2, imagenet-v1, "
                 "imagenet-v1-BACKBONE, imagenet-v2-BACKBONE\n");
}

TEST_F(NamedWeights, AnythingElseInTheirPlaceIsRefused) {
  std::filesystem::create_directories(job_ / "weights");
  const auto refused = [&](const std::string& text) {
    expect_refusal(train("run", 1, {"--init", "coco-v2"}), 65, text);
  };
  make_checkpoint(v2_);
  refused(cat(v2_,
              ": is not what --init coco-v2 names (got the checkpoint of a training, want an "
              "import of ",
              v2_source_, "); hint: move it away, then make weights "));
  std::filesystem::remove(v2_);
  import_as(v1_source_, v2_);
  refused(cat("(got an import of ", v1_source_, ", want"));
  write_file_atomically(v2_, "<html>");
  refused(v2_);
  std::filesystem::remove(v2_);
  std::filesystem::create_directories(v2_);
  refused("(got a folder, want");
}

TEST_F(NamedWeights, ANameIsNeverWhatTheWorkingDirectoryHasUnderIt) {
  const std::string own = job_ / "here/coco-v2";
  std::filesystem::create_directories(job_ / "here");
  make_checkpoint(own);
  const auto from_there = [&](const std::string& init) {
    auto command = plain_command(job_.train_shards(), job_ / "run", 1, {"--init", init});
    command[0] = cat(RETINA_BIN_DIR, "/retina-train");
    std::string line = cat("cd '", job_ / "here", "' && exec");
    for (const std::string& word : command) line += cat(" '", word, "'");
    return run_process({"/bin/bash", "-c", line});
  };
  const ProcessResult named = from_there("coco-v2");
  EXPECT_EQ(named.exit_code, 66) << named.err;
  EXPECT_THAT(named.err, HasSubstr("warning: --init coco-v2: takes the weights of that name; what "
                                   "has this name here is ./coco-v2\n"));
  const ProcessResult by_path = from_there("./coco-v2");
  EXPECT_EQ(by_path.exit_code, 0) << by_path.err;
}

}  // namespace
}  // namespace retina
