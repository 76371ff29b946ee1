// render_classes: the classification demo's data set, rendered on the spot.
#include <iostream>

#include "shared/base/program.h"
#include "shared/cli/cli.h"
#include "tests/support/classes/class_set.h"

int main(int argc, char** argv) {
  return retina::run_program("render_classes", [&] {
    using retina::classes::ClassLayout;
    retina::classes::ClassSetOptions options;
    retina::Cli cli("render_classes", "render_classes --output DIR",
                    "renders images of ten shapes, one class each");
    cli.option("output", options.output, "DIR", "folder for the set");
    cli.choice("layout", options.layout,
               {{"cifar10", ClassLayout::kCifar10}, {"folders", ClassLayout::kFolders}},
               "cifar10: the files of CIFAR-10's binary version; folders: {train,val}/CLASS/*.jpg");
    cli.option("seed", options.seed, "N", "another seed, other images");
    cli.option("train", options.train_count, "N", "training images");
    cli.option("validation", options.validation_count, "N", "validation images");
    cli.option("side", options.side_px, "PX", "width and height; folders alone have any");
    cli.option("threads", options.threads, "N", "0: one a core");
    if (cli.parse(argc, argv) == retina::CliOutcome::kDone) return 0;
    const bool written = retina::classes::write_class_set(options);
    std::cout << (written ? "rendered " : "already rendered: ")
              << options.train_count + options.validation_count << " images in " << options.output
              << '\n';
    return 0;
  });
}
