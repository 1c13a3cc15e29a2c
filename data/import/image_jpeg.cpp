// JPEG through libjpeg, whose errors come by longjmp.
#include "data/import/image_codec.hpp"

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>

#include <jerror.h>

namespace cohort {

namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kLongestMarker = 0xFFFF;

struct JpegTrouble {
    jpeg_error_mgr manager{};  // first: libjpeg hands out its address
    std::jmp_buf back{};
    char text[JMSG_LENGTH_MAX] = {};
};

extern "C" {
[[noreturn]] void cohort_jpeg_failed(j_common_ptr info) {
    auto* trouble = reinterpret_cast<JpegTrouble*>(info->err);
    info->err->format_message(info, trouble->text);
    std::longjmp(trouble->back, 1);
}
/// libjpeg fills up a file that ends too early and only warns. Other warnings are common in good
/// files.
void cohort_jpeg_message(j_common_ptr info, int level) {
    const int code = info->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) {
        cohort_jpeg_failed(info);
    }
}
}

/// One JPEG in memory. Its methods that return false leave a text; nothing with a destructor lives
/// in them, since errors jump over them.
class JpegReader {
public:
    JpegReader() {
        info_.err = jpeg_std_error(&trouble_.manager);
        trouble_.manager.error_exit = cohort_jpeg_failed;
        trouble_.manager.emit_message = cohort_jpeg_message;
    }
    JpegReader(const JpegReader&) = delete;
    JpegReader& operator=(const JpegReader&) = delete;
    ~JpegReader() { jpeg_destroy_decompress(&info_); }

    [[nodiscard]] bool begin(std::span<const std::uint8_t> bytes) {
        if (setjmp(trouble_.back) != 0) {
            return false;
        }
        jpeg_create_decompress(&info_);
        jpeg_save_markers(&info_, kExifMarker, kLongestMarker);
        jpeg_mem_src(&info_, bytes.data(), bytes.size());
        if (jpeg_read_header(&info_, TRUE) != JPEG_HEADER_OK) {
            return false;
        }
        const bool grey = info_.jpeg_color_space == JCS_GRAYSCALE;
        info_.out_color_space = ink() ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
        return true;
    }
    [[nodiscard]] ImageFacts facts() const {
        return {.height = info_.image_height,
                .width = info_.image_width,
                .colour = info_.jpeg_color_space != JCS_GRAYSCALE,
                .turned = turned()};
    }
    /// Cyan, magenta, yellow and black.
    [[nodiscard]] bool ink() const {
        return info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    }
    [[nodiscard]] std::size_t stored_channels() const { return ink() ? 4 : facts().colour ? 3 : 1; }
    [[nodiscard]] bool read(std::uint8_t* pixels) {
        if (setjmp(trouble_.back) != 0) {
            return false;
        }
        jpeg_start_decompress(&info_);
        const std::size_t row_bytes = std::size_t{info_.output_width} * stored_channels();
        while (info_.output_scanline < info_.output_height) {
            JSAMPROW row = pixels + info_.output_scanline * row_bytes;
            jpeg_read_scanlines(&info_, &row, 1);
        }
        return jpeg_finish_decompress(&info_) == TRUE;
    }
    [[nodiscard]] const char* text() const { return trouble_.text; }

private:
    [[nodiscard]] bool turned() const {
        constexpr std::size_t kNameBytes = 6;  // of "Exif" and two zeros
        for (const auto* marker = info_.marker_list; marker != nullptr; marker = marker->next) {
            if (marker->marker == kExifMarker && marker->data_length > kNameBytes &&
                std::memcmp(marker->data, "Exif\0", kNameBytes) == 0) {
                return exif_turned(
                    std::span(marker->data, marker->data_length).subspan(kNameBytes));
            }
        }
        return false;
    }

    JpegTrouble trouble_;
    jpeg_decompress_struct info_{};
};

void begin_jpeg(JpegReader& reader, const std::string& path, std::span<const std::uint8_t> bytes) {
    if (!reader.begin(bytes)) {
        fail_damaged_image(path, reader.text());
    }
    check_image_size(path, reader.facts().height, reader.facts().width);
}

}  // namespace

ImageFacts jpeg_facts(const std::string& path, std::span<const std::uint8_t> bytes) {
    JpegReader reader;
    begin_jpeg(reader, path, bytes);
    return reader.facts();
}

Image read_jpeg(const std::string& path, std::span<const std::uint8_t> bytes) {
    JpegReader reader;
    begin_jpeg(reader, path, bytes);
    const ImageFacts facts = reader.facts();
    Image image{.channels = facts.colour ? 3 : 1,
                .height = facts.height,
                .width = facts.width,
                .pixels = {}};
    image.pixels.resize(static_cast<std::size_t>(image.height * image.width) *
                        reader.stored_channels());
    if (!reader.read(image.pixels.data())) {
        fail_damaged_image(path, reader.text());
    }
    if (reader.ink()) {
        image.pixels = ink_to_rgb(image.pixels);
    }
    return image;
}

}  // namespace cohort
