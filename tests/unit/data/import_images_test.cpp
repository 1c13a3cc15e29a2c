// Folders of images: PNG and JPEG, their layout, size and channels, damage; resampling.
#include "support/data/import_test.hpp"

#include "data/import/image_file.hpp"

#include <cmath>
#include <cstdio>

#include <jpeglib.h>
#include <png.h>

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Smooth, so that JPEG hardly changes it.
Image gradient(std::int64_t height, std::int64_t width, std::int64_t channels) {
    Image image{.channels = channels, .height = height, .width = width, .pixels = {}};
    for (std::int64_t i = 0; i < height * width * channels; ++i) {
        const std::int64_t x = i / channels % width;
        const std::int64_t y = i / channels / width;
        image.pixels.push_back(static_cast<std::uint8_t>(50 + 2 * x + 3 * y + 20 * (i % channels)));
    }
    return image;
}

void write_png(const std::string& path, const Image& image, png_uint_32 format) {
    png_image png{};
    png.version = PNG_IMAGE_VERSION;
    png.width = static_cast<png_uint_32>(image.width);
    png.height = static_cast<png_uint_32>(image.height);
    png.format = format;
    ASSERT_NE(png_image_write_to_file(&png, path.c_str(), 0, image.pixels.data(), 0, nullptr), 0);
}
void write_png(const std::string& path, const Image& image) {
    write_png(path, image, image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY);
}

void write_jpeg(const std::string& path, Image image) {
    jpeg_compress_struct info{};
    jpeg_error_mgr errors{};
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    std::FILE* file = std::fopen(path.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    jpeg_stdio_dest(&info, file);
    info.image_width = static_cast<JDIMENSION>(image.width);
    info.image_height = static_cast<JDIMENSION>(image.height);
    info.input_components = static_cast<int>(image.channels);
    info.in_color_space = image.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 100, TRUE);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        JSAMPROW row = image.pixels.data() +
                       info.next_scanline * static_cast<std::size_t>(image.width * image.channels);
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    std::fclose(file);
}

class ImagesTest : public ImportTest {
protected:
    std::string image(const std::string& name) {
        std::filesystem::create_directories(std::filesystem::path(file(name)).parent_path());
        return file(name);
    }
    ImportOptions folders() const {
        ImportOptions how = options();
        how.format = ImportFormat::kFolder;
        return how;
    }
};

TEST_F(ImagesTest, FilesGiveTheirPixelsAgain) {
    for (const std::int64_t channels : {1, 3}) {
        const Image wanted = gradient(7, 13, channels);
        write_png(file("a.png"), wanted);
        EXPECT_EQ(read_image(file("a.png")).pixels, wanted.pixels);
        EXPECT_EQ(image_facts(file("a.png")).colour, channels == 3);
        write_jpeg(file("a.JPEG"), wanted);
        const Image got = read_image(file("a.JPEG"));
        EXPECT_EQ(image_facts(file("a.JPEG")).colour, channels == 3);
        ASSERT_EQ(got.pixels.size(), wanted.pixels.size());
        for (std::size_t i = 0; i < wanted.pixels.size(); ++i) {
            EXPECT_NEAR(got.pixels[i], wanted.pixels[i], 6) << i;
        }
    }
    const Image grey = gradient(3, 4, 1);
    write_png(file("grey.png"), grey);
    const Image three = in_colour(read_image(file("grey.png")));
    for (std::size_t i = 0; i < three.pixels.size(); ++i) {
        EXPECT_EQ(three.pixels[i], grey.pixels[i / 3]);
    }
}

TEST_F(ImagesTest, TransparentPixelsAreMixedWithWhiteAsStored) {
    const Image clear{.channels = 4,
                      .height = 1,
                      .width = 4,
                      .pixels = {10, 20, 30, 0, 40, 50, 60, 255, 0, 0, 0, 250, 255, 0, 0, 64}};
    write_png(file("a.png"), clear, PNG_FORMAT_RGBA);
    EXPECT_THAT(read_image(file("a.png")).pixels,
                ElementsAre(255, 255, 255, 40, 50, 60, 5, 5, 5, 255, 191, 191));
    EXPECT_EQ(channels_first(read_image(file("a.png"))),
              (std::vector<std::uint8_t>{255, 40, 5, 255, 255, 50, 5, 191, 255, 60, 5, 191}));
}

TEST_F(ImagesTest, ClassesAreFoldersInTheOrderOfTheirNames) {
    const Image grey = gradient(4, 5, 1);
    for (const char* name : {"train/cat/1.png", "train/cat/2.png", "train/ape/x.png",
                             "train/dog/x.png", "test/cat/1.png", "test/dog/1.png"}) {
        write_png(image(name), grey);
    }
    write(image("train/cat/notes.txt"), "no image");
    write(image("train/.hidden/b.png"), "no image");
    const ImportReport report = import(folders());
    EXPECT_EQ(report.train.samples, 4);
    EXPECT_EQ(report.test.samples, 2);
    EXPECT_EQ(report.train.classes, 3);
    EXPECT_THAT(report.train.sample_shape, ElementsAre(1, 4, 5));
    EXPECT_THAT(report.note, HasSubstr("6 images, classes ape, cat, dog"));
    RawChunk train = chunk("train");
    std::ranges::sort(train.labels);
    EXPECT_THAT(train.labels, ElementsAre(0, 1, 1, 2));
    EXPECT_EQ(std::memcmp(train.data.data(), grey.pixels.data(), 20), 0);
}

TEST_F(ImagesTest, OneColourImageMakesAllOfThemColourAndTheOrderIsDrawn) {
    for (int i = 0; i < 40; ++i) {
        const std::string name = (i < 20 ? "a/" : "b/") + std::to_string(i) + ".png";
        write_png(image(name), gradient(2, 2, i == 7 ? 3 : 1));
    }
    ImportOptions how = folders();
    how.test_fraction = 0.25;
    const ImportReport report = import(how);
    EXPECT_THAT(report.train.sample_shape, ElementsAre(3, 2, 2));
    EXPECT_EQ(report.train.samples + report.test.samples, 40);
    EXPECT_GT(report.test.samples, 0);
    const std::vector<std::int32_t> labels = chunk("train").labels;
    EXPECT_FALSE(std::ranges::is_sorted(labels)) << "classes must not follow one another";
    import(how);
    EXPECT_EQ(chunk("train").labels, labels);
    how.seed = 9;
    import(how);
    EXPECT_NE(chunk("train").labels, labels);
}

TEST_F(ImagesTest, SizesMustAgreeUnlessOneIsGiven) {
    write_png(image("train/a/1.png"), gradient(4, 6, 1));
    write_jpeg(image("train/b/1.jpg"), gradient(8, 6, 1));
    write_png(image("test/a/1.png"), gradient(4, 6, 1));
    EXPECT_THAT(error(folders()),
                AllOf(HasSubstr("1.jpg"), HasSubstr("expected 4x6, got 8x6"), HasSubstr("--size")));
    ImportOptions how = folders();
    how.size = {3, 2};
    EXPECT_THAT(import(how).train.sample_shape, ElementsAre(1, 3, 2));
    how = options();
    how.size = {3, 2};
    EXPECT_THROW(import(how), UsageError);
    how = folders();
    how.shape = {1, 4, 6};
    EXPECT_THROW(import(how), UsageError);
}

TEST_F(ImagesTest, DamagedAndMisplacedImagesAreNamed) {
    const Image grey = gradient(20, 20, 1);
    write_png(image("train/a/1.png"), grey);
    write_png(image("test/a/1.png"), grey);
    for (const char* name : {"train/b/bad.png", "train/b/bad.jpg"}) {
        const bool png = std::string(name).ends_with("png");
        png ? write_png(image(name), grey) : write_jpeg(image(name), grey);
        const Bytes good = read(file(name));
        for (const Bytes& bad : {good.substr(0, good.size() / 2), good.substr(0, 30), Bytes("GIF"),
                                 Bytes(), good.substr(0, 4)}) {
            write(file(name), bad);
            EXPECT_THAT(error(folders()), HasSubstr(name)) << bad.size();
        }
        std::filesystem::remove(file(name));
        EXPECT_THAT(error(folders()),
                    AllOf(HasSubstr("train/b]"), HasSubstr("a class without images")));
        write(file("train/b/1.webp"), Bytes("RIFF\0\0\0\0WEBPVP8 ", 16));
        EXPECT_THAT(error(folders()),
                    AllOf(HasSubstr("1 image in train/b"), HasSubstr("got WebP")));
        std::filesystem::remove(file("train/b/1.webp"));
    }
    std::filesystem::remove_all(file("train/b"));
    EXPECT_THAT(error(options()), HasSubstr("--format folder"));
    write_png(image("train/deep/er/1.png"), grey);
    EXPECT_THAT(error(folders()), AllOf(HasSubstr("er/1.png"), HasSubstr("FOLDER/CLASS/IMAGE")));
    std::filesystem::remove_all(file("train/deep"));
    write_png(image("test/new/1.png"), grey);
    EXPECT_THAT(error(folders()), HasSubstr("a class of test images without train images"));
    std::filesystem::remove_all(file("test"));
    std::filesystem::remove_all(file("train"));
    EXPECT_THAT(error(folders()), HasSubstr("the folder has no images"));
    ImportOptions how = folders();
    how.inputs = {file("nowhere")};
    EXPECT_THAT(error(how), HasSubstr("no such file or folder"));
}

TEST(Resized, KeepsWhatIsConstantAndWhatHasTheSize) {
    const Image image = gradient(5, 7, 3);
    EXPECT_EQ(resized(image, 5, 7).pixels, image.pixels);
    Image flat = image;
    std::ranges::fill(flat.pixels, std::uint8_t{93});
    for (const auto& [height, width] : {std::pair(1, 1), std::pair(11, 3), std::pair(2, 29)}) {
        const Image other = resized(flat, height, width);
        EXPECT_EQ(other.pixels.size(), static_cast<std::size_t>(3 * height * width));
        EXPECT_TRUE(std::ranges::all_of(other.pixels, [](int v) { return v == 93; }));
    }
}

TEST(Resized, IsLinearBetweenPixelsAndAMeanOverThem) {
    const Image two{.channels = 1, .height = 1, .width = 2, .pixels = {0, 100}};
    EXPECT_THAT(resized(two, 1, 4).pixels, ElementsAre(0, 25, 75, 100));
    const Image four{.channels = 1, .height = 1, .width = 4, .pixels = {0, 0, 80, 80}};
    // Weights 1/4, 3/4, 3/4, 1/4 of the pixels around; the border's ends are left out.
    EXPECT_THAT(resized(four, 1, 2).pixels, ElementsAre(11, 69));
    const Image tall{.channels = 1, .height = 4, .width = 1, .pixels = {0, 0, 80, 80}};
    EXPECT_THAT(resized(tall, 2, 1).pixels, ElementsAre(11, 69));
}

}  // namespace
}  // namespace cohort
