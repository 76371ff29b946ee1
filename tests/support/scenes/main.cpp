// render_scenes: the demo's data set, rendered on the spot.
#include <iostream>

#include "shared/base/program.h"
#include "shared/cli/cli.h"
#include "tests/support/scenes/data_set.h"

int main(int argc, char** argv) {
  return retina::run_program("render_scenes", [&] {
    retina::scenes::DataSetOptions options;
    retina::Cli cli("render_scenes", "render_scenes --output DIR",
                    "renders a small data set of textured shapes in COCO's layout");
    cli.option("output", options.output, "DIR", "folder for annotations/ and images/");
    cli.option("seed", options.seed, "N", "another seed, other images");
    cli.option("train", options.train_count, "N", "training images");
    cli.option("validation", options.validation_count, "N", "validation images");
    cli.option("classes", options.classes, "N",
               "1..80; the first five are the shapes, the others have other colours and textures");
    cli.option("side", options.side_px, "PX",
               "large square images with many small objects, as from the air; 0: small scenes");
    cli.option("object-size", options.object_px, "PX", "of their objects");
    cli.option("threads", options.threads, "N", "0: one a core");
    cli.flag("intact", options.intact, "no cut, empty or foreign files among the images");
    if (cli.parse(argc, argv) == retina::CliOutcome::kDone) return 0;
    const bool written = retina::scenes::write_data_set(options);
    std::cout << (written ? "rendered " : "already rendered: ")
              << options.train_count + options.validation_count << " images in " << options.output
              << '\n';
    return 0;
  });
}
