#include "evaluate/app.h"
#include "shared/base/short_spins.h"
#include "shared/base/working_folder.h"

int main(int argc, char** argv) {
  return retina::retina_eval(argc, argv);
}
