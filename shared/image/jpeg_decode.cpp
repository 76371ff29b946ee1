#include <csetjmp>
#include <cstdio>
// jpeglib.h needs FILE and size_t declared before it.
#include <jpeglib.h>
// After jpeglib.h: the messages' numbers.
#include <jerror.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/image/decode_status.h"
#include "shared/image/jpeg.h"

namespace retina {
namespace {

// A progressive file of thousands of tiny scans takes minutes to decode; real ones have about 10.
constexpr int kMaxScans = 500;

// MULDIV255 of Pillow's Convert.c: a * b / 255, rounded.
int scaled(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// One row of CMYK as libjpeg gives it, inverted (Adobe's habit; Pillow takes every CMYK JPEG so).
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, int width) {
  for (int x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    const int white = cmyk[3];
    for (int c = 0; c < 3; ++c) {
      rgb[c] = static_cast<std::uint8_t>(white - scaled(255 - cmyk[c], white));
    }
  }
}

}  // namespace

// libjpeg calls back into this and leaves by longjmp: every function that calls setjmp holds plain
// values only, so that no destructor is ever jumped over.
struct JpegDecoder::State {
  explicit State(std::uint64_t max_pixels_allowed) : max_pixels(max_pixels_allowed) {}

  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape{};
  std::array<char, JMSG_LENGTH_MAX> error_text{}, warning_text{};
  int warning_count = 0;
  bool lacks_memory = false;  // this, not the file, was the last error
  bool ended_early = false;   // libjpeg asked for bytes after the last one
  bool ran_dry = false;       // entropy data ended inside a scan
  bool lacks_rows = false;    // at the end marker, a row of blocks or more too early
  bool is_complete = false;   // every coefficient of every component was in some scan
  std::uint64_t max_pixels;
  std::vector<std::uint8_t> cmyk_row{};

  static State& of(j_common_ptr info) { return *static_cast<State*>(info->client_data); }

  [[noreturn]] static void on_error(j_common_ptr info) {
    State& state = of(info);
    info->err->format_message(info, state.error_text.data());
    const int code = info->err->msg_code;
    state.lacks_memory = code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE;
    std::longjmp(state.escape, 1);
  }

  static void on_message(j_common_ptr info, int level) {
    if (level >= 0) return;
    State& state = of(info);
    if (state.warning_count++ == 0) info->err->format_message(info, state.warning_text.data());
    if (info->err->msg_code == JWRN_JPEG_EOF) state.ended_early = true;
    if (info->err->msg_code == JWRN_HIT_MARKER) {
      state.ran_dry = true;
      state.lacks_rows = state.lacks_rows || ends_before_last_row(state.info);
    }
  }

  // An end marker proves nothing: tools put it behind half a stream. A flipped bit, too, makes the
  // decoder lose count and run into it, but by less than a row of blocks.
  static bool ends_before_last_row(const jpeg_decompress_struct& info) {
    return info.unread_marker == JPEG_EOI && info.input_iMCU_row + 1 < info.total_iMCU_rows;
  }

  static void on_progress(j_common_ptr info) {
    State& state = of(info);
    if (state.info.input_scan_number > kMaxScans) {
      std::snprintf(state.error_text.data(), state.error_text.size(), "more than %d scans",
                    kMaxScans);
      std::longjmp(state.escape, 1);
    }
  }

  static void no_output(j_common_ptr) {}

  bool create() {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = on_error;
    errors.emit_message = on_message;
    errors.output_message = no_output;
    progress.progress_monitor = on_progress;
    info.client_data = this;
    if (setjmp(escape) != 0) return false;
    jpeg_create_decompress(&info);
    info.client_data = this;
    info.progress = &progress;
    return true;
  }

  bool read_header(std::string_view bytes) {
    jpeg_abort_decompress(&info);  // whatever the previous image left
    warning_count = 0;
    lacks_memory = ended_early = ran_dry = lacks_rows = is_complete = false;
    error_text[0] = warning_text[0] = '\0';
    if (setjmp(escape) != 0) return false;
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&info, TRUE);
    const bool is_cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
    info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    info.dct_method = JDCT_ISLOW;
    info.do_fancy_upsampling = TRUE;
    return true;
  }

  // All rows into `rgb`, which has room for width * height * 3; `cmyk_row` has one row's room.
  bool read_pixels(std::uint8_t* rgb) {
    if (setjmp(escape) != 0) return false;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      std::uint8_t* row = rgb + std::size_t{info.output_scanline} * info.output_width * 3;
      const bool is_cmyk = info.out_color_space == JCS_CMYK;
      JSAMPROW target = is_cmyk ? cmyk_row.data() : row;
      jpeg_read_scanlines(&info, &target, 1);
      if (is_cmyk) cmyk_to_rgb(target, row, static_cast<int>(info.output_width));
    }
    is_complete = all_coefficients_seen();
    jpeg_finish_decompress(&info);
    return true;
  }

  // Whether nothing comes after the header of the first scan.
  bool is_blank() const { return info.src->bytes_in_buffer == 0; }

  // Each block takes a bit at least: its DC coefficient has a Huffman code in every sequential file
  // and in the first scan of every progressive one (ITU T.81, F.1.2.1, G.1.2.1). Of a blank file,
  // which has none on purpose, all that it holds counts.
  bool is_too_short(std::size_t size_bytes) const {
    if (info.arith_code != FALSE) return false;
    std::uint64_t block_count = 0;
    for (int c = 0; c < info.num_components; ++c) {
      block_count +=
          std::uint64_t{info.comp_info[c].width_in_blocks} * info.comp_info[c].height_in_blocks;
    }
    return block_count / 8 > (is_blank() ? size_bytes : info.src->bytes_in_buffer);
  }

  // A file cut between two scans ends without any complaint except about the missing end marker.
  bool all_coefficients_seen() const {
    for (int c = 0; c < info.num_components; ++c) {
      if (info.comp_info[c].quant_table == nullptr) return false;  // no scan had this component
      if (info.coef_bits == nullptr) continue;                     // not progressive
      // Bits of the coefficient still to come; -1: none has come.
      const int* bits = info.coef_bits[c];
      if (std::any_of(bits, bits + DCTSIZE2, [](int missing) { return missing != 0; })) {
        return false;
      }
    }
    return true;
  }

  void fill(DecodeStatus& status) const {
    if (lacks_memory) throw std::bad_alloc();
    status.warning_count = warning_count;
    if (warning_count > 0) status.first_warning = warning_text.data();
    if (!status.ok) status.problem = error_text.data();
  }

  // After the pixels.
  void fill_truncation(DecodeStatus& status) const {
    // The arithmetic decoder feeds itself zeros at the end of the file and says nothing.
    status.truncated =
        !is_complete || lacks_rows || (ended_early && (ran_dry || info.arith_code != FALSE));
    if (status.truncated && warning_count == 0) status.first_warning = "its last scans are missing";
  }
};

JpegDecoder::JpegDecoder(std::uint64_t max_pixels) : state_(std::make_unique<State>(max_pixels)) {
  if (!state_->create()) {
    if (state_->lacks_memory) throw std::bad_alloc();
    throw Error(ErrorKind::kUnavailable, cat("libjpeg: ", state_->error_text.data()));
  }
}

JpegDecoder::~JpegDecoder() {
  if (state_ != nullptr) jpeg_destroy_decompress(&state_->info);
}

JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;

JpegDecoder& JpegDecoder::operator=(JpegDecoder&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

DecodeStatus JpegDecoder::read_size(std::string_view bytes, int& width, int& height) {
  if (image_format(bytes) != "JPEG") {
    return {.ok = false, .problem = describe_other_format(bytes, "JPEG")};
  }
  DecodeStatus status{.ok = state_->read_header(bytes)};
  if (status.ok) {
    width = static_cast<int>(state_->info.image_width);
    height = static_cast<int>(state_->info.image_height);
  }
  state_->fill(status);
  return status;
}

DecodeStatus JpegDecoder::check_header(std::string_view bytes, int& width, int& height) {
  DecodeStatus status = read_size(bytes, width, height);
  if (!status.ok) return status;
  if (has_too_many_pixels(width, height, state_->max_pixels, status.problem)) {
    status.ok = false;
  } else if (state_->is_too_short(bytes.size())) {
    status.ok = false;
    status.problem =
        cat("truncated: ", bytes.size(), " bytes cannot hold ", width, "x", height, " pixels");
  }
  return status;
}

DecodeStatus JpegDecoder::decode(std::string_view bytes, Image& out) {
  DecodeStatus status = check_header(bytes, out.width, out.height);
  if (!status.ok) return status;
  const auto width = static_cast<std::size_t>(out.width);
  out.rgb.resize(width * static_cast<std::size_t>(out.height) * 3);
  if (state_->info.out_color_space == JCS_CMYK) state_->cmyk_row.resize(width * 4);
  status.is_blank = state_->is_blank();
  status.ok = state_->read_pixels(out.rgb.data());
  state_->fill(status);
  if (status.ok) state_->fill_truncation(status);
  return status;
}

std::uint64_t JpegDecoder::max_pixels() const {
  return state_->max_pixels;
}

}  // namespace retina
