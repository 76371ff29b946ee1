#include "shared/image/draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace retina {
namespace {

// The font: 5 x 9 cells (two below the baseline); no font file is needed.
constexpr int kGlyphWidth = 5, kGlyphHeight = 9;

using Glyph = std::array<std::uint8_t, kGlyphHeight>;

// Glyphs of printable ASCII from ' ' on; rows from top to bottom, the leftmost column in bit 4.
constexpr std::array<Glyph, 95> kGlyphs = {{
    {0b00000, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000},  // space
    {0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b00000, 0b00100, 0b00000, 0b00000},  // !
    {0b01010, 0b01010, 0b01010, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000},  // "
    {0b01010, 0b01010, 0b11111, 0b01010, 0b11111, 0b01010, 0b01010, 0b00000, 0b00000},  // #
    {0b00100, 0b01111, 0b10100, 0b01110, 0b00101, 0b11110, 0b00100, 0b00000, 0b00000},  // $
    {0b11000, 0b11001, 0b00010, 0b00100, 0b01000, 0b10011, 0b00011, 0b00000, 0b00000},  // %
    {0b01100, 0b10010, 0b10100, 0b01000, 0b10101, 0b10010, 0b01101, 0b00000, 0b00000},  // &
    {0b00100, 0b00100, 0b01000, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000},  // '
    {0b00010, 0b00100, 0b01000, 0b01000, 0b01000, 0b00100, 0b00010, 0b00000, 0b00000},  // (
    {0b01000, 0b00100, 0b00010, 0b00010, 0b00010, 0b00100, 0b01000, 0b00000, 0b00000},  // )
    {0b00000, 0b00100, 0b10101, 0b01110, 0b10101, 0b00100, 0b00000, 0b00000, 0b00000},  // *
    {0b00000, 0b00100, 0b00100, 0b11111, 0b00100, 0b00100, 0b00000, 0b00000, 0b00000},  // +
    {0b00000, 0b00000, 0b00000, 0b00000, 0b00000, 0b01100, 0b01100, 0b00100, 0b01000},  // ,
    {0b00000, 0b00000, 0b00000, 0b11111, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000},  // -
    {0b00000, 0b00000, 0b00000, 0b00000, 0b00000, 0b01100, 0b01100, 0b00000, 0b00000},  // .
    {0b00000, 0b00001, 0b00010, 0b00100, 0b01000, 0b10000, 0b00000, 0b00000, 0b00000},  // /
    {0b01110, 0b10001, 0b10011, 0b10101, 0b11001, 0b10001, 0b01110, 0b00000, 0b00000},  // 0
    {0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110, 0b00000, 0b00000},  // 1
    {0b01110, 0b10001, 0b00001, 0b00010, 0b00100, 0b01000, 0b11111, 0b00000, 0b00000},  // 2
    {0b11111, 0b00010, 0b00100, 0b00010, 0b00001, 0b10001, 0b01110, 0b00000, 0b00000},  // 3
    {0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010, 0b00000, 0b00000},  // 4
    {0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110, 0b00000, 0b00000},  // 5
    {0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110, 0b00000, 0b00000},  // 6
    {0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000, 0b00000, 0b00000},  // 7
    {0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110, 0b00000, 0b00000},  // 8
    {0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100, 0b00000, 0b00000},  // 9
    {0b00000, 0b01100, 0b01100, 0b00000, 0b01100, 0b01100, 0b00000, 0b00000, 0b00000},  // :
    {0b00000, 0b00000, 0b01100, 0b01100, 0b00000, 0b01100, 0b01100, 0b00100, 0b01000},  // ;
    {0b00010, 0b00100, 0b01000, 0b10000, 0b01000, 0b00100, 0b00010, 0b00000, 0b00000},  // <
    {0b00000, 0b00000, 0b11111, 0b00000, 0b11111, 0b00000, 0b00000, 0b00000, 0b00000},  // =
    {0b01000, 0b00100, 0b00010, 0b00001, 0b00010, 0b00100, 0b01000, 0b00000, 0b00000},  // >
    {0b01110, 0b10001, 0b00001, 0b00010, 0b00100, 0b00000, 0b00100, 0b00000, 0b00000},  // ?
    {0b01110, 0b10001, 0b00001, 0b01101, 0b10101, 0b10101, 0b01110, 0b00000, 0b00000},  // @
    {0b01110, 0b10001, 0b10001, 0b10001, 0b11111, 0b10001, 0b10001, 0b00000, 0b00000},  // A
    {0b11110, 0b10001, 0b10001, 0b11110, 0b10001, 0b10001, 0b11110, 0b00000, 0b00000},  // B
    {0b01110, 0b10001, 0b10000, 0b10000, 0b10000, 0b10001, 0b01110, 0b00000, 0b00000},  // C
    {0b11100, 0b10010, 0b10001, 0b10001, 0b10001, 0b10010, 0b11100, 0b00000, 0b00000},  // D
    {0b11111, 0b10000, 0b10000, 0b11110, 0b10000, 0b10000, 0b11111, 0b00000, 0b00000},  // E
    {0b11111, 0b10000, 0b10000, 0b11110, 0b10000, 0b10000, 0b10000, 0b00000, 0b00000},  // F
    {0b01110, 0b10001, 0b10000, 0b10111, 0b10001, 0b10001, 0b01111, 0b00000, 0b00000},  // G
    {0b10001, 0b10001, 0b10001, 0b11111, 0b10001, 0b10001, 0b10001, 0b00000, 0b00000},  // H
    {0b01110, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110, 0b00000, 0b00000},  // I
    {0b00111, 0b00010, 0b00010, 0b00010, 0b00010, 0b10010, 0b01100, 0b00000, 0b00000},  // J
    {0b10001, 0b10010, 0b10100, 0b11000, 0b10100, 0b10010, 0b10001, 0b00000, 0b00000},  // K
    {0b10000, 0b10000, 0b10000, 0b10000, 0b10000, 0b10000, 0b11111, 0b00000, 0b00000},  // L
    {0b10001, 0b11011, 0b10101, 0b10101, 0b10001, 0b10001, 0b10001, 0b00000, 0b00000},  // M
    {0b10001, 0b10001, 0b11001, 0b10101, 0b10011, 0b10001, 0b10001, 0b00000, 0b00000},  // N
    {0b01110, 0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b01110, 0b00000, 0b00000},  // O
    {0b11110, 0b10001, 0b10001, 0b11110, 0b10000, 0b10000, 0b10000, 0b00000, 0b00000},  // P
    {0b01110, 0b10001, 0b10001, 0b10001, 0b10101, 0b10010, 0b01101, 0b00000, 0b00000},  // Q
    {0b11110, 0b10001, 0b10001, 0b11110, 0b10100, 0b10010, 0b10001, 0b00000, 0b00000},  // R
    {0b01111, 0b10000, 0b10000, 0b01110, 0b00001, 0b00001, 0b11110, 0b00000, 0b00000},  // S
    {0b11111, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b00000, 0b00000},  // T
    {0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b01110, 0b00000, 0b00000},  // U
    {0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b01010, 0b00100, 0b00000, 0b00000},  // V
    {0b10001, 0b10001, 0b10001, 0b10101, 0b10101, 0b10101, 0b01010, 0b00000, 0b00000},  // W
    {0b10001, 0b10001, 0b01010, 0b00100, 0b01010, 0b10001, 0b10001, 0b00000, 0b00000},  // X
    {0b10001, 0b10001, 0b10001, 0b01010, 0b00100, 0b00100, 0b00100, 0b00000, 0b00000},  // Y
    {0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b10000, 0b11111, 0b00000, 0b00000},  // Z
    {0b01110, 0b01000, 0b01000, 0b01000, 0b01000, 0b01000, 0b01110, 0b00000, 0b00000},  // [
    {0b00000, 0b10000, 0b01000, 0b00100, 0b00010, 0b00001, 0b00000, 0b00000, 0b00000},  // backslash
    {0b01110, 0b00010, 0b00010, 0b00010, 0b00010, 0b00010, 0b01110, 0b00000, 0b00000},  // ]
    {0b00100, 0b01010, 0b10001, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000},  // ^
    {0b00000, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000, 0b11111, 0b00000, 0b00000},  // _
    {0b01000, 0b00100, 0b00010, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000, 0b00000},  // `
    {0b00000, 0b00000, 0b01110, 0b00001, 0b01111, 0b10001, 0b01111, 0b00000, 0b00000},  // a
    {0b10000, 0b10000, 0b10110, 0b11001, 0b10001, 0b10001, 0b11110, 0b00000, 0b00000},  // b
    {0b00000, 0b00000, 0b01110, 0b10000, 0b10000, 0b10001, 0b01110, 0b00000, 0b00000},  // c
    {0b00001, 0b00001, 0b01101, 0b10011, 0b10001, 0b10001, 0b01111, 0b00000, 0b00000},  // d
    {0b00000, 0b00000, 0b01110, 0b10001, 0b11111, 0b10000, 0b01110, 0b00000, 0b00000},  // e
    {0b00110, 0b01001, 0b01000, 0b11100, 0b01000, 0b01000, 0b01000, 0b00000, 0b00000},  // f
    {0b00000, 0b00000, 0b01111, 0b10001, 0b10001, 0b10011, 0b01101, 0b00001, 0b01110},  // g
    {0b10000, 0b10000, 0b10110, 0b11001, 0b10001, 0b10001, 0b10001, 0b00000, 0b00000},  // h
    {0b00100, 0b00000, 0b01100, 0b00100, 0b00100, 0b00100, 0b01110, 0b00000, 0b00000},  // i
    {0b00010, 0b00000, 0b00110, 0b00010, 0b00010, 0b00010, 0b00010, 0b10010, 0b01100},  // j
    {0b10000, 0b10000, 0b10010, 0b10100, 0b11000, 0b10100, 0b10010, 0b00000, 0b00000},  // k
    {0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110, 0b00000, 0b00000},  // l
    {0b00000, 0b00000, 0b11010, 0b10101, 0b10101, 0b10001, 0b10001, 0b00000, 0b00000},  // m
    {0b00000, 0b00000, 0b10110, 0b11001, 0b10001, 0b10001, 0b10001, 0b00000, 0b00000},  // n
    {0b00000, 0b00000, 0b01110, 0b10001, 0b10001, 0b10001, 0b01110, 0b00000, 0b00000},  // o
    {0b00000, 0b00000, 0b10110, 0b11001, 0b10001, 0b11001, 0b10110, 0b10000, 0b10000},  // p
    {0b00000, 0b00000, 0b01101, 0b10011, 0b10001, 0b10011, 0b01101, 0b00001, 0b00001},  // q
    {0b00000, 0b00000, 0b10110, 0b11001, 0b10000, 0b10000, 0b10000, 0b00000, 0b00000},  // r
    {0b00000, 0b00000, 0b01110, 0b10000, 0b01110, 0b00001, 0b11110, 0b00000, 0b00000},  // s
    {0b01000, 0b01000, 0b11100, 0b01000, 0b01000, 0b01001, 0b00110, 0b00000, 0b00000},  // t
    {0b00000, 0b00000, 0b10001, 0b10001, 0b10001, 0b10011, 0b01101, 0b00000, 0b00000},  // u
    {0b00000, 0b00000, 0b10001, 0b10001, 0b10001, 0b01010, 0b00100, 0b00000, 0b00000},  // v
    {0b00000, 0b00000, 0b10001, 0b10001, 0b10101, 0b10101, 0b01010, 0b00000, 0b00000},  // w
    {0b00000, 0b00000, 0b10001, 0b01010, 0b00100, 0b01010, 0b10001, 0b00000, 0b00000},  // x
    {0b00000, 0b00000, 0b10001, 0b10001, 0b10001, 0b10011, 0b01101, 0b00001, 0b01110},  // y
    {0b00000, 0b00000, 0b11111, 0b00010, 0b00100, 0b01000, 0b11111, 0b00000, 0b00000},  // z
    {0b00010, 0b00100, 0b00100, 0b01000, 0b00100, 0b00100, 0b00010, 0b00000, 0b00000},  // {
    {0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b00000, 0b00000},  // |
    {0b01000, 0b00100, 0b00100, 0b00010, 0b00100, 0b00100, 0b01000, 0b00000, 0b00000},  // }
    {0b00000, 0b00000, 0b01000, 0b10101, 0b00010, 0b00000, 0b00000, 0b00000, 0b00000},  // ~
}};

// A rectangle of whole pixels, right and bottom excluded.
struct Rect {
  int left = 0, top = 0, right = 0, bottom = 0;
};

void fill(Image& image, const Rect& rect, const Colour& colour) {
  const int left = std::max(rect.left, 0), right = std::min(rect.right, image.width);
  const int top = std::max(rect.top, 0), bottom = std::min(rect.bottom, image.height);
  for (int y = top; y < bottom; ++y) {
    for (int x = left; x < right; ++x) {
      std::uint8_t* pixel = image.pixel(x, y);
      pixel[0] = colour.red;
      pixel[1] = colour.green;
      pixel[2] = colour.blue;
    }
  }
}

// Converts to a coordinate that fits an image, whatever the box says (NaN and infinities too).
int to_pixel(double coordinate, int limit) {
  if (std::isnan(coordinate)) return 0;
  return static_cast<int>(std::lround(std::clamp(coordinate, 0.0, static_cast<double>(limit))));
}

// Fills `line` in dashes along its longer side.
void fill_dashed(Image& image, const Rect& line, const Colour& colour, int dash) {
  const bool level = line.right - line.left >= line.bottom - line.top;
  const int begin = level ? line.left : line.top, end = level ? line.right : line.bottom;
  for (int at = begin; at < end; at += 2 * dash) {
    Rect piece = line;
    (level ? piece.left : piece.top) = at;
    (level ? piece.right : piece.bottom) = std::min(at + dash, end);
    fill(image, piece, colour);
  }
}

// Returns black or white, whichever reads better on `colour` (Rec. 601 luma).
Colour ink_on(const Colour& colour) {
  const int luma = 299 * colour.red + 587 * colour.green + 114 * colour.blue;
  if (luma > 140'000) return {};
  return {.red = 255, .green = 255, .blue = 255};
}

// Returns the cells of a character; those of '?' if it is not printable ASCII.
const Glyph& glyph_of(char character) {
  const int place = character - ' ';
  const bool is_printable = place >= 0 && place < static_cast<int>(kGlyphs.size());
  return kGlyphs[static_cast<std::size_t>(is_printable ? place : '?' - ' ')];
}

// Returns true for the bytes of a UTF-8 character after its first: such a character is one '?'.
bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

constexpr std::array<Colour, 20> kColours = {{
    {230, 25, 75},   {60, 180, 75},   {255, 225, 25},  {67, 99, 216},   {245, 130, 49},
    {145, 30, 180},  {66, 212, 244},  {240, 50, 230},  {191, 239, 69},  {250, 190, 212},
    {70, 153, 144},  {220, 190, 255}, {154, 99, 36},   {255, 250, 200}, {128, 0, 0},
    {170, 255, 195}, {128, 128, 0},   {255, 216, 177}, {0, 0, 117},     {169, 169, 169},
}};

// Least ratio of a box's shorter side to the line's thickness: the two lines leave most of the box
// visible.
constexpr int kLinesInBox = 10;

}  // namespace

Colour label_colour(int label) {
  return kColours[static_cast<unsigned>(label) % kColours.size()];
}

int text_width_px(const std::string& text, int scale) {
  const auto count = static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
  return count == 0 ? 0 : (count * (kGlyphWidth + 1) - 1) * scale;
}

int text_height_px(int scale) {
  return kGlyphHeight * scale;
}

void draw_text(Image& image, int x, int y, const std::string& text, const TextStyle& style) {
  for (const char character : text) {
    if (continues_character(character)) continue;
    const Glyph& glyph = glyph_of(character);
    for (int row = 0; row < kGlyphHeight; ++row) {
      for (int column = 0; column < kGlyphWidth; ++column) {
        const int bit = glyph[static_cast<std::size_t>(row)] >> (kGlyphWidth - 1 - column);
        if ((bit & 1) == 0) continue;
        const int left = x + column * style.scale, top = y + row * style.scale;
        fill(image, {left, top, left + style.scale, top + style.scale}, style.colour);
      }
    }
    x += (kGlyphWidth + 1) * style.scale;
  }
}

void draw_box(Image& image, const std::array<double, 4>& box, const BoxStyle& style,
              const std::string& text) {
  if (image.width == 0 || image.height == 0) return;
  const int shorter = std::min(image.width, image.height);
  const Rect outer = {to_pixel(box[0], image.width - 1), to_pixel(box[1], image.height - 1),
                      to_pixel(box[2], image.width), to_pixel(box[3], image.height)};
  const int box_side = std::min(outer.right - outer.left, outer.bottom - outer.top);
  const int line = style.thickness_px > 0
                       ? style.thickness_px
                       : std::clamp(box_side / kLinesInBox, 1, 1 + shorter / 300);
  // Boxes are at least one line thick, so that a degenerate one shows too.
  const int right = std::max(outer.right, outer.left + line);
  const int bottom = std::max(outer.bottom, outer.top + line);
  const std::array<Rect, 4> sides = {{{outer.left, outer.top, right, outer.top + line},
                                      {outer.left, bottom - line, right, bottom},
                                      {outer.left, outer.top, outer.left + line, bottom},
                                      {right - line, outer.top, right, bottom}}};
  for (const Rect& side : sides) {
    if (style.dashed) {
      fill_dashed(image, side, style.colour, 3 * line);
    } else {
      fill(image, side, style.colour);
    }
  }
  if (text.empty() || box_side < text_height_px(1)) return;

  // The tab goes above the box if there is room, inside it otherwise, never past the right edge.
  const TextStyle letters = {
      .colour = ink_on(style.colour),
      .scale = std::clamp(box_side / text_height_px(2), 1,
                          std::max(1, static_cast<int>(std::lround(shorter / 250.0))))};
  const int pad = letters.scale;
  const int tab_width = text_width_px(text, letters.scale) + 2 * pad;
  const int tab_height = text_height_px(letters.scale) + pad;
  const int left = std::clamp(outer.left, 0, std::max(0, image.width - tab_width));
  const int top = outer.top >= tab_height ? outer.top - tab_height : outer.top;
  fill(image, {left, top, left + tab_width, top + tab_height}, style.colour);
  draw_text(image, left + pad, top + pad, text, letters);
}

}  // namespace retina
