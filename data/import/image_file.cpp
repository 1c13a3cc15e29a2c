// PNG through libpng's simplified interface, JPEG through libjpeg, whose errors come by longjmp.
#include "data/import/image_file.hpp"

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"

#include "data/hdf5/file_io.hpp"
#include "data/import/import_formats.hpp"

#include <fmt/format.h>

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>
#include <png.h>

#include <jerror.h>

namespace cohort {

namespace {

constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 30U;
constexpr std::int64_t kMostPixels = std::int64_t{1} << 28U;

using Bytes = std::vector<std::uint8_t>;

Bytes file_contents(const std::string& path) {
    const FileDescriptor file = open_readable(path);
    const std::uint64_t bytes = file_bytes(file, path);
    require_file(bytes <= kLargestFile, path, "too large for an image", "at most 1 GiB",
                 fmt::format("{} bytes", bytes));
    Bytes contents(bytes);
    read_at(file, path, 0, std::as_writable_bytes(std::span(contents)));
    return contents;
}

[[noreturn]] void fail_damaged(const std::string& path, const char* reason) {
    fail<FileError>({.where = path, .what = "the image is damaged or unusable", .got = reason});
}

void check_size(const std::string& path, const ImageFacts& facts) {
    require_file(facts.height >= 1 && facts.width >= 1 &&
                     facts.height <= kMostPixels / std::max<std::int64_t>(facts.width, 1),
                 path, "unusable size of an image", fmt::format("1 to {} pixels", kMostPixels),
                 fmt::format("{}x{}", facts.height, facts.width));
}

/// One PNG in memory.
class PngReader {
public:
    PngReader(const std::string& path, const Bytes& bytes) : path_(path) {
        image_.version = PNG_IMAGE_VERSION;
        check(png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size()));
    }
    PngReader(const PngReader&) = delete;
    PngReader& operator=(const PngReader&) = delete;
    ~PngReader() { png_image_free(&image_); }

    [[nodiscard]] ImageFacts facts() const {
        return {image_.height, image_.width, (image_.format & PNG_FORMAT_FLAG_COLOR) != 0};
    }
    void read(bool colour, std::uint8_t* pixels) {
        constexpr png_color kWhite{255, 255, 255};
        image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // else 16 bits would be taken as linear
        image_.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
        check(png_image_finish_read(&image_, &kWhite, pixels, 0, nullptr));
    }

private:
    void check(int done) const {
        if (done == 0) {
            fail_damaged(path_, image_.message);
        }
    }

    const std::string& path_;
    png_image image_{};
};

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

    [[nodiscard]] bool begin(const Bytes& bytes) {
        if (setjmp(trouble_.back) != 0) {
            return false;
        }
        jpeg_create_decompress(&info_);
        jpeg_mem_src(&info_, bytes.data(), bytes.size());
        return jpeg_read_header(&info_, TRUE) == JPEG_HEADER_OK;
    }
    [[nodiscard]] ImageFacts facts() const {
        return {info_.image_height, info_.image_width, info_.jpeg_color_space != JCS_GRAYSCALE};
    }
    [[nodiscard]] bool read(bool colour, std::uint8_t* pixels) {
        if (setjmp(trouble_.back) != 0) {
            return false;
        }
        info_.out_color_space = colour ? JCS_RGB : JCS_GRAYSCALE;
        jpeg_start_decompress(&info_);
        while (info_.output_scanline < info_.output_height) {
            JSAMPROW row = pixels + std::size_t{info_.output_scanline} * info_.output_width *
                                        (colour ? 3U : 1U);
            jpeg_read_scanlines(&info_, &row, 1);
        }
        return jpeg_finish_decompress(&info_) == TRUE;
    }
    [[nodiscard]] const char* text() const { return trouble_.text; }

private:
    JpegTrouble trouble_;
    jpeg_decompress_struct info_{};
};

bool starts_as_png(const Bytes& bytes) {
    return bytes.size() >= 8 && png_sig_cmp(bytes.data(), 0, 8) == 0;
}

bool starts_as_jpeg(const Bytes& bytes) {
    return bytes.size() >= 3 && std::memcmp(bytes.data(), "\xFF\xD8\xFF", 3) == 0;
}

/// Calls read(facts, fill) where fill(colour, pixels) decodes.
template <class Read>
void open_image(const std::string& path, const Read& read) {
    const Bytes bytes = file_contents(path);
    if (starts_as_png(bytes)) {
        PngReader png(path, bytes);
        check_size(path, png.facts());
        read(png.facts(), [&](bool colour, std::uint8_t* pixels) { png.read(colour, pixels); });
        return;
    }
    require_file(starts_as_jpeg(bytes), path, "not an image", "PNG or JPEG", "other first bytes");
    JpegReader jpeg;
    if (!jpeg.begin(bytes)) {
        fail_damaged(path, jpeg.text());
    }
    check_size(path, jpeg.facts());
    read(jpeg.facts(), [&](bool colour, std::uint8_t* pixels) {
        if (!jpeg.read(colour, pixels)) {
            fail_damaged(path, jpeg.text());
        }
    });
}

}  // namespace

bool named_image(const std::string& path) {
    const std::string name = plain_name(path);
    return name.ends_with(".png") || name.ends_with(".jpg") || name.ends_with(".jpeg");
}

ImageFacts image_facts(const std::string& path) {
    ImageFacts found;
    open_image(path, [&](const ImageFacts& facts, const auto& /*fill*/) { found = facts; });
    return found;
}

Image read_image(const std::string& path, bool colour) {
    Image image{.channels = colour ? 3 : 1};
    open_image(path, [&](const ImageFacts& facts, const auto& fill) {
        image.height = facts.height;
        image.width = facts.width;
        image.pixels.resize(static_cast<std::size_t>(image.height * image.width * image.channels));
        fill(colour, image.pixels.data());
    });
    return image;
}

}  // namespace cohort
