#include "evaluate/app.h"

int main(int argc, char** argv) {
  return retina::retina_eval(argc, argv);
}
