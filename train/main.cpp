#include "shared/base/short_spins.h"
#include "shared/base/working_folder.h"
#include "train/app.h"

int main(int argc, char** argv) {
  return retina::retina_train(argc, argv);
}
