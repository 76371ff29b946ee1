// The anchor grids (shared/anchor/anchor.h) as TorchScript, for any input size.
#include <ATen/ops/empty.h>

#include <cstring>

#include "convert/script/script_part.h"
#include "shared/anchor/anchor.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"

namespace retina {

ScriptPart anchors_script(const ModelConfig& config) {
  RETINA_CHECK(config.anchor_sizes.size() == kLevelCount);
  const at::Tensor base = at::empty({kLevelCount, kAnchorsPerCell, 4}, at::kFloat);
  for (std::size_t level = 0; level < config.anchor_sizes.size(); ++level) {
    const auto boxes = base_anchors(config.anchor_sizes[level]);
    std::memcpy(base[static_cast<std::int64_t>(level)].data_ptr(), boxes.data(), sizeof boxes);
  }
  ScriptPart part{.name = "anchors"};
  part.tensors = {{"base", base}};
  part.source = "def forward(self, height: int, width: int) -> List[Tensor]:\n";
  part.line("device = self.base.device");
  part.line("levels: List[Tensor] = []");
  // P3 has an eighth of the padded image's sides; every further level halves, rounding up.
  part.line("rows = height // 4");
  part.line("columns = width // 4");
  part.line(cat("for level in range(", kLevelCount, "):"));
  part.line("    rows = (rows + 1) // 2");
  part.line("    columns = (columns + 1) // 2");
  const std::string centre = cat(" + ", shortest(config.anchor_offset), ") * float(");
  part.line("    y = (torch.arange(rows, dtype=6, device=device)" + centre + "height // rows)");
  part.line("    x = (torch.arange(columns, dtype=6, device=device)" + centre +
            "width // columns)");
  part.line("    y = y.reshape([-1, 1]).expand([rows, columns]).reshape([-1])");
  part.line("    x = x.reshape([1, -1]).expand([rows, columns]).reshape([-1])");
  part.line("    centres = torch.stack([x, y, x, y], 1).reshape([-1, 1, 4])");
  part.line("    levels.append((centres + self.base[level]).reshape([-1, 4]))");
  part.line("return levels");
  return part;
}

}  // namespace retina
