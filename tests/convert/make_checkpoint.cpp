// make-checkpoint: writes a checkpoint of an untrained model, or torchvision's file of one, for
// tests that need a file.
#include "shared/base/file.h"
#include "shared/base/program.h"
#include "shared/cli/cli.h"
#include "tests/convert/random_checkpoint.h"

int main(int argc, char** argv) {
  return retina::run_program("make-checkpoint", [&] {
    retina::ModelConfig config = retina::small_config();
    std::string output = "checkpoint.pt";
    std::uint64_t seed = 1;
    double head_spread = 1;
    bool p6_from_p5 = false, pth = false;
    retina::Cli cli("make-checkpoint", "make-checkpoint --output C.pt [options]",
                    "Writes a checkpoint of an untrained model.");
    cli.option("output", output, "C.pt", "checkpoint to write");
    cli.option("seed", seed, "N", "of the weights");
    cli.option("head-spread", head_spread, "X", "0: every score is 0.01");
    cli.choice("task", config.task, retina::kTaskOptions, "what the model does");
    cli.option("backbone", config.backbone, "NAME", "as retina-train --backbone");
    cli.option("classes", config.class_count, "K", "classes");
    cli.choice("norm", config.norm, retina::kNorms, "of the backbone");
    cli.option("norm-eps", config.norm_eps, "EPS", "of batch norm");
    cli.choice("head-norm", config.head_norm, retina::kHeadNorms, "of the heads");
    cli.option("fpn-channels", config.fpn_channels, "N", "of the pyramid and the heads");
    cli.option("anchors-per-location", config.anchors_per_location, "N", "9 or 1");
    cli.option("head-convs", config.head_convs, "N", "3x3 convolutions of a head");
    cli.flag("p6-from-p5", p6_from_p5, "P6 from P5 (v1), not from C5 (v2)");
    cli.option("anchor-sizes", config.anchor_sizes, "A,B,C,D,E", "px");
    cli.option("min-side", config.min_side_px, "PX", "shorter side after the resize");
    cli.option("max-side", config.max_side_px, "PX", "largest longer side");
    cli.flag("pth", pth, "write what torch.save writes of torchvision's model");
    if (cli.parse(argc, argv) == retina::CliOutcome::kDone) return 0;
    config.p6_from_c5 = !p6_from_p5;
    const retina::Checkpoint made = retina::random_checkpoint(config, seed, head_spread);
    if (pth) {
      retina::write_file_atomically(output, retina::pth_of(made.model));
    } else {
      retina::save_checkpoint(output, made);
    }
    return 0;
  });
}
